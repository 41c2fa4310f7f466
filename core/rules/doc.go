// Package rules turns what is recorded of a multiplication (the names of the kernels that ran it, their launches, its
// shape, formats and flags) into the profiles that may explain its bits, the likely ones first.
//
// names.go takes kernel names apart. table.json is the knowledge: which kernels walk k in which order, with which step and
// which epilogue, and how each row is known; docs/rules.md explains it. expression.go is the small language of its
// conditions and sizes, template.go fills in plans, choose.go picks the row.
package rules
