package rules

import (
	"strings"
	"testing"
)

func TestExpressions(t *testing.T) {
	s := scope{"k": number(100), "a": word("f16"), "zero": number(0)}
	for text, want := range map[string]value{
		"7": number(7), "k": number(100), "'x'": word("x"), "1 + 2 * 3": number(7), "(1 + 2) * 3": number(9), "7 - 2 - 1": number(4), "k % 7": number(2),
		"k / 8": number(12), "ceil(k/8)": number(13), "ceil(k / 10)": number(10), "ceil((k + 1) / (3 + 7))": number(11), "ceil(0/5)": number(0),
		"min(k, 7, 9)": number(7), "max(3, k, 9)": number(100), "min(5)": number(5), "k == 100": number(1), "k != 100": number(0), "a == 'f16'": number(1),
		"a != 'f16'": number(0), "a == 5": number(0), "k < 100": number(0), "k <= 100": number(1), "k > 99": number(1), "k >= 101": number(0),
		"!k": number(0), "!zero": number(1), "!!k": number(1), "k > 1 && zero": number(0), "zero || k": number(1), "zero && 1 / zero": number(0),
		"1 || 1 / zero": number(1), "zero ? 1 : k ? 2 : 3": number(2), "a == 'f16' && k > 50 ? 'yes' : 'no'": word("yes"), "1 || 0 && 0": number(1), "-1 + 2": {},
	} {
		e, err := compile(text)
		if text == "-1 + 2" {
			if err == nil {
				t.Errorf("%s: there is no unary minus", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if got, err := e.value(s); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestExpressionErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "ends too early", "1 +": "ends too early", "(1": `want ")"`, "1 2": `unexpected "2"`, "'x": "not closed", "$": `unexpected "$"`,
		"ceil(7)": "one division", "ceil((7/2))": "one division", "ceil(1/2, 3)": "one division", "log(7)": "no function is called log", "1 ? 2": `want ":"`,
		"99999999999": "no number below", "k &": `unexpected "&"`, "min()": `unexpected ")"`, strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200): "nested too deep",
		strings.Repeat("!", 200) + "1": "nested too deep",
	} {
		if _, err := compile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want …%s…", text, err, want)
		}
	}
	s := scope{"zero": number(0), "a": word("f16")}
	for text, want := range map[string]string{"1 / zero": "division by 0", "1 % zero": "division by 0", "ceil(1/zero)": "division by 0", "a + 1": "no arithmetic",
		"a < 'g'": "no order", "missing": "not known of this case", "min(1, a)": "no order"} {
		e, err := compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.value(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", text, err, want)
		}
	}
}
