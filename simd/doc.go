// Package simd holds the matrix kernels by instruction set, with portable Go twins. It knows number formats and nothing of
// profiles or plans: package gemm cuts a multiplication into tiles and calls it.
//
// There are four kinds, a file or a family of files each: the fused step (fused.go, which proves it, and pack_fused.go), the
// same further apart (far.go, without a portable twin), FMA chains (chain*.go) and integers (int8.go). A file that ends in
// _amd64.go calls the assembly, one that ends in _other.go is what builds without assembly compile, and names with avx2 or
// avx512 are written by the generator in _gen.
package simd
