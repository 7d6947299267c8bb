package engine

// A member whose own sessions write nothing applies what the others do, and nobody there waits for it. When that
// comes so fast that groups form by themselves, each may wait a little longer: to apply many transactions together
// costs a fraction of what it costs to apply them one by one. The owner bounds the wait (Issue), and it changes
// nothing but the moment at which a group becomes visible at this member.

const (
	// keptItemsMax and keptBytesMax (as Options.QueueBytesMax counts) bound what waits, whatever the options say.
	keptItemsMax = 64
	keptBytesMax = 128 << 10
)

// kept reports whether a group is kept back.
func (q *schedule) kept() bool {
	return q.running == nil && q.first <= q.log.ordinal && !q.issue && q.patient()
}

// due reports whether a group can be issued now.
func (q *schedule) due() bool {
	return q.running == nil && q.first <= q.log.ordinal && (q.issue || !q.patient())
}

// patient reports whether nobody here waits for what is queued, as far as the order tells: this member has had no part
// in it for long, the last group held some transactions already, and what is queued are rows of others.
func (q *schedule) patient() bool {
	switch n := len(q.queue); {
	case n == 0 || n >= q.o.KeptItemsMax || q.bytes > q.o.KeptBytesMax:
		return false
	case q.tasks < q.o.KeptAfter || q.busy() || q.log.ordinal-q.spoke < uint64(q.o.KeptSilence):
		return false
	}
	for i := range q.queue {
		if t := &q.queue[i]; t.Item.Kind != KindCertified || t.alone() {
			return false
		}
	}
	return true
}
