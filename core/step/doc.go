// Package step holds the arithmetic of one fused dot-product-add instruction as data (Params) and as a scalar model
// (Dot), the oracle every fast path is tested against. The model is written to be read and is never optimised: all its
// sums are of math/big integers, so that no group, fraction or exponent range can overflow it.
//
// The catalogue (catalogue.json, Catalogue) names the steps of the GPUs that are known, and says where each comes from.
package step
