package explain

import (
	"fmt"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// Style is how a tree is drawn.
type Style int

// The styles.
const (
	Text     Style = iota // lines and box-drawing characters, for a terminal
	Graphviz              // the language of dot: `dot -Tsvg`
)

// TreeOptions are how much of a tree is drawn.
type TreeOptions struct {
	Style Style
	// Full draws every accumulator, up to 131,072 nodes; otherwise long lists of alike parts are counted, and at most
	// about 150 nodes drawn.
	Full bool
	// Width is where lines of text are cut; 0: they are not. In dot it is where labels are wrapped, at 40 columns for 0.
	Width int
}

// Tree draws the summation tree of a profile for K = k: what every accumulator sums, how accumulators are joined, and what
// becomes of the sum.
func Tree(p *profile.Profile, k int, o TreeOptions) (string, error) {
	tree, err := p.Plan.Expand(k)
	if err != nil {
		return "", err
	}
	top := newOutline(p, tree, o.Full)
	if o.Style == Graphviz {
		return dot(p, k, top, o.Width), nil
	}
	var b strings.Builder
	draw(&b, top, "", "", o.Width)
	return b.String(), nil
}

// draw writes a node after head, and its children after tail.
func draw(b *strings.Builder, n *outline, head, tail string, width int) {
	b.WriteString(cut(head+n.label, width))
	b.WriteByte('\n')
	for i, child := range n.children {
		if i == len(n.children)-1 {
			draw(b, child, tail+"└─ ", tail+"   ", width)
		} else {
			draw(b, child, tail+"├─ ", tail+"│  ", width)
		}
	}
}

// cut shortens a line to so many characters.
func cut(line string, width int) string {
	if width <= 0 {
		return line
	}
	runes := []rune(line)
	if len(runes) <= width {
		return line
	}
	return string(runes[:max(width-1, 0)]) + "…"
}

// dotWidth is where labels of a graph are wrapped.
const dotWidth = 40

func dot(p *profile.Profile, k int, top *outline, width int) string {
	if width <= 0 {
		width = dotWidth
	}
	name := p.Name
	if name == "" {
		name = p.ID()[:12]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "digraph summation {\n\tlabel=%s;\n\tordering=out;\n\trankdir=TB;\n\tnode [shape=box, fontsize=10];\n",
		quote(fmt.Sprintf("%s, K = %d", name, k)))
	next := 0
	var write func(n *outline) int
	write = func(n *outline) int {
		id := next
		next++
		style := ""
		if n.folded {
			style = ", style=dashed"
		}
		fmt.Fprintf(&b, "\tn%d [label=%s%s];\n", id, quote(wrap(n.label, width)), style)
		for _, child := range n.children {
			fmt.Fprintf(&b, "\tn%d -> n%d;\n", id, write(child))
		}
		return id
	}
	write(top)
	b.WriteString("}\n")
	return b.String()
}

// quote writes a string of the dot language; a line break becomes \n.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// wrap breaks a text between words.
func wrap(text string, width int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return strings.Join(append(lines, line), "\n")
}
