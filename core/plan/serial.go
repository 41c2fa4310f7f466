package plan

// Serial cuts K into slices as Split does and adds them in the output, one kernel block after another: the sum of slice 0
// goes through the whole epilogue into D, then for each further slice D = rne(D + acc) in the accumulator's type, rounded
// to the output's format. It stands outside every other rule. Source: CUTLASS without splitKreduce, measured on an H200,
// docs/arithmetic.md.
type Serial struct {
	Slices int   `json:"slices"`
	Grain  int   `json:"grain"`
	Of     *Plan `json:"of"`
}

func (s *Serial) expand(v *view, b *builder) (*Tree, error) {
	if v.length == 0 {
		return s.Of.expand(v, b)
	}
	list, err := pieces(v, ceilDiv(ceilDiv(v.length, s.Grain), s.Slices)*s.Grain, s.Of, b)
	if err != nil {
		return nil, err
	}
	if len(list) == 1 { // one slice goes through the epilogue like any sum
		return list[0], nil
	}
	return b.node(Tree{Sum: list, Serial: true})
}
