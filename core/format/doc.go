// Package format knows the number formats of tensor cores: how their bits are laid out, what they mean, and how an
// exact value is rounded into them. It is the bottom of the house and imports nothing of the project.
//
// There are two ways through it. Decode, Exact and Encode are exact for any value and any rounding and are written to be
// read: the oracle of package step stands on them. The functions of conversions.go work on bits alone, are fast, and are
// tested against the first way. Neither uses the processor's floating point, so a host that has changed the rounding mode
// or flushes subnormals gets the same bits.
package format
