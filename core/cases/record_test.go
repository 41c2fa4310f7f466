package cases

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// TestRecordRoundTrip: what the importer makes of every golden case comes back from JSON unchanged.
func TestRecordRoundTrip(t *testing.T) {
	g, err := ReadGolden(goldenSet)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range g.Cases {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back Case
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v\n%s", c.ID, err, text)
		}
		if len(c.Scalars) == 0 {
			back.Scalars = c.Scalars // an empty map is left out
		}
		if !reflect.DeepEqual(c, &back) {
			t.Errorf("%s: wrote %+v, read %+v", c.ID, c, &back)
		}
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(text) {
			t.Errorf("%s: %v\n%s\nthen\n%s", c.ID, err, text, again)
		}
	}
}

// recordText is a minimal record with one field replaced or added; an empty value removes it.
func recordText(t *testing.T, name, value string) string {
	t.Helper()
	tensor := func(shape string) json.RawMessage {
		return json.RawMessage(`{"format":"f16","shape":` + shape + `,"strides":[1,1,1]}`)
	}
	fields := map[string]json.RawMessage{
		"record_version": json.RawMessage(`"1.0"`), "id": json.RawMessage(`"x"`), "op": json.RawMessage(`"mm"`),
		"a": tensor("[2,3,5]"), "b": tensor("[2,5,7]"), "out": json.RawMessage(`{"format":"f32","shape":[2,3,7]}`),
	}
	if fields[name] = json.RawMessage(value); value == "" {
		delete(fields, name)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRecordKeepsUnknownFields: a record of a later minor version passes through this one whole.
func TestRecordKeepsUnknownFields(t *testing.T) {
	for _, value := range []string{`{"nested":[1,2,{"deep":null}]}`, `"text"`, `12345678901234567890123`, `null`, `[]`} {
		text := recordText(t, "from_the_future", value)
		text = strings.Replace(text, `"1.0"`, `"1.7"`, 1)
		var c Case
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if len(c.Extra) != 1 || string(c.Extra["from_the_future"]) != value {
			t.Errorf("kept %v", c.Extra)
		}
		back, err := json.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(back, &fields); err != nil {
			t.Fatal(err)
		}
		if string(fields["from_the_future"]) != value || string(fields["record_version"]) != `"1.7"` {
			t.Errorf("wrote %s", back)
		}
	}
	var c Case
	if err := json.Unmarshal([]byte(recordText(t, "id", `"y"`)), &c); err != nil || c.Extra != nil {
		t.Errorf("nothing unknown: %v, %v", c.Extra, err)
	}
	// A known field's own value wins over an unknown one that took its name.
	c.Extra = map[string]json.RawMessage{"id": json.RawMessage(`"z"`)}
	if text, err := json.Marshal(c); err != nil || !strings.Contains(string(text), `"id":"y"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestKnownFields: a field missing from knownFields would be written twice over, once as it was read.
func TestKnownFields(t *testing.T) {
	known := map[string]bool{}
	for _, name := range knownFields {
		known[name] = true
	}
	record := reflect.TypeFor[Case]()
	count := 0
	for i := range record.NumField() {
		name, _, _ := strings.Cut(record.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if count++; !known[name] {
			t.Errorf("%s is not among the known fields", name)
		}
	}
	if count != len(knownFields) {
		t.Errorf("%d fields, %d known names", count, len(knownFields))
	}
}

func TestRecordErrors(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"record_version", `"2.0"`, `case record: record_version: is "2.0", this version of Hawkeye reads 1.x`},
		{"record_version", `"2"`, `record_version: is "2", this version`},
		{"record_version", `"10.0"`, `record_version: is "10.0", this version`},
		{"record_version", `"0.9"`, `record_version: is "0.9", this version`},
		{"record_version", ``, `record_version: is "", this version`},
		{"record_version", `1.0`, "case record: json: cannot unmarshal number"},
		{"scalars", `{"alpha": 1.0}`, "cannot unmarshal number"},
		{"scalars", `{"alpha": "1.0"}`, `scalar "1.0": want a format and hexadecimal bits, such as f32:0x3f800000`},
		{"scalars", `{"alpha": "f31:0x0"}`, `scalar "f31:0x0": number format "f31" is unknown`},
		{"scalars", `{"alpha": "f32:0x"}`, `scalar "f32:0x": strconv.ParseUint: parsing "": invalid syntax`},
		{"scalars", `{"alpha": "f32:0xg"}`, `invalid syntax`},
		{"scalars", `{"alpha": "f32:0x-1"}`, `invalid syntax`},
		{"scalars", `{"alpha": "f32:0x13f800000"}`, `scalar "f32:0x13f800000": f32 has 32 bits`},
		{"scalars", `{"alpha": "f16:0x10000"}`, `f16 has 16 bits`},
		{"scalars", `{"alpha": "f64:0x13ff0000000000000"}`, `value out of range`},
		{"a", `{"format":"f15","shape":[2,3,5],"strides":[1,1,1]}`, `number format "f15" is unknown`},
		{"a", `{"format":"f16","shape":[3,5],"strides":[5,1]}`, "a.shape: has 2 sizes, want 3"},
		{"a", `{"format":"f16"}`, "a.shape: has 0 sizes, want 3"},
		{"a", ``, "a.shape: has 0 sizes, want 3"},
		{"a", `{"format":"f16","shape":[2,-3,5],"strides":[1,1,1]}`, "a.shape: a size of -3 is out of range"},
		{"a", `{"format":"f16","shape":[2,4294967296,5],"strides":[1,1,1]}`, "a.shape: a size of 4294967296 is out of range"},
		{"a", `{"format":"f16","shape":[65536,65536,5],"strides":[1,1,1]}`, "a.shape: [65536 65536 5] are more elements than a case may have"},
		{"a", `{"format":"f16","shape":[2,3,5],"strides":[1,1]}`, "a.strides: there are 2, the shape has 3 sizes"},
		{"b", `{"format":"f16","shape":[2,4,7],"strides":[1,1,1]}`, "b.shape: is [2 4 7], beside a of [2 3 5] it must be [2 5 7]"},
		{"b", `{"format":"f16","shape":[1,5,7],"strides":[1,1,1]}`, "b.shape: is [1 5 7], beside a of [2 3 5] it must be [2 5 7]"},
		{"out", `{"format":"f16","shape":[2,3,6]}`, "out.shape: is [2 3 6], beside a of [2 3 5] it must be [2 3 7]"},
		{"out", ``, "out.shape: is [], beside"},
		{"c", `{"format":"f16","shape":[7],"strides":[1]}`, "c.shape: is [7], must be [2 3 7]"},
		{"c", `{"format":"f16","shape":[2,3,7],"strides":[0,1]}`, "c.strides: there are 2"},
		{"scale_a", `{"format":"f32","shape":[4],"strides":[1]}`, "scale_a.shape: is [4], must be [3]"},
		{"scale_b", `{"format":"f32","shape":[],"strides":[]}`, "scale_b.shape: is [], must be [7]"},
	} {
		var c Case
		err := json.Unmarshal([]byte(recordText(t, test.name, test.value)), &c)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %s\n got %v\nwant %s", test.name, test.value, err, test.want)
		}
	}
}

func TestScalars(t *testing.T) {
	for _, s := range []struct {
		scalar Scalar
		text   string
		value  float64
	}{
		{Scalar{format.F32, 0x3f800000}, "f32:0x3f800000", 1},
		{Scalar{format.F32, 0}, "f32:0x00000000", 0},
		{Scalar{format.F32, 0x80000000}, "f32:0x80000000", math.Copysign(0, -1)},
		{Scalar{format.F32, 1}, "f32:0x00000001", 0x1p-149},
		{Scalar{format.F32, 0x7f7fffff}, "f32:0x7f7fffff", 0x1.fffffep127},
		{Scalar{format.F32, 0xff800000}, "f32:0xff800000", math.Inf(-1)},
		{Scalar{format.F32, 0x7fc00001}, "f32:0x7fc00001", math.NaN()},
		{Scalar{format.F64, 0x3fb999999999999a}, "f64:0x3fb999999999999a", 0.1},
		{Scalar{format.F64, 1}, "f64:0x0000000000000001", 0x1p-1074},
		{Scalar{format.F64, 0x7ff0000000000000}, "f64:0x7ff0000000000000", math.Inf(1)},
		{Scalar{format.F64, 0xffefffffffffffff}, "f64:0xffefffffffffffff", -math.MaxFloat64},
		{Scalar{format.F16, 0x3c00}, "f16:0x3c00", 1},
		{Scalar{format.BF16, 0xbf00}, "bf16:0xbf00", -0.5},
		{Scalar{format.S32, 0xffffffff}, "s32:0xffffffff", -1},
	} {
		text, err := s.scalar.MarshalText()
		if err != nil || string(text) != s.text {
			t.Errorf("%+v is written %s, %v, want %s", s.scalar, text, err, s.text)
		}
		var back Scalar
		if err := back.UnmarshalText([]byte(s.text)); err != nil || back != s.scalar {
			t.Errorf("%s is read %+v, %v", s.text, back, err)
		}
		if v := s.scalar.Value(); math.Float64bits(v) != math.Float64bits(s.value) && !(math.IsNaN(v) && math.IsNaN(s.value)) {
			t.Errorf("%s is %g, want %g", s.text, v, s.value)
		}
	}
	c := Case{Scalars: map[string]Scalar{"alpha": {format.F32, 0x40000000}}}
	if c.Number("alpha", 1) != 2 || c.Number("beta", 1) != 1 {
		t.Errorf("alpha %g, beta %g", c.Number("alpha", 1), c.Number("beta", 1))
	}
}

// TestHashSpelling: a hash in another spelling would agree with no output, and be taken for a wrong one.
// TestRoundedScalars: torch rounds the scalars of addmv alone to operands of 16 bits.
func TestRoundedScalars(t *testing.T) {
	for _, test := range []struct {
		op, name string
		a        format.Format
		scalar   float64
		want     float64
	}{
		{"addmv", "alpha", format.BF16, 0.3, 0.30078125}, {"addmv", "beta", format.F16, 0.3, 0.300048828125}, {"addmv", "alpha", format.F16, 70000, math.Inf(1)},
		{"addmv", "beta", format.F32, 0.3, 0.3}, {"addmv", "alpha", format.F64, 0.3, 0.3}, {"addmv", "scale_a", format.BF16, 0.3, 0.3},
		{"addmm", "alpha", format.BF16, 0.3, 0.3}, {"baddbmm", "beta", format.F16, 0.3, 0.3},
	} {
		c := &Case{Op: test.op, A: Tensor{Format: test.a}, Scalars: map[string]Scalar{test.name: {format.F64, math.Float64bits(test.scalar)}}}
		if got := c.Number(test.name, 1); got != test.want {
			t.Errorf("%s of %s: %s = %g is %g, want %g", test.op, test.a, test.name, test.scalar, got, test.want)
		}
		if got := c.Number("other", 7); got != 7 {
			t.Errorf("a scalar that is not there is %g", got)
		}
	}
}

func TestHashSpelling(t *testing.T) {
	const record = `{"record_version":"1.0","id":"x","op":"mm","a":{"format":"f32","shape":[1,1,1],"strides":[1,1,1]},` +
		`"b":{"format":"f32","shape":[1,1,1],"strides":[1,1,1]},"out":{"format":"f32","shape":[1,1,1],"sha256":"%s"}}`
	for hash, good := range map[string]bool{"": true, strings.Repeat("ab", 32): true, strings.Repeat("AB", 32): false, "abcd": false} {
		var c Case
		if err := json.Unmarshal(fmt.Appendf(nil, record, hash), &c); (err == nil) != good {
			t.Errorf("%q: %v", hash, err)
		}
	}
}
