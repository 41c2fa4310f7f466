// Package gemm runs a profile over whole matrices, or over chosen rows and columns: it cuts the output into tiles,
// expands the plan for K, packs strips of the operands, calls the kernels of package simd and, wherever a kernel cannot
// prove its answer exact, a slower exact path.
//
// Where to look:
//
//   - args.go and errors.go: what a call holds, and what is refused before anything is computed; layout.go and overlap.go:
//     where a matrix lies in memory;
//   - job.go, run.go: one multiplication made ready, cut into tiles, shared among threads; paths.go: which path runs a step;
//   - tile.go, merge.go: a tile's summation tree, its chains run by a chainer: fused.go (kernels, then wide.go), fma.go,
//     integers.go, oracle.go; spans.go, panels.go and operand.go cut and pack for them;
//   - scalar.go: trees of so many short chains that elements are better walked one by one;
//   - epilogue.go, serial.go: from the merged sum to the stored element;
//   - elements.go, probe.go, blocks.go: the same for single elements, under one profile or many.
package gemm
