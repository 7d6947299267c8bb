package engine

// A member whose own sessions write nothing applies what the others do, and nobody there waits for it. When that comes so
// fast that groups form by themselves, each may wait a little longer: to apply many transactions together costs a fraction
// of what it costs to apply them one by one. The owner bounds the wait (Issue), and it changes nothing but the moment at
// which a group becomes visible at this member.

const (
	// keptItemsMax and keptBytesMax (as Options.QueueBytesMax counts) bound what waits, whatever the options say.
	keptItemsMax = 64
	keptBytesMax = 128 << 10
)

// Kept reports whether a group is kept back. Issue lets it go: the owner calls it after a short while.
func (e *Engine) Kept() bool {
	return e.running == nil && e.queueFirst <= e.ordinal && !e.issue && e.patient()
}

// Issue lets the group go that Kept speaks of.
func (e *Engine) Issue() { e.issue = e.Kept() && planted != "kept-for-ever" }

// due reports whether a group can be issued now.
func (e *Engine) due() bool {
	return e.running == nil && e.queueFirst <= e.ordinal && (e.issue || !e.patient())
}

// patient reports whether nobody here waits for what is queued, as far as the order tells: this member has had no part in it
// for long, the last group held some transactions already, and what is queued are rows of others.
func (e *Engine) patient() bool {
	if n := len(e.queue); n == 0 || n >= e.o.KeptItemsMax || e.tasks < e.o.KeptAfter || len(e.owns) > 0 || e.ordinal-e.spoke < uint64(e.o.KeptSilence) ||
		e.queueBytes > e.o.KeptBytesMax {
		return false
	}
	for i := range e.queue {
		if t := &e.queue[i]; t.Item.Kind != KindCertified || t.alone() {
			return false
		}
	}
	return true
}
