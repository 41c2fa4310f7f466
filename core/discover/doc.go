// Package discover finds the arithmetic of a matrix multiplication that is given as a function. It asks crafted
// questions, infers step, plan and epilogue from the answers, and certifies the profile it finds on inputs of its own
// making: docs/discover.md.
package discover
