package meetings

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/halt"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/process"
)

// again is after how long a meeting is asked for again: the item may have been out of date.
const again = 200 * time.Millisecond

// Options are what the meetings of a replica need of it.
type Options struct {
	Database string
	Applied  func() uint64
	Halted   func() *peers.Halt
	Ending   func() bool
	// Ask puts a word that names a meeting into the database's order, if there is room; UnderWay reports whether that
	// is still under way. What finds no room is asked again.
	Ask      func(number uint64) (seq uint64, err error)
	UnderWay func(seq uint64) bool
}

// Meetings is how far a replica is with its meetings. Safe for concurrent use.
type Meetings struct {
	o       Options
	met     atomic.Uint64 // the last one to which it came
	through atomic.Uint64 // up to which the main database has everything, if that is more than what is applied
}

// New makes those of a replica.
func New(o Options) *Meetings { return &Meetings{o: o} }

// Through says up to where the database has everything, also after a start, when the applied ordinal may be behind.
func (m *Meetings) Through(ordinal uint64) { m.through.Store(ordinal) }

// Hold waits until the other databases have come to a meeting of the main one (M1).
func (m *Meetings) Hold(ctx context.Context, number uint64, others []*Meetings) error {
	m.Through(number - 1)
	for _, other := range others {
		if err := other.come(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

// come waits until this database has come to a meeting, and sees to it that it does.
func (m *Meetings) come(ctx context.Context, number uint64) (err error) {
	var asked time.Time
	seq := uint64(0)
	for m.met.Load() < number && !m.o.Ending() {
		if h := m.o.Halted(); h != nil {
			return m.halted(h)
		}
		if time.Since(asked) > again && !m.o.UnderWay(seq) {
			asked = time.Now()
			if seq, err = m.o.Ask(number); err != nil {
				return err
			}
		}
		if !process.Sleep(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// Attend is the other side: this database has come to a meeting, and waits for the main database (M2). That is looked
// up again and again, as it may not have been opened yet; nil: it is not there.
func (m *Meetings) Attend(ctx context.Context, number uint64, main func() *Meetings) error {
	m.met.Store(max(number, m.met.Load()))
	for {
		if x := main(); x != nil {
			if max(x.o.Applied(), x.through.Load()) >= number {
				return nil
			}
			if h := x.o.Halted(); h != nil {
				return x.halted(h)
			}
		}
		if !process.Sleep(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
}

// halted is why somebody who waits for this database cannot go on (M4).
func (m *Meetings) halted(h *peers.Halt) error {
	return &failure.Fatal{Err: &halt.Waits{Database: m.o.Database, Halt: h}}
}
