package certify

import "math/bits"

// filter says of most keys that are not in a map that they are not, from memory that fits a processor's cache:
// a large transaction asks for a million. A bit per key, wherever its hash falls; bits of keys that are gone stay
// until the filter is made anew.
type filter struct {
	bits  []uint64 // a power of two
	added int      // since it was made
}

// At 16 bits per key a sixteenth of the answers is wrong, at filterFull bits per key a quarter.
const (
	filterBits = 16
	filterFull = 4
)

func (f *filter) place(hash uint64) (word int, bit uint64) {
	shift := 64 - bits.Len(uint(len(f.bits)*64-1))
	n := hash * 0x9E3779B97F4A7C15 >> shift
	return int(n / 64), 1 << (n % 64)
}

// lacks reports that a key is in no case there.
func (f *filter) lacks(hash uint64) bool {
	if len(f.bits) == 0 {
		return true
	}
	word, bit := f.place(hash)
	return f.bits[word]&bit == 0
}

// add notes a key of a map that has it already.
func (f *filter) add(hash uint64, keys map[uint64]holder) {
	if f.added++; f.added*filterFull > len(f.bits)*64 {
		f.remake(keys)
		return
	}
	word, bit := f.place(hash)
	f.bits[word] |= bit
}

func (f *filter) remake(keys map[uint64]holder) {
	n := max(64, filterBits*len(keys))
	words := 1 << bits.Len(uint(n-1)) / 64
	f.added = len(keys)
	if words == len(f.bits) {
		clear(f.bits)
	} else {
		f.bits = make([]uint64, words)
	}
	for hash := range keys { // order-free: bits are set
		word, bit := f.place(hash)
		f.bits[word] |= bit
	}
}
