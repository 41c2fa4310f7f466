package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A table is a constant vector in memory.
type table struct {
	name  string
	words func(lanes int) []uint32
}

var (
	// replicateTable shuffles each word's lowest byte into all four.
	replicateTable = table{"Replicate", func(lanes int) (w []uint32) {
		for i := range lanes {
			w = append(w, uint32(i%4*4)*0x01010101)
		}
		return w
	}}
	// The interleave tables take words of two vectors in turn: index 16 and up means the second.
	interleaveLowTable  = table{"InterleaveLow", func(lanes int) []uint32 { return interleaved(0, lanes) }}
	interleaveHighTable = table{"InterleaveHigh", func(lanes int) []uint32 { return interleaved(lanes/2, lanes) }}
)

func interleaved(first, lanes int) (w []uint32) {
	for i := range lanes / 2 {
		w = append(w, uint32(first+i), uint32(lanes+first+i))
	}
	return w
}

var tables = map[string]Mem{}

// declareTables writes the tables; they stand before the routines, which only refer to them.
func (s isa) declareTables() {
	all := []table{replicateTable}
	if s.bytes == 64 {
		all = append(all, interleaveLowTable, interleaveHighTable)
	}
	for _, t := range all {
		m := GLOBL("fused"+t.name+s.name, attr.RODATA|attr.NOPTR)
		for i, w := range t.words(s.lanes()) {
			DATA(4*i, U32(w))
		}
		tables[t.name] = m
	}
}

func loadTable(s isa, t table, v reg.VecVirtual) { s.load(tables[t.name], v) }
