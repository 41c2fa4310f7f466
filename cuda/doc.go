// Package cuda asks single matrix instructions of an NVIDIA GPU. For every instruction that the GPU has, mma.sync and wgmma
// in each shape and number format, it writes a kernel as PTX text, loads it through the driver (libcuda, found at run time:
// nothing of CUDA is needed to build, and no toolkit to run), and gives the instruction as a black box that package discover
// can examine: docs/instructions.md.
//
// Built without cgo the package still lists instructions and writes their kernels; Open then says why it cannot go on.
package cuda
