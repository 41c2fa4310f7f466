// Package explain puts arithmetic into words for people: what a profile does to an output element (Profile), how its
// partial sums are joined (Tree, as text or for Graphviz), and why two recorded multiplications gave different bits
// (Why). It computes single elements to show where two orders part, and decides nothing.
package explain
