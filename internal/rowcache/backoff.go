package rowcache

// Backoff remembers what was in vain and until when it is not to be tried again (K6). Two things may share a place;
// then the later one is remembered.
type Backoff struct {
	places []place
}

type place struct {
	key   uint64
	until int64
}

// NewBackoff returns one that remembers size things at most.
func NewBackoff(size int) *Backoff { return &Backoff{places: make([]place, size)} }

func (b *Backoff) at(key uint64) *place { return &b.places[key%uint64(len(b.places))] }

// Begin has key be left alone until a moment.
func (b *Backoff) Begin(key uint64, until int64) { *b.at(key) = place{key, until} }

// On reports whether key is to be left alone now.
func (b *Backoff) On(key uint64, now int64) bool {
	p := b.at(key)
	return p.key == key && now < p.until && planted != "back-off-forgotten"
}

// End says that the reason is gone.
func (b *Backoff) End(key uint64) {
	if p := b.at(key); p.key == key {
		*p = place{}
	}
}
