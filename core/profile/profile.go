package profile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// SchemaVersion is the profile schema this package reads and writes (docs/profile.schema.json).
const SchemaVersion = 1

// Profile is one multiplication's arithmetic.
type Profile struct {
	SchemaVersion int         `json:"schema_version"`
	Name          string      `json:"name,omitempty"`
	Step          step.Params `json:"step"`
	Plan          plan.Plan   `json:"plan"`
	Epilogue      Epilogue    `json:"epilogue"`
	Provenance    Provenance  `json:"provenance"`
}

// Provenance says how a profile is known.
type Provenance struct {
	Source    string `json:"source"`              // such as "H200", "data A100", "pub", "derived: …": docs/arithmetic.md lists them
	Hardware  string `json:"hardware,omitempty"`  // the GPUs it speaks of
	Library   string `json:"library,omitempty"`   // such as cuBLAS 13.1.0.3
	Certified string `json:"certified,omitempty"` // what agreed with it, how much and when
	Doubts    string `json:"doubts,omitempty"`    // why it might be wrong; printed wherever the profile is
	DataOnly  bool   `json:"data_only,omitempty"` // package gemm declines it but at the level Oracle, the scalar model
}

// document is a profile as written in JSON: the step may be the name of a row of step.Catalogue.
type document struct {
	SchemaVersion int             `json:"schema_version"`
	Name          string          `json:"name,omitempty"`
	Step          json.RawMessage `json:"step"`
	Plan          plan.Plan       `json:"plan"`
	Epilogue      Epilogue        `json:"epilogue"`
	Provenance    Provenance      `json:"provenance"`
}

// Parse reads one profile. Unknown fields and other schema versions are errors; every error names the field.
func Parse(text []byte) (*Profile, error) {
	if err := checkKeys(text); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	var d document
	if err := strict(text, &d, ""); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if d.SchemaVersion != SchemaVersion {
		return nil, fmt.Errorf("profile: schema_version: is %d, this version of Hawkeye reads %d", d.SchemaVersion, SchemaVersion)
	}
	p := &Profile{SchemaVersion: d.SchemaVersion, Name: d.Name, Plan: d.Plan, Epilogue: d.Epilogue, Provenance: d.Provenance}
	switch trimmed := bytes.TrimSpace(d.Step); {
	case len(trimmed) == 0 || string(trimmed) == "null":
		return nil, errors.New("profile: step: missing; give its parameters, or the name of a row such as \"hopper/bf16\"")
	case trimmed[0] == '"':
		var name string
		if err := json.Unmarshal(trimmed, &name); err != nil {
			return nil, fmt.Errorf("profile: step: %w", err)
		}
		entry, ok := step.Find(name)
		if !ok {
			return nil, fmt.Errorf("profile: step: no row is called %q%s", name, suggest(name, stepNames()))
		}
		p.Step = entry.Params
	default:
		if err := strict(trimmed, &p.Step, "step."); err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return p, nil
}

// strict decodes one JSON value and nothing after it, refusing unknown fields.
func strict(text []byte, into any, prefix string) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		var typed *json.UnmarshalTypeError
		if errors.As(err, &typed) && typed.Field != "" {
			return fmt.Errorf("%s%s: is a JSON %s, which is not what belongs there", prefix, typed.Field, typed.Value)
		}
		message := strings.TrimPrefix(err.Error(), "json: ")
		if name, found := strings.CutPrefix(message, "unknown field "); found {
			return fmt.Errorf("%s%s: unknown field", prefix, strings.Trim(name, `"`))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			message = "the JSON ends too early"
		}
		if prefix != "" {
			return fmt.Errorf("%s: %s", strings.TrimSuffix(prefix, "."), message)
		}
		return errors.New(message)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more text after the JSON object")
	}
	return nil
}

// Validate checks that the parts are well formed and fit together.
func (p *Profile) Validate() error {
	if err := p.Step.Validate(); err != nil {
		return fmt.Errorf("step.%w", err)
	}
	if err := p.Plan.Validate("plan"); err != nil {
		return err
	}
	if err := p.checkMerges(&p.Plan, "plan"); err != nil {
		return err
	}
	if err := p.Epilogue.validate("epilogue", &p.Step); err != nil {
		return err
	}
	if p.Epilogue.Scaling != ScalingNone && (p.Plan.Serial != nil || p.Plan.Tree != nil && p.Plan.Tree.Root.Serial) {
		return errors.New("epilogue.scaling: how scales enter a serial sum is not known")
	}
	return nil
}

// checkMerges refuses merges that mix floating-point families: sums of f64 or s32 accumulators stay there.
func (p *Profile) checkMerges(of *plan.Plan, path string) error {
	check := func(m plan.Merge, path string) error {
		wide := p.Step.Result == format.F64 || p.Step.Result == format.S32
		if wide && (m.Partial != p.Step.Result || m.Sum != p.Step.Result) {
			return fmt.Errorf("%s: partial sums of a step with result %v are merged in %v", path, p.Step.Result, p.Step.Result)
		}
		if !wide && (m.Sum == format.F64 || m.Sum == format.S32 || m.Partial == format.F64 || m.Partial == format.S32) {
			return fmt.Errorf("%s: a step with result %v is not merged in f64 or s32", path, p.Step.Result)
		}
		return nil
	}
	switch {
	case of.Split != nil:
		if err := check(of.Split.Merge, path+".split.merge"); err != nil {
			return err
		}
		return p.checkMerges(of.Split.Of, path+".split.of")
	case of.Promote != nil:
		if err := check(of.Promote.Merge, path+".promote.merge"); err != nil {
			return err
		}
		return p.checkMerges(of.Promote.Of, path+".promote.of")
	case of.Lanes != nil:
		if err := check(of.Lanes.Merge, path+".lanes.merge"); err != nil {
			return err
		}
		return p.checkMerges(of.Lanes.Of, path+".lanes.of")
	case of.Serial != nil:
		return p.checkMerges(of.Serial.Of, path+".serial.of")
	case of.Tree != nil:
		return checkTree(of.Tree.Root, path+".tree.root", check)
	}
	return nil
}

func checkTree(t *plan.Tree, path string, check func(plan.Merge, string) error) error {
	if t.Leaf() {
		return nil
	}
	if t.Merge != nil { // a serial root has none
		if err := check(*t.Merge, path+".merge"); err != nil {
			return err
		}
	}
	for i, child := range t.Sum {
		if err := checkTree(child, fmt.Sprintf("%s.sum[%d]", path, i), check); err != nil {
			return err
		}
	}
	return nil
}

// JSON is the profile's canonical form: sorted keys, no white space, the step spelled out.
func (p *Profile) JSON() []byte { return canonical(p) }

// ID is the sha256, in hexadecimal, of the canonical form of the profile's arithmetic: schema_version, step, plan and
// epilogue. Two profiles with one ID compute the same bits, whatever they are called and however they are known.
func (p *Profile) ID() string {
	sum := sha256.Sum256(canonical(struct {
		SchemaVersion int         `json:"schema_version"`
		Step          step.Params `json:"step"`
		Plan          plan.Plan   `json:"plan"`
		Epilogue      Epilogue    `json:"epilogue"`
	}{p.SchemaVersion, p.Step, p.Plan, p.Epilogue}))
	return hex.EncodeToString(sum[:])
}

// canonical sorts keys by passing through generic JSON.
func canonical(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("profile: a profile that validates marshals: %v", err))
	}
	var generic any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&generic); err != nil {
		panic(fmt.Sprintf("profile: what was marshalled unmarshals: %v", err))
	}
	if text, err = json.Marshal(generic); err != nil {
		panic(fmt.Sprintf("profile: generic JSON marshals: %v", err))
	}
	return text
}

// Runnable tells whether package gemm runs the profile at every level; it runs the others at the level Oracle alone.
func (p *Profile) Runnable() bool { return !p.Provenance.DataOnly }

// TakesF32 tells whether f32 operands are taken though the step's format is narrower.
func (p *Profile) TakesF32() bool { return p.Step.TakesF32() }

// Summary is one line: what multiplies into what, in which order.
func (p *Profile) Summary() string {
	return fmt.Sprintf("%v × %v → %v, %s", p.Step.A, p.Step.B, p.Step.Result, p.Plan.Describe())
}

// Describe says the profile in a paragraph for a person.
func (p *Profile) Describe() string {
	var b strings.Builder
	if p.Name != "" {
		fmt.Fprintf(&b, "%s: ", p.Name)
	}
	fmt.Fprintf(&b, "%s The order: %s. Then %s.", strings.TrimSpace(p.Step.Describe()), p.Plan.Describe(), p.Epilogue.Describe())
	if p.Provenance.Source != "" {
		fmt.Fprintf(&b, " Known from: %s.", strings.TrimSuffix(p.Provenance.Source, "."))
	}
	if known := catalogue()[p.Name]; known != nil && known.ID() != p.ID() {
		fmt.Fprintf(&b, " This is not the catalogue's %s: its arithmetic is another, and what it is known from is its own claim.", p.Name)
	}
	if p.Provenance.Doubts != "" {
		fmt.Fprintf(&b, " Doubtful: %s.", strings.TrimSuffix(p.Provenance.Doubts, "."))
	}
	if p.Provenance.DataOnly {
		b.WriteString(" Data and scalar model only: whole matrices are run at the instruction set \"oracle\" alone.")
	}
	return b.String()
}
