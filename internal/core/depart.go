package core

import "time"

// LeaveMax is for how long a leader that ends waits for another to lead; others elect one in about a second.
const LeaveMax = 500 * time.Millisecond

const leavePoll = 10 * time.Millisecond

// depart hands the lead over, and goes on until another member has it, or cannot have it.
func (c *Core) depart() error {
	heir := c.o.Leave(c.engine)
	if heir == 0 {
		return nil
	}
	late, poll := time.NewTimer(LeaveMax), time.NewTicker(leavePoll)
	defer late.Stop()
	defer poll.Stop()
	for self := c.leader.Load(); ; c.drainInputs() {
		c.drainReady()
		if now := c.leader.Load(); now != 0 && now != self {
			return nil
		}
		select {
		case <-late.C:
			return nil
		case <-poll.C:
			if !c.o.Reaches(heir) {
				return nil
			}
		case m := <-c.inbox:
			c.step(m)
		case f := <-c.ops:
			f(c.engine)
		case err := <-c.written:
			if err != nil {
				return err
			}
			c.finish()
		}
	}
}
