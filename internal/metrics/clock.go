package metrics

import "time"

// CommitClock takes the times at which one transaction of a session after the other passes from one phase to the next.
// The session's goroutine alone has it.
type CommitClock struct{ opened, woke, asked, collected, handed, decided time.Time }

// Begin says that the transaction is opened at the server.
func (c *CommitClock) Begin() { *c = CommitClock{opened: time.Now()} }

// Waits says that the session waits for its client, or has waited: COMMIT comes at the last time.
func (c *CommitClock) Waits() { c.woke = time.Now() }

// Ask says that what the transaction has changed is asked for.
func (c *CommitClock) Ask() { c.asked, c.collected = time.Now(), time.Time{} }

// Collect says that it is known, at the first time that the transaction is about to be ordered.
func (c *CommitClock) Collect() {
	if c.collected.IsZero() {
		c.collected = time.Now()
	}
}

// Hand says that the order has it.
func (c *CommitClock) Hand() { c.handed = time.Now() }

// Decide says that the log has said yes.
func (c *CommitClock) Decide() { c.decided = time.Now() }

// Committed counts the phases of a transaction that has come through all of them. Slowed is when its client need not
// wait any more but for flow control.
func (c *CommitClock) Committed(m *Transactions, slowed time.Time) {
	begin := c.asked
	if c.woke.After(begin) {
		begin = c.woke
	}
	if c.asked.IsZero() || c.decided.IsZero() {
		return
	}
	if !c.opened.IsZero() {
		m.Phases.Observe(PhaseRun, begin.Sub(c.opened))
	}
	end := time.Now()
	m.Phases.Observe(PhaseCollect, c.collected.Sub(begin))
	m.Phases.Observe(PhaseAdmit, c.handed.Sub(c.collected))
	m.Phases.Observe(PhaseOrder, c.decided.Sub(c.handed))
	m.Phases.Observe(PhaseCommit, slowed.Sub(c.decided))
	m.Phases.Observe(PhaseSlowed, end.Sub(slowed))
	m.Phases.Observe(PhaseWhole, end.Sub(begin))
	*c = CommitClock{}
}
