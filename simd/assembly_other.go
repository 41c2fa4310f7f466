//go:build !amd64

package simd

const assembly = false
