package sim

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/wire"
)

// schemas is a life's part in schema locks and turns: production's, whose words go over the network, and beside it what
// the run expects of them (S15, S16).
type schemas struct {
	m       *member
	grants  *grants.Grants
	threads []*thread
	began   int64
	expects expectations
}

// starts begins a life's.
func (d *definers) starts(m *member) {
	if !d.on {
		return
	}
	x := &schemas{m: m, began: m.w.now, expects: newExpectations()}
	d.lives[m.id-1] = x
	c := &config.Config{Member: m.id}
	for _, o := range m.w.members {
		c.Members = append(c.Members, config.Member{Member: o.id})
	}
	x.grants = grants.New(grants.Options{
		Config: c, Log: slog.New(warnings{x: x}), Metrics: &metrics.Database{}, Life: m.incarnation,
		Clock: hurried{m}, Applied: m.engine.Applied, Complete: m.engine.Applied,
		Ordered: func() uint64 {
			x.expects.ordered[d.runs] = m.engine.Ordinal()
			return m.engine.Ordinal()
		},
		Await:  func(done func() bool) { d.runs.until(done) },
		Wake:   x.wake,
		Ending: func() bool { return false }, // what runs ends where it is
		Go:     func(f func()) { x.begins(f) },

		RowTurns: func() bool { return true },
		Reach:    x.asks, Send: x.send,
		Position: func(context.Context) (uint64, error) { return m.db.collect(), nil },
		Gone:     x.gone,
		Blockers: x.blockers,
	})
	x.begins(func() {
		for {
			hurried{m}.Rest(grants.Renewal, nil)
			x.grants.Word()
		}
	})
}

// ends ends a life's: what runs ends where it is.
func (d *definers) ends(m *member) {
	if !d.on {
		return
	}
	for _, t := range d.lives[m.id-1].threads {
		t.over = true
		m.w.after(0, t.co.stop)
	}
}

// of are those of a member's life; nil if the run has none.
func (d *definers) of(m *member) *schemas { return d.lives[m.id-1] }

// wake has all look again that wait at the member.
func (x *schemas) wake() {
	running := x.threads[:0]
	for _, t := range x.threads {
		if !t.over {
			running = append(running, t)
		}
	}
	clear(x.threads[len(running):])
	x.threads = running
	for _, t := range running {
		t.wake()
	}
	for _, s := range x.m.w.callers.of(x.m) {
		s.wake()
	}
}

// moved is called when more may be applied at a member.
func (d *definers) moved(m *member) {
	if d.on {
		d.of(m).wake()
		return
	}
	for _, s := range m.w.callers.of(m) {
		s.wake()
	}
}

// reach is what is known of a member that is to be asked.
func (x *schemas) reach(member uint32) grants.Reach {
	s, alive := x.m.peers.table.Of(x.m.w.now, member)
	return grants.Reach{Alive: alive, Unheard: x.m.w.now-x.began < silentMicros && x.m.peers.table.Unheard(member),
		Halted: alive && s.State == replica.Halted}
}

// asks is reach for who is about to ask the member for a lock, or to ask it again.
func (x *schemas) asks(member uint32) grants.Reach {
	is := x.reach(member)
	if is.Halted {
		x.leavesOut(member)
	}
	return is
}

// send sends a word about a lock.
func (x *schemas) send(to uint32, answer bool, word []byte) bool {
	w, m := x.m.w, x.m
	if x.noteSent(to, answer, word); w.definers.rnd.chance(w.definers.deafPerMille) && w.faulty {
		return true // it has left, and is lost
	}
	o := w.members[to-1]
	life := m.incarnation // it may be over when the word comes
	sent := w.net.carry(&w.definers.lane, m, o, func() { w.definers.of(o).hear(m.id, life, answer, word) })
	if !answer && !sent {
		x.notAwaited(to, word)
	}
	return sent
}

// hear takes one, which a member's life has sent.
func (x *schemas) hear(from uint32, life uint64, answer bool, word []byte) {
	if x.noteHeard(from, life, answer, word); answer {
		x.grants.Answered(from, word)
	} else {
		x.grants.Hear(from, word)
	}
	x.wake()
}

// blockers are the backends for whose locks one waits, and those for whose these wait, as PostgreSQL tells.
// gone reports whether a session's backend has ended.
func (x *schemas) gone(_ context.Context, pid uint32) (bool, error) {
	for _, s := range x.m.sessions {
		if s.slot == pid {
			return s.broken, nil
		}
	}
	return true, nil
}

func (x *schemas) blockers(_ context.Context, pid uint32) (pids []uint32, err error) {
	for _, s := range x.m.sessions {
		if s.slot == pid && s.t != nil {
			for _, t := range chain(s.t) {
				if o, ok := t.owner.(*modelSession); ok && o != s {
					pids = append(pids, o.slot)
				}
			}
		}
	}
	return pids, nil
}

// warnings takes what production logs: who goes on without its turn.
type warnings struct {
	slog.Handler
	x *schemas
}

func (h warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (h warnings) Handle(_ context.Context, r slog.Record) error {
	var pid uint64
	why := ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "pid":
			pid = a.Value.Uint64()
		case "why":
			why = a.Value.String()
		}
		return true
	})
	h.x.goesOn(uint32(pid), why)
	return nil
}

// decodeWord decodes a word of production's.
func decodeWord[T any](word []byte) (v T) {
	must(json.Unmarshal(word, &v))
	return v
}

// waits is grants.Client of a session of the model.
type waits struct{ s *modelSession }

func (c waits) Interrupted() *wire.SQLError {
	if s := c.s; s.a != s.waitsFor || s.state != sessionRunning || s.broken {
		return errLost()
	}
	return nil
}

func (c waits) Wishes() bool          { return false }
func (c waits) PID() uint32           { return c.s.slot }
func (c waits) Moves() (uint64, bool) { return 0, false }

// lockID names a lock of this life.
func (x *schemas) lockID(number uint64) schemalock.ID {
	return schemalock.ID{Member: x.m.id, Life: x.m.incarnation, Number: number}
}
