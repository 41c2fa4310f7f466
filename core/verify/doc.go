// Package verify uses profiles: it compares bits, chooses candidate profiles for a recorded multiplication from the
// names of the kernels that ran it, and gives a verdict that never claims more than was compared.
//
// rules.go is the table from kernel names to profiles, search.go eliminates candidates, replay.go runs the survivors,
// judge.go says what agreement is worth. set.go and instructions.go read sets of cases.
package verify
