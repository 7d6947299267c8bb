package sim

import "encoding/binary"

// random is the one source of chance of a run (splitmix64).
type random struct{ state uint64 }

func newRandom(seed uint64) *random { return &random{state: mix(seed + 0x51)} }

func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	return mix(r.state)
}

// fork returns another source that follows from this one, without drawing from it.
func (r *random) fork() *random { return newRandom(mix(r.state) ^ 0xf02c) }

// intn returns a number in [0, n); n must be positive.
func (r *random) intn(n int) int { return int(r.next() % uint64(n)) }

// between returns a number in [lo, hi].
func (r *random) between(lo, hi int64) int64 {
	return lo + int64(r.next()%uint64(hi-lo+1))
}

// chance is true perMille times in a thousand.
func (r *random) chance(perMille int) bool { return r.intn(1000) < perMille }

// skewed returns a number in [0, n), small ones more often the larger skew is (0 to 3).
func (r *random) skewed(n, skew int) int {
	v := r.intn(n)
	for ; skew > 0; skew-- {
		v = min(v, r.intn(n))
	}
	return v
}

// Read makes random an io.Reader, for raft's election timeouts.
func (r *random) Read(p []byte) (int, error) {
	var b [8]byte
	for i := 0; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(b[:], r.next())
		copy(p[i:], b[:])
	}
	return len(p), nil
}

// order returns the numbers in [0, n) in random order.
func (r *random) order(n int) []int {
	o := make([]int, n)
	for i := range o {
		j := r.intn(i + 1)
		o[i], o[j] = o[j], i
	}
	return o
}
