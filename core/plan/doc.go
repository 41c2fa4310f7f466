// Package plan says in which order a multiplication sums its products: how the whole K is walked by fused
// dot-product-add chains and how their partial sums are merged. A plan is data. Families (chain, split, promote, lanes,
// serial) are functions of K that expand into an explicit summation tree; a tree may also be written out by hand.
package plan
