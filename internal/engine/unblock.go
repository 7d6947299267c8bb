package engine

// Way is how an own submission gets out of the way of the running group.
type Way int

const (
	Stays     Way = iota // its verdict is on the way, or its group comes next
	Withdrawn            // nothing of it will be ordered: its transaction can be rolled back and tried again
	Foretold             // it has lost; Aborted follows
	Joins                // it is certified, and is committed with the running group
	Ends                 // its backend must be ended: if the log says so, its rows are applied like another member's
)

// Unblock decides about an own submission that holds what the running group waits for in the database. The log decides
// about it, so the group cannot just be put first:
//
//   - what was not proposed is withdrawn;
//   - what has lost by what is delivered need not wait for its verdict (E14);
//   - what is certified and queued behind the group can conflict with the group only through a lock that is no key
//     (LOCK TABLE): its task is taken out of the queue and returned. Until Holes is false again no prefix snapshot may
//     be taken. But if it adds to rows, the group may have what it would wait for to commit: it ends;
//   - if the queue is full, nothing is delivered until the group is done, so the verdict cannot come: it ends.
//
// joins says that the group still takes transactions; if it does not, its end comes next, and who could join, or would
// end because of the queue, stays.
func (e *Engine) Unblock(seq uint64, joins bool) (Way, Task) {
	switch w := e.own.owns[seq]; {
	case e.own.withdraw(seq):
		return Withdrawn, Task{}
	case e.own.foretell(seq):
		return Foretold, Task{}
	case w != nil && len(w.AddBases) > 0 && e.queue.queued(seq):
		return Ends, Task{}
	case !joins:
		return Stays, Task{}
	}
	if t, ok := e.queue.take(seq); ok {
		return Joins, t
	}
	if e.queue.full() && e.own.undecided(seq) && planted != "queue-blocked-by-its-own" {
		return Ends, Task{}
	}
	return Stays, Task{}
}
