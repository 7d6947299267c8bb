package replica

import "slices"

// Lease is how long what the order has given to this member's sessions is theirs: their advisory locks. The others
// take it away when they have heard nothing of this member's for a whole lease, counted from when they took in its last
// item. This member counts half a lease, from when it proposed the last item of which it knows that it was ordered: its
// clock may go half as fast as theirs (RE7).
type Lease struct {
	long  int64
	until int64 // what the sessions have is theirs
	begun bool  // something was ordered
	asked int64 // when the renewal under way was proposed
	under bool  // there is one
}

// NewLease makes one that is over.
func NewLease(long int64) Lease { return Lease{long: long} }

// Ordered notes that an item has its place in the order which was proposed then.
func (l *Lease) Ordered(proposed int64) {
	until := proposed + l.long/2
	if planted == "lease-too-long" {
		until = proposed + 2*l.long
	}
	if !l.begun || until > l.until {
		l.until, l.begun = until, true
	}
}

// Over reports whether what the sessions had is theirs no more, and has not been for so long.
func (l *Lease) Over(now, since int64) bool {
	return (!l.begun || now > l.until+since) && planted != "lease-ignored"
}

// Renews reports whether a renewal is to be proposed now; it is under way then. Needed: some session has something.
func (l *Lease) Renews(now int64, needed bool) bool {
	switch {
	case !needed:
		l.under = false
		return false
	case l.under && now-l.asked < l.long/2: // the order has it, or soon will
		return false
	}
	l.asked, l.under = now, true
	return true
}

// Renewed notes that the renewal under way has its place in the order.
func (l *Lease) Renewed() {
	if l.under {
		l.under = false
		l.Ordered(l.asked)
	}
}

// Tenant is a member that has, or asks for, something of which the order says who has it; and the last batch of its
// items that is known here.
type Tenant struct {
	Member              uint32
	Incarnation, Number uint64
}

// Watch is what this member knows of the others' leases.
type Watch struct {
	self uint32
	long int64
	seen []sight
}

// sight is since when nothing of a tenant was taken in.
type sight struct {
	Tenant
	at      int64
	expires bool // it was told to take away what it has
}

// NewWatch makes one.
func NewWatch(self uint32, long int64) Watch { return Watch{self: self, long: long} }

// Look takes all tenants there are, and returns those of which to propose that what they have is taken away. If
// something of them is ordered before that is, nothing happens.
func (w *Watch) Look(now int64, tenants []Tenant) (expire []Tenant) {
	next := make([]sight, 0, len(tenants))
	for _, t := range tenants {
		if t.Member == w.self {
			continue
		}
		s := sight{Tenant: t, at: now}
		if i := slices.IndexFunc(w.seen, func(s sight) bool { return s.Tenant == t }); i >= 0 {
			s = w.seen[i]
		}
		long := w.long
		if planted == "lease-expires-early" {
			long /= 4
		}
		if !s.expires && now-s.at >= long {
			s.expires = true
			expire = append(expire, t)
		}
		next = append(next, s)
	}
	w.seen = next
	return expire
}
