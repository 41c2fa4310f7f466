package cuda

// Which lane holds which element of a matrix in registers, as the PTX ISA documents it for every shape of mma.sync and for
// wgmma. All of its tables follow one rule. With g = lane / 4 and t = lane mod 4, and p elements packed in one register
// (those that 4 bytes hold, and one of f64):
//
//	register r of A holds row g + 8·(r mod 2) and the p consecutive k that begin at 4·p·(r div 2) + p·t;
//	register r of B holds column g and the p consecutive k that begin at 4·p·r + p·t;
//	element i of C and D is row g + 8·(i div 2), column 2·t + i mod 2.
//
// In a matrix of 8 rows A's registers are numbered as B's are. Each of the four warps of wgmma has 16 rows of A, C and D.

// position is an element of a matrix.
type position struct{ row, column int }

// packed is how many elements of an operand one register holds.
func packed(bytes int) int { return max(1, 4/bytes) }

// blocks is how many blocks of 8 rows one warp multiplies.
func (i *Instruction) blocks() int { return min(i.M, 16) / 8 }

// aRegisters and bRegisters are how many registers one lane holds of A and of B.
func (i *Instruction) aRegisters() int { return i.blocks() * i.K / (4 * packed(i.A.Bytes())) }
func (i *Instruction) bRegisters() int { return i.K / (4 * packed(i.B.Bytes())) }

// aPart is where register r of A begins, from the element of the warp's lane 0.
func (i *Instruction) aPart(r int) position {
	return position{8 * (r % i.blocks()), 4 * packed(i.A.Bytes()) * (r / i.blocks())}
}

// bPart is the same for B: k is its row.
func (i *Instruction) bPart(r int) position { return position{4 * packed(i.B.Bytes()) * r, 0} }

// aFragment lists what a thread holds of A, register by register.
func (i *Instruction) aFragment(thread int) (elements []position) {
	p, g, t := packed(i.A.Bytes()), thread%32/4, thread%4
	for r := range i.aRegisters() {
		part := i.aPart(r)
		for e := range p {
			elements = append(elements, position{16*(thread/32) + g + part.row, part.column + p*t + e})
		}
	}
	return elements
}

// bFragment lists what a thread holds of B, where B is in registers.
func (i *Instruction) bFragment(thread int) (elements []position) {
	p, g, t := packed(i.B.Bytes()), thread%32/4, thread%4
	for r := range i.bRegisters() {
		part := i.bPart(r)
		for e := range p {
			elements = append(elements, position{part.row + p*t + e, g})
		}
	}
	return elements
}

// cFragment lists what a thread holds of C and D.
func (i *Instruction) cFragment(thread int) (elements []position) {
	g, t := thread%32/4, thread%4
	for block := range i.blocks() {
		for e := range 2 {
			elements = append(elements, position{16*(thread/32) + g + 8*block, 2*t + e})
		}
	}
	return elements
}

// Operands of wgmma in shared memory, without swizzling and with k contiguous: core matrices of 8 rows (of A; columns of B)
// by 16 bytes of k, each in 128 consecutive bytes, row after row. All instructions here take 32 bytes of k: two core
// matrices side by side, coreBytes apart, and the next 8 rows 2·coreBytes further.
const (
	coreRows  = 8
	coreWidth = 16 // bytes
	coreBytes = coreRows * coreWidth
)

// sharedOffset is where the byte k of a row lies.
func sharedOffset(row, k int) int {
	return row/coreRows*2*coreBytes + k/coreWidth*coreBytes + row%coreRows*coreWidth + k%coreWidth
}

// descriptor is the matrix descriptor of an operand at address 0 of shared memory: in bits 16 to 29 the distance of core
// matrices that follow one another in k, in bits 32 to 45 of those that follow in rows, both in 16 bytes, and no swizzling
// (bits 62 and 63). The address, in 16 bytes too, goes into bits 0 to 13.
const descriptor = uint64(coreBytes)>>4<<16 | uint64(2*coreBytes)>>4<<32
