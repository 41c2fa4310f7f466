package rules

import (
	"fmt"
	"strconv"
	"strings"
)

// value is a number or a word.
type value struct {
	word   string
	number int
	isWord bool
}

func number(n int) value  { return value{number: n} }
func word(s string) value { return value{word: s, isWord: true} }
func truth(b bool) value {
	if b {
		return number(1)
	}
	return number(0)
}

func (v value) String() string {
	if v.isWord {
		return "'" + v.word + "'"
	}
	return strconv.Itoa(v.number)
}

// scope holds the variables of one evaluation.
type scope map[string]value

// expression is a compiled text: arithmetic on whole numbers (+ - * / %, / rounding down), comparisons, ! && ||, c ? a : b,
// 'words', and the functions ceil(a/b), min(a, b, …), max(a, b, …).
type expression struct {
	text string
	eval func(scope) (value, error)
	// reads are the variables used.
	reads []string
}

func (e *expression) number(s scope) (int, error) {
	v, err := e.eval(s)
	if err == nil && v.isWord {
		err = fmt.Errorf("%v is no number", v)
	}
	if err != nil {
		return 0, fmt.Errorf("%q: %w", e.text, err)
	}
	return v.number, nil
}

func (e *expression) value(s scope) (value, error) {
	v, err := e.eval(s)
	if err != nil {
		return v, fmt.Errorf("%q: %w", e.text, err)
	}
	return v, nil
}

// compile reads an expression.
func compile(text string) (*expression, error) {
	p := &parser{text: text}
	p.next()
	n, err := p.choice()
	if err == nil && p.token != "" {
		err = fmt.Errorf("unexpected %q", p.token)
	}
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", text, err)
	}
	e := &expression{text: text, eval: n.eval, reads: p.reads}
	return e, nil
}

// node keeps the two sides of a division apart, for ceil.
type node struct {
	eval               func(scope) (value, error)
	numerator, divisor func(scope) (value, error)
}

type parser struct {
	text, token string
	at          int
	reads       []string
	depth       int
}

var operators = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", ","}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// next reads the next token; "" is the end. A token that no expression has is left for the grammar to refuse.
func (p *parser) next() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
	start := p.at
	if start == len(p.text) {
		p.token = ""
		return
	}
	rest := p.text[start:]
	switch c := rest[0]; {
	case letter(c) || digit(c):
		for p.at < len(p.text) && (letter(p.text[p.at]) || digit(p.text[p.at])) {
			p.at++
		}
	case c == '\'':
		if end := strings.IndexByte(rest[1:], '\''); end >= 0 {
			p.at += end + 2
		} else {
			p.at = len(p.text)
		}
	default:
		p.at++
		for _, o := range operators {
			if strings.HasPrefix(rest, o) {
				p.at = start + len(o)
				break
			}
		}
	}
	p.token = p.text[start:p.at]
}

func (p *parser) expect(token string) error {
	if p.token != token {
		return fmt.Errorf("want %q, found %q", token, p.token)
	}
	p.next()
	return nil
}

// maxNesting keeps hostile expressions off the stack's end.
const maxNesting = 100

func (p *parser) choice() (node, error) {
	if p.depth++; p.depth > maxNesting {
		return node{}, fmt.Errorf("nested too deep")
	}
	defer func() { p.depth-- }()
	condition, err := p.binary(0)
	if err != nil || p.token != "?" {
		return condition, err
	}
	p.next()
	yes, err := p.choice()
	if err != nil {
		return yes, err
	}
	if err := p.expect(":"); err != nil {
		return yes, err
	}
	no, err := p.choice()
	return node{eval: func(s scope) (value, error) {
		c, err := condition.eval(s)
		if err != nil {
			return c, err
		}
		if c.isWord || c.number != 0 {
			return yes.eval(s)
		}
		return no.eval(s)
	}}, err
}

var levels = [][]string{{"||"}, {"&&"}, {"==", "!=", "<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}}

func (p *parser) binary(level int) (node, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	for err == nil && contains(levels[level], p.token) {
		operator := p.token
		p.next()
		var right node
		if right, err = p.binary(level + 1); err != nil {
			break
		}
		a, b := left.eval, right.eval
		left = node{eval: func(s scope) (value, error) { return apply(operator, a, b, s) }}
		if operator == "/" {
			left.numerator, left.divisor = a, b
		}
	}
	return left, err
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func apply(operator string, left, right func(scope) (value, error), s scope) (value, error) {
	a, err := left(s)
	if err != nil {
		return a, err
	}
	// && and || look at their right side only where it decides, so that a condition may guard another.
	switch operator {
	case "&&", "||":
		if (a.isWord || a.number != 0) == (operator == "||") {
			return truth(operator == "||"), nil
		}
		b, err := right(s)
		return truth(b.isWord || b.number != 0), err
	}
	b, err := right(s)
	if err != nil {
		return b, err
	}
	switch operator {
	case "==":
		return truth(a == b), nil
	case "!=":
		return truth(a != b), nil
	}
	if a.isWord || b.isWord {
		return a, fmt.Errorf("%v %s %v: words have no order and no arithmetic", a, operator, b)
	}
	x, y := a.number, b.number
	switch operator {
	case "<":
		return truth(x < y), nil
	case "<=":
		return truth(x <= y), nil
	case ">":
		return truth(x > y), nil
	case ">=":
		return truth(x >= y), nil
	case "+":
		return number(x + y), nil
	case "-":
		return number(x - y), nil
	case "*":
		return number(x * y), nil
	}
	if y <= 0 {
		return a, fmt.Errorf("a division by %d", y)
	}
	if operator == "%" {
		return number(x % y), nil
	}
	return number(x / y), nil
}

func (p *parser) unary() (node, error) {
	if p.token == "!" {
		if p.depth++; p.depth > maxNesting {
			return node{}, fmt.Errorf("nested too deep")
		}
		defer func() { p.depth-- }()
		p.next()
		of, err := p.unary()
		return node{eval: func(s scope) (value, error) {
			v, err := of.eval(s)
			return truth(!v.isWord && v.number == 0), err
		}}, err
	}
	return p.primary()
}

func (p *parser) primary() (node, error) {
	token := p.token
	switch {
	case token == "":
		return node{}, fmt.Errorf("it ends too early")
	case token == "(":
		p.next()
		inner, err := p.choice()
		if err != nil {
			return inner, err
		}
		return node{eval: inner.eval}, p.expect(")")
	case token[0] == '\'':
		if len(token) < 2 || token[len(token)-1] != '\'' {
			return node{}, fmt.Errorf("the word %s is not closed", token)
		}
		p.next()
		v := word(token[1 : len(token)-1])
		return node{eval: func(scope) (value, error) { return v, nil }}, nil
	case digit(token[0]):
		n, err := strconv.Atoi(token)
		if err != nil || n > 1<<30 {
			return node{}, fmt.Errorf("%q is no number below 2^30", token)
		}
		p.next()
		return node{eval: func(scope) (value, error) { return number(n), nil }}, nil
	case letter(token[0]):
		p.next()
		if p.token == "(" {
			return p.call(token)
		}
		p.reads = append(p.reads, token)
		return node{eval: func(s scope) (value, error) {
			v, ok := s[token]
			if !ok {
				return v, fmt.Errorf("%s is not known of this case", token)
			}
			return v, nil
		}}, nil
	}
	return node{}, fmt.Errorf("unexpected %q", token)
}

func (p *parser) call(name string) (node, error) {
	p.next()
	var list []node
	for {
		n, err := p.choice()
		if err != nil {
			return n, err
		}
		list = append(list, n)
		if p.token != "," {
			break
		}
		p.next()
	}
	if err := p.expect(")"); err != nil {
		return node{}, err
	}
	switch name {
	case "ceil":
		if len(list) != 1 || list[0].divisor == nil {
			return node{}, fmt.Errorf("ceil takes one division, as in ceil(k/8)")
		}
		above, below := list[0].numerator, list[0].divisor
		return node{eval: func(s scope) (value, error) {
			up := func(s scope) (value, error) { // ceil(a/b) is (a + b - 1)/b
				b, err := below(s)
				if err != nil || b.isWord {
					return b, err
				}
				return apply("+", above, func(scope) (value, error) { return number(b.number - 1), nil }, s)
			}
			return apply("/", up, below, s)
		}}, nil
	case "min", "max":
		return node{eval: func(s scope) (value, error) {
			best, err := list[0].eval(s)
			for _, n := range list[1:] {
				if err != nil {
					break
				}
				var v, less value
				if v, err = n.eval(s); err != nil {
					break
				}
				at := func(v value) func(scope) (value, error) {
					return func(scope) (value, error) { return v, nil }
				}
				if less, err = apply("<", at(v), at(best), s); err == nil && (less.number == 1) == (name == "min") {
					best = v
				}
			}
			return best, err
		}}, nil
	}
	return node{}, fmt.Errorf("no function is called %s; there are ceil, min and max", name)
}
