// Package cases holds recorded matrix multiplications: the versioned case record, the importer of golden sets, and the
// generator that rebuilds their inputs from seeds.
package cases
