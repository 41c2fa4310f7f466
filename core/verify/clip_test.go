package verify

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// TestHostileVerdictIsShort: names of any length in a set, and a given profile of any length, leave a verdict within what the
// C interface promises.
func TestHostileVerdictIsShort(t *testing.T) {
	long := strings.Repeat("\u00e9x\\u0001", 40000)
	hash := strings.Repeat("0", 64)
	lines := []string{
		`{"op":"mm","m":4,"n":4,"k":8,"a":"f16","b":"f16","out":"f16","layout":"NN","kind":"normal","seed":1,"id":"` + long + `","sha256":"` + hash + `"}`,
		`{"op":"` + long + `","m":4,"n":4,"k":8,"a":"f16","b":"f16","out":"f16","layout":"NN","kind":"normal","seed":1,"id":"b","kernels":["` + long + `"],"sha256":"` + hash + `"}`,
		`{"op":"mm","m":4,"n":4,"k":8,"a":"f16","b":"f16","out":"f16","layout":"NN","kind":"normal","seed":1,"id":"c","kernels":["` + long + `","z` + long + `"],"sha256":"` + hash + `"}`,
		`{"op":"mm","m":4,"n":4,"k":4096,"a":"f16","b":"f16","out":"f16","layout":"NN","kind":"normal","seed":1,"id":"d","sha256":"` + hash + `"}`,
	}
	path := filepath.Join(t.TempDir(), "hostile.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := OpenSet(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range lines {
		var o Options
		if i == 3 {
			if o.Profile, err = profile.Load("hopper/f16"); err != nil {
				t.Fatal(err)
			}
			root := &plan.Tree{Merge: &plan.Merge{Partial: format.F32, Sum: format.F32}}
			for k := range 4096 {
				root.Sum = append(root.Sum, &plan.Tree{Chain: []plan.Range{{Start: k, Stop: k + 1}}})
			}
			o.Profile.Plan = plan.Plan{Tree: &plan.Fixed{K: 4096, Root: root}}
		}
		v, err := set.Replay(context.Background(), i, o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil || len(text) >= 1<<16 {
			t.Errorf("line %d: a verdict of %d bytes, %v", i, len(text), err)
		}
		if i == 3 && (len(v.ProfileID) != 64 || v.Outcome != Wrong) {
			t.Errorf("%s with profile %q", v.Outcome, v.ProfileID)
		}
	}
}
