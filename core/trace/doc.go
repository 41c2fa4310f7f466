// Package trace reads what a recorder wrote of a running program: a folder with an index of multiplications, each line
// chained to the one before by its hash, and files of tensors named by their hashes (docs/trace.md).
//
// A trace is anybody's. Nothing in it is believed before it was checked: names are hashes and nothing else, links out of the
// folder are not followed, sizes are bounded before memory is taken, and every line and file is hashed again when it is used.
package trace
