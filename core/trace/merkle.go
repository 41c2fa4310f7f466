package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// String is 64 lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads 64 lower-case hexadecimal digits: another spelling would be another name of the same file.
func ParseHash(text string) (h Hash, ok bool) {
	if len(text) != 2*len(h) || strings.Trim(text, "0123456789abcdef") != "" {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(text))
	return h, err == nil
}

// Root is the root of the Merkle tree over the hashes. A leaf is the hash of a zero byte and the hash of the line, a node the
// hash of a one and its two children, so that no leaf can pass for a node; a node without a sibling goes up as it is. The
// root of nothing is the hash of nothing.
func Root(hashes []Hash) Hash {
	if len(hashes) == 0 {
		return sha256.Sum256(nil)
	}
	level := make([]Hash, len(hashes))
	for i, h := range hashes {
		level[i] = sha256.Sum256(append([]byte{0}, h[:]...))
	}
	for len(level) > 1 {
		above := level[:0]
		for i := 0; i < len(level); i += 2 {
			if i+1 == len(level) {
				above = append(above, level[i])
				break
			}
			pair := append(append([]byte{1}, level[i][:]...), level[i+1][:]...)
			above = append(above, sha256.Sum256(pair))
		}
		level = above
	}
	return level[0]
}
