package replica

import (
	"maps"
	"slices"
)

// Listening is who listens to what: the members' sets of channels as far as the order is carried out here, and what
// this member's sessions listen to, of which the order is told. Not safe for concurrent use.
type Listening struct {
	self    uint32
	sets    map[uint32]map[string]bool // by member
	foreign map[string]int             // how many other members listen
	refs    map[string]int             // how many sessions of this member do

	told  map[string]bool   // own channels, as the order knows them or is about to
	since map[string]uint64 // the ordinal from which on the order knows an own channel
}

// NewListening makes that of a member's life.
func NewListening(self uint32) Listening {
	return Listening{self: self, sets: map[uint32]map[string]bool{}, foreign: map[string]int{},
		refs: map[string]int{}, told: map[string]bool{}, since: map[string]uint64{}}
}

// Heard reports whether a session of this member listens.
func (x *Listening) Heard(channel string) bool { return x.refs[channel] > 0 }

// Passed reports whether any other member's sessions listen to a channel, which must be told to them.
func (x *Listening) Passed(channel string) bool { return x.foreign[channel] > 0 }

// Away reports whether any other member's sessions listen to anything.
func (x *Listening) Away() bool { return len(x.foreign) > 0 }

// Count is the number of channels this member's sessions listen to.
func (x *Listening) Count() int { return len(x.refs) }

// Replace notes that a session listens to other channels than before.
func (x *Listening) Replace(before, now []string) {
	for _, c := range now {
		x.refs[c]++
	}
	for _, c := range before {
		if x.refs[c]--; x.refs[c] == 0 {
			delete(x.refs, c)
		}
	}
}

// Begin is called when the order is carried out up to this life's fence. What the order says of an earlier life holds
// until it is told otherwise (RE10).
func (x *Listening) Begin(ordinal uint64) {
	x.told = maps.Clone(x.sets[x.self])
	if x.told == nil || planted == "listeners-not-told-again" {
		x.told = map[string]bool{}
	}
	for c := range x.told { // order-free: each for itself
		x.since[c] = ordinal
	}
}

// Difference is what the order must be told, and takes that as told.
func (x *Listening) Difference() (add, remove []string) {
	for c := range x.refs { // order-free: sorted below
		if !x.told[c] {
			add = append(add, c)
			x.told[c] = true
		}
	}
	for c := range x.told { // order-free: sorted below
		if x.refs[c] == 0 {
			remove = append(remove, c)
			delete(x.told, c)
			delete(x.since, c)
		}
	}
	slices.Sort(add)
	slices.Sort(remove)
	return add, remove
}

// Change carries out a member's announcement and returns what this member must listen to for the others from now on,
// and no longer.
func (x *Listening) Change(member uint32, add, remove []string) (listen, unlisten []string) {
	set := x.sets[member]
	if set == nil {
		set = map[string]bool{}
		x.sets[member] = set
	}
	for _, c := range add {
		if !set[c] && member != x.self {
			if x.foreign[c]++; x.foreign[c] == 1 {
				listen = append(listen, c)
			}
		}
		set[c] = true
	}
	for _, c := range remove {
		if set[c] && member != x.self {
			if x.foreign[c]--; x.foreign[c] == 0 || planted == "last-listener-is-all" {
				delete(x.foreign, c)
				unlisten = append(unlisten, c)
			}
		}
		delete(set, c)
	}
	return listen, unlisten
}

// Carried notes from which ordinal on the order knows channels that this life has announced.
func (x *Listening) Carried(ordinal uint64, add []string) {
	for _, c := range add {
		if x.told[c] {
			x.since[c] = ordinal
		}
	}
}

// Since is the ordinal from which on the order knows all of some channels; zero if it does not.
func (x *Listening) Since(names []string) (since uint64) {
	for _, c := range names {
		if x.since[c] == 0 {
			return 0
		}
		since = max(since, x.since[c])
	}
	return since
}
