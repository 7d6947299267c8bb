package session

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// A READ COMMITTED transaction that has lost is done again by the session, statement by statement, while its client
// waits. If the client would have been told the same, byte for byte, nobody can tell it from one that was slower, and
// it goes on: each statement of such a transaction sees what is committed when it begins. If anything differs, the
// client is told that it has lost, as before.
//
// A statement that was running is done again as well: what the client has been told of it must come again, and only
// what follows is passed on.
//
// Only what statements leave to the transaction is done again: no settings, savepoints, portals with names, locks that
// are asked for, definitions, COPY FROM STDIN, or what outlives a rollback. What a request binds must still be what it
// was: no statement is closed in the transaction, and one without a name is parsed where it is bound.

// retrying is what a session has of that.
type retrying struct {
	control  Control
	out      *wire.Writer // to the client
	carrying *carrying    // does one request again; a function here would have each request of a block escape
	triesMax int
	tx       *transaction
	later    *later
	unnamed  *unnamed
	backend  *backend
	txn      *txn.Machine
	levels   *levels
	schema   *schema
	advisory *advisory
	turns    *rowTurns

	off       bool      // something in the transaction cannot be done again
	busy      bool      // it is being done again: nothing is passed on
	runs      []request // what the transaction has done, in order
	bytes     int       // of their frames
	told      xxhash.Digest
	bytesTold int

	resumes bool   // the request that was running is being done again
	skip    int    // so many bytes of what the client has been told of it are yet to come
	sum     uint64 // of all that it has been told
	differs bool   // something else has come
}

const (
	redoBytesMax = 64 << 10 // of what is done again
	redoRunsMax  = 1000
)

// end forgets a transaction.
func (d *retrying) end() {
	clear(d.runs)
	d.off, d.runs, d.bytes = false, d.runs[:0], 0
	d.tx.stays = false
	d.forget()
}

// forget begins anew with what the client is told.
func (d *retrying) forget() {
	d.told.Reset()
	d.bytesTold = 0
}

// tell takes part in passing on what the client is told inside a block, and reports whether that is to be kept from it.
func (d *retrying) tell(raw []byte) (kept bool) {
	if !d.off {
		_, _ = d.told.Write(raw) // never fails
		d.bytesTold += len(raw)
	}
	if !d.resumes || d.skip == 0 {
		return d.busy || d.differs
	}
	d.skip -= len(raw)
	d.differs = d.skip < 0 || d.skip == 0 && d.told.Sum64() != d.sum
	d.skip = max(0, d.skip)
	return true
}

// repeatable reports whether a request, as far as it is known, leaves everything to its transaction.
func (r *request) repeatable() bool {
	return r.does.added > 0 && !r.does.apart && !r.closes && !r.looks.opaque && !r.does.defines && r.does.outlives == 0
}

// note notes a request that was carried out inside a block.
func (d *retrying) note(r *request, rep *reply) {
	if d.off || d.busy {
		return
	}
	if r.prepares && !r.closes && !slices.Contains(r.parses, "") && rep.failed == nil {
		return // a statement with a name outlives a rollback, and the name stands for nothing else
	}
	if rep.failed != nil || !d.redoable(r) {
		d.end()
		d.off = true
		return
	}
	d.bytes += len(r.frames)
	kept := *r
	kept.named, kept.answer.locked = true, nil // what they are made of goes
	kept.way.glance = nil
	if !r.extended {
		kept.frames = slices.Clone(r.frames) // the reader's
	}
	d.runs = append(d.runs, kept)
}

// redoable reports whether a request of a block can be done again, as far as it is known, with what went before it.
func (d *retrying) redoable(r *request) bool {
	return !d.off && !d.backend.lost && d.txn.Active() && !d.txn.Implicit() && !d.schema.noted &&
		d.levels.current() == semantics.ReadCommitted && !d.advisory.used &&
		r.repeatable() && d.bytes+len(r.frames) <= redoBytesMax && len(d.runs) < redoRunsMax
}

// revive does a transaction again that was rolled back under the client, if it can be. Otherwise it stays so.
func (d *retrying) revive() error {
	told := d.told.Sum64()
	for try := 0; d.txn.Gone() && d.txn.Active() && !d.off && len(d.runs) > 0 &&
		d.txn.Reason().Code == wire.CodeSerializationFailure && try < d.triesMax; try++ {
		if err := d.again(told); err != nil {
			return err
		}
	}
	return nil
}

// again tries that once; told is what the client has been told. Afterwards the transaction is open, and there is no
// doom, or it is rolled back, and doom says why.
func (d *retrying) again(told uint64) error {
	doom := d.txn.Reason()
	d.txn.Retry()
	d.later.end()
	d.forget()
	d.unnamed.owed = true // the backend gets those of all requests again
	d.busy = true
	same := true
	var failed *wire.ErrorFields
	for i := 0; i < len(d.runs) && same; i++ {
		r := d.runs[i]
		plantTwice(d, &r)
		rep, done, err := d.carrying.once(&r)
		if err != nil {
			d.busy = false
			return err
		}
		failed = rep.failed
		same = done && rep.failed == nil && rep.status == wire.TxActive && d.txn.Reason() == nil && d.txn.Open()
	}
	d.busy = false
	if same && d.like(told) {
		return nil
	}
	if err := d.tx.rollbackServer(); err != nil {
		return err
	}
	switch why := d.txn.Reason(); {
	case why != nil && why.Code == wire.CodeSerializationFailure:
	case why == nil && failed != nil && failed.Code == wire.CodeSerializationFailure:
		d.txn.Condemn(doom) // of statements as they were before a definition; the next try has them made anew
	default:
		d.off = true
		d.txn.Condemn(doom)
	}
	return nil
}

// like reports whether the client would have been told the same.
func (d *retrying) like(told uint64) bool {
	return d.told.Sum64() == told || planted == "redone-otherwise"
}

// telling is how much the client has been told in a transaction.
type telling struct {
	bytes int
	sum   uint64
}

func (d *retrying) telling() telling { return telling{d.bytesTold, d.told.Sum64()} }

// resume does the transaction again, and last the request that was interrupted when it lost, of which the client may
// have been told the beginning. The transaction is open again, or the client is told that it has lost. Before is what
// it was told until the request began.
func (d *retrying) resume(r *request, rep *reply, before telling) error {
	d.control.Resuming(true)
	defer d.control.Resuming(false)
	now, doom := d.telling(), d.txn.Reason()
	told := false // the client has been told of an error
	for try := 0; try < d.triesMax; try++ {
		if err := d.tx.rollbackServer(); err != nil {
			return err
		}
		if err := d.again(before.sum); err != nil {
			return err
		}
		if d.control.Cancelled() {
			doom = wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to user request")
			break
		}
		if d.txn.Reason() != nil {
			if doom = d.txn.Reason(); d.off || doom.Code != wire.CodeSerializationFailure {
				break
			}
			continue
		}
		next, done, same, err := d.resumeOnce(r, telling{now.bytes - before.bytes, now.sum})
		if err != nil {
			return err
		}
		if done && same {
			*rep = next
			return nil
		}
		rep.done, rep.parsed = max(rep.done, next.done), max(rep.parsed, next.parsed)
		if doom = cmp.Or(d.txn.Reason(), doom); !next.interrupted {
			told = same && next.failed != nil
			break
		}
		if same {
			now = d.telling()
		}
	}
	if err := d.tx.rollbackServer(); err != nil {
		return err
	}
	if !told {
		d.turns.told(doom)
		d.out.Append(doom.Append(nil))
	}
	d.txn.Absolve()
	rep.failed, rep.status, rep.interrupted = &doom.ErrorFields, wire.TxFailed, false
	return nil
}

// resumeOnce does the request itself again, of which so much has been told. It reports whether that has come again.
func (d *retrying) resumeOnce(r *request, told telling) (rep reply, done, same bool, err error) {
	d.resumes, d.differs, d.skip, d.sum = true, false, told.bytes, told.sum
	rep, done, err = d.carrying.once(r)
	same = !d.differs && d.skip == 0
	d.resumes, d.differs, d.skip = false, false, 0
	d.schema.unsure = true // the rollback has forgotten it
	return rep, done, same, err
}
