package engine

import "github.com/tuttidb/tutti/internal/certify"

// Submit hands an own transaction to the order. False means that too many are under way
// (PendingMax) and nothing happened.
func (e *Engine) Submit(s Submission) bool {
	if e.own.full() {
		return false
	}
	e.own.submit(s)
	return true
}

// Withdraw takes back a submission that was not proposed yet, because it waits for an own
// predecessor or for a place in a batch; nothing of it will ever be ordered. False if it is
// too late (or unknown): then the log decides.
func (e *Engine) Withdraw(seq uint64) bool { return e.own.withdraw(seq) }

// Orphan says that the session of an own submission is gone and will neither commit nor
// roll back. If it was not proposed yet it is forgotten: its row locks are gone, so a base
// taken from now on would claim to have seen what it has not. Otherwise the log decides, and
// its rows will come as a task with Local false, unless its group is already running.
func (e *Engine) Orphan(seq uint64) { e.own.orphan(seq) }

// Loses gives the verdict on a transaction that is not submitted, if the log as delivered has decided against it.
func (e *Engine) Loses(s Submission) certify.Verdict { return e.own.loses(s) }

// Undecided reports whether a submission is on its way and the delivered part of the log does
// not hold it: what becomes of it is open. Withdraw before it was tried, Orphan after.
func (e *Engine) Undecided(seq uint64) bool { return e.own.undecided(seq) }

// Sent is how many bytes of an own payload have left in parts.
func (e *Engine) Sent(seq uint64) int {
	if w := e.own.owns[seq]; w != nil {
		return w.sent
	}
	return 0
}

// Added says that an own transaction, which the running group commits, has added to its rows, and what its order was
// when it had all of them.
func (e *Engine) Added(seq, order uint64) {
	if w := e.own.owns[seq]; w != nil {
		w.added = order
	}
}
