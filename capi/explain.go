package main

/*
#include "boundary.h"
*/
import "C"

import (
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/explain"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

//export hawkeyeGoExplainProfile
func hawkeyeGoExplainProfile(h C.hawkeye_profile, options *C.hawkeye_explain_options, buffer *C.char, size C.size_t, needed *C.size_t,
	message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		p, about, _, err := explanation(h, options)
		if err != nil {
			return err
		}
		text, err := explain.Profile(p, about)
		if err != nil {
			return fail(statusUnsupported, "%v", err)
		}
		return returnText(text, buffer, size, needed)
	})
}

//export hawkeyeGoExplainTree
func hawkeyeGoExplainTree(h C.hawkeye_profile, options *C.hawkeye_explain_options, buffer *C.char, size C.size_t, needed *C.size_t,
	message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		p, about, drawn, err := explanation(h, options)
		if err != nil {
			return err
		}
		if about.K == 0 {
			return fail(statusArgument, "options.k is 0: a summation tree is drawn for one K")
		}
		text, err := explain.Tree(p, about.K, drawn)
		if err != nil {
			return fail(statusUnsupported, "%v", err)
		}
		return returnText(text, buffer, size, needed)
	})
}

// explanation converts the arguments that both calls have; options may be NULL.
func explanation(h C.hawkeye_profile, options *C.hawkeye_explain_options) (p *profile.Profile, a explain.About, o explain.TreeOptions, err error) {
	if p, err = findProfile(h); err != nil || options == nil {
		return p, a, o, err
	}
	if err = sizedStruct("options", unsafe.Pointer(options), unsafe.Sizeof(*options), false); err != nil {
		return p, a, o, err
	}
	if options.reserved != 0 {
		return p, a, o, fail(statusArgument, "the reserved field of options is %d: set it to 0", options.reserved)
	}
	for _, size := range []struct {
		what string
		from C.int64_t
		to   *int
	}{{"m", options.m, &a.M}, {"n", options.n, &a.N}, {"k", options.k, &a.K}, {"width", C.int64_t(options.width), &o.Width}} {
		if *size.to = int(size.from); size.from < 0 || C.int64_t(*size.to) != size.from {
			return p, a, o, fail(statusArgument, "options.%s is %d, which is no size", size.what, int64(size.from))
		}
	}
	if options.family != nil {
		if a.Family, err = goString("options.family", options.family); err != nil {
			return p, a, o, err
		}
	}
	if options.style != C.HAWKEYE_TREE_TEXT && options.style != C.HAWKEYE_TREE_DOT {
		return p, a, o, fail(statusArgument, "options.style is %d, which is no hawkeye_tree_style", options.style)
	}
	o.Style = explain.Style(options.style)
	o.Full, err = boolean("options.full", options.full)
	return p, a, o, err
}

// The enum of the header and the Go constants are one numbering; this does not compile where they differ.
var _ = [1]struct{}{}[(C.HAWKEYE_TREE_TEXT-int(explain.Text))|(C.HAWKEYE_TREE_DOT-int(explain.Graphviz))]
