package sim

import (
	"github.com/tuttidb/tutti/internal/writeset"
)

// attempt is one transaction a client tried, and what it saw.
type attempt struct {
	tag     uint64 // names it in rows and in the history
	process int    // changes whenever the client lost its session
	home    uint32
	repeat  bool
	strict  bool        // SERIALIZABLE: what it reads is certified, row by row
	define  *definition // nil for a script
	alone   *exclusion  // nil: it wants nothing for itself
	unseen  *unseen     // it is blind; nil: it is not
	script  []statementOf
	start   int64
	end     int64

	base     uint64
	id       writeset.TxID // zero if never submitted
	outcome  outcome
	reads    []observed
	ops      []listOp
	changes  []change
	locked   []change // rows it has locked, changed or not
	adds     []change // that are made when it commits
	addBases []uint64 // the ordinals at which something was known of their rows
	orphan   bool     // its session did not commit it itself
	told     *told    // what its client was told; nil: it is no caller's
	of       *attempt // it is a try of this one; nil: it is none
	tries    int      // blind ones
	shape    int64    // of rows when it first wrote, see definition; of its table when a blind one was made
}

// observed is a read of one row.
type observed struct {
	key rowKey
	tag uint64 // zero: no row
	n   int64
}

// listOp is an append of a value, or (zero) a read, of one list.
type listOp struct {
	key   uint32
	value uint64
	list  []uint64
}

// client works through one session after the other.
type client struct {
	w       *world
	home    *member
	s       *modelSession
	process int
	idle    bool
	defines bool // it is one of definers
}

// next starts the next transaction after a pause, a longer one while members lag, or if a member has not committed for
// long since it was healed: see healedPause.
func (c *client) next() {
	pause := c.w.rnd.between(10, c.w.swarm.thinkMax) + c.home.peers.delay()
	if c.w.phase > phaseSafety && c.w.now > c.w.deadline-grace/2 {
		pause += healedPause
	}
	c.w.after(pause, c.begin)
}

func (c *client) begin() {
	w := c.w
	if w.phase == phaseQuiet {
		c.idle = true
		return
	}
	if w.faulty && c.s == nil && w.rnd.chance(w.swarm.roamPerMille) {
		c.home = w.members[w.rnd.intn(len(w.members))]
		c.newProcess()
	}
	if home := w.truth.voting.joins.home(c.home, c.s == nil); home != c.home {
		c.home = home
		c.newProcess()
	}
	m := c.home
	if !m.up || !m.open || m.paused {
		w.after(w.rnd.between(1000, 20000), c.begin)
		return
	}
	if c.s != nil && c.s.thread != nil { // it has yet to find out that its last transaction has ended
		w.after(500, c.begin)
		return
	}
	if c.s == nil {
		m.slots++
		c.s = &modelSession{m: m, c: c, slot: m.slots}
		if w.definers.on {
			c.s.grants = m.w.definers.of(m).grants.Session(waits{c.s})
		}
		m.sessions = append(m.sessions, c.s)
	}
	a := w.definers.script(c)
	a.process, a.home, a.start = c.process, m.id, w.now
	w.history = append(w.history, a)
	c.s.run(a)
}

func (c *client) newProcess() {
	c.w.processes++
	c.process = c.w.processes
}

// finished is the answer to an attempt.
func (c *client) finished(a *attempt, o outcome) {
	w := c.w
	if a.outcome != outcomeOK {
		a.outcome = o
	}
	a.end = w.now
	w.note(a.tag, uint64(a.outcome), a.base)
	w.stats.count(a)
	w.truth.voting.joins.told(a)
	if o == outcomeOK && len(a.changes) > 0 && !w.faulty {
		w.alive[a.home-1] = true
	}
	if o == outcomeUnknown || c.s == nil || c.s.state == sessionDead {
		c.newProcess()
	}
	c.next()
}
