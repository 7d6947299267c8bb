package session

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// A READ COMMITTED transaction that has lost is done again by the session, statement by statement, while its client waits. If
// the client would have been told the same, byte for byte, nobody can tell it from one that was slower, and it goes on: each statement of
// such a transaction sees what is committed when it begins. If anything differs, the client is told that it has lost, as before.
//
// Only what statements leave to the transaction is done again: no settings, savepoints, portals with names, locks that are asked for,
// definitions, COPY FROM STDIN, or what outlives a rollback. What a request binds must still be what it was: no statement is closed in the
// transaction, and one without a name is parsed where it is bound.

// redo is what a session has of that.
type redo struct {
	off   bool      // something in the transaction cannot be done again
	busy  bool      // it is being done again: nothing is passed on
	runs  []request // what the transaction has done, in order
	bytes int       // of their frames
	told  xxhash.Digest
}

const (
	redoBytesMax = 64 << 10 // of what is done again
	redoRunsMax  = 1000
)

// end forgets a transaction.
func (d *redo) end() {
	clear(d.runs)
	d.off, d.runs, d.bytes = false, d.runs[:0], 0
	d.told.Reset()
}

// tell takes part in passing on what the client is told inside a block, and reports whether that is to be kept from it.
func (d *redo) tell(raw []byte) (kept bool) {
	if !d.off {
		_, _ = d.told.Write(raw) // never fails
	}
	return d.busy
}

// repeatable reports whether a request, as far as it is known, leaves everything to its transaction.
func (r *request) repeatable() bool {
	return r.added > 0 && !r.apart && !r.closes && !r.opaque && !r.defines && !r.sticky
}

// noteRedo notes a request that was carried out inside a block.
func (s *Session) noteRedo(r *request, rep *reply) {
	d := &s.redo
	if d.off || d.busy {
		return
	}
	if r.prepares && !r.closes && !slices.Contains(r.parses, "") && rep.failed == nil {
		return // a statement with a name outlives a rollback, and the name stands for nothing else
	}
	d.bytes += len(r.frames)
	if rep.failed != nil || s.lost || s.implicit || s.schema.noted || s.currentLevel() != semantics.ReadCommitted || s.advisory.used ||
		!r.repeatable() || d.bytes > redoBytesMax || len(d.runs) == redoRunsMax {
		d.end()
		d.off = true
		return
	}
	kept := *r
	if !r.extended {
		kept.frames = slices.Clone(r.frames) // the reader's
	}
	d.runs = append(d.runs, kept)
}

// revive does a transaction again that was rolled back under the client, if it can be. Otherwise it stays so.
func (s *Session) revive() error {
	told := s.redo.told.Sum64()
	for try := 0; s.doom != nil && !s.open && s.block == active && !s.redo.off && len(s.redo.runs) > 0 && s.doom.Code == wire.CodeSerializationFailure &&
		try < s.o.RetriesMax; try++ {
		if err := s.again(told); err != nil {
			return err
		}
	}
	return nil
}

// again tries that once; told is what the client has been told. Afterwards the transaction is open, and there is no doom, or it is rolled back, and doom says why.
func (s *Session) again(told uint64) error {
	d := &s.redo
	doom := s.doom
	s.doom = nil
	d.told.Reset()
	d.busy = true
	same := true
	for i := 0; i < len(d.runs) && same; i++ {
		r := d.runs[i]
		var err error
		if same, err = s.once(&r); err != nil {
			d.busy = false
			return err
		}
	}
	d.busy = false
	if same && d.told.Sum64() == told {
		return nil
	}
	if err := s.rollbackServer(); err != nil {
		return err
	}
	if s.doom == nil || s.doom.Code != wire.CodeSerializationFailure {
		s.doom, d.off = doom, true
	}
	return nil
}

// once does one request again. It reports whether it got as far as the first time.
func (s *Session) once(r *request) (bool, error) {
	if !r.chosen {
		r.direct = nil // what it is made of is gone
	}
	if err := s.choose(r); err != nil {
		return false, err
	}
	if err := s.ensureOpen(true); err != nil {
		return false, err
	}
	if s.doom != nil || !s.open {
		return false, nil
	}
	s.adjust()
	s.send(r)
	rep, err := s.relay(*r)
	if err != nil {
		return false, err
	}
	if err := s.noteRun(r, &rep); err != nil {
		return false, err
	}
	if forgot, err := s.recover(); forgot || err != nil {
		return false, err
	}
	return rep.failed == nil && rep.status == wire.TxActive && s.doom == nil && s.open, nil
}
