package simd

// assembly says that this build has kernels in assembly.
const assembly = true
