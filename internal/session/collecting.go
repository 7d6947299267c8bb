package session

import (
	"errors"
	"fmt"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// The collect step finds out what a transaction has written, and what else it relies on: a Submission.

// collecting is that step. It sends and reads, and ends no transaction.
type collecting struct {
	backend  *backend
	captures Captures
	locking  Locking
	host     collectingHost
	bytesMax int // of what direct statements may have returned

	levels *levels
	direct *direct
	schema *schema
	locks  *locks
	reads  *reads
}

// collectingHost is what it needs of the node.
type collectingHost struct {
	Control
	Order
	Snapshots
	main func() bool // see Definitions.Main
}

// rereader asks for rows again.
type rereader func(Reread) (rows [][][]byte, failure *wire.SQLError, err error)

// collected is what the collect step found.
type collected struct {
	ws     *writeset.Writeset
	slot   uint32
	seq    uint64
	marked bool // by the collect step, if there is something to mark
	all    bool // an answer ahead of COMMIT says all
	adds   []addLater
	failed *wire.SQLError
	again  bool // another try may succeed although it has failed

	unfollowed bool // definitions must be followed up first

	incarnation uint64
	order       uint64
}

// appendCollect adds the collect step to what is sent to the backend.
func (k *collecting) appendCollect() collected {
	slot, incarnation, seq := k.host.NewSeq()
	out := k.backend.out
	out.Append(wire.AppendSync(k.captures.AppendCollect(out.AvailableBuffer(), slot, incarnation, seq,
		len(k.direct.rows) > 0)))
	return collected{slot: slot, incarnation: incarnation, seq: seq, marked: true}
}

// decode reads rows of the collect step, and what must be read again.
func (k *collecting) decode(c *collected, rows [][][]byte, reread rereader) error {
	got, err := k.captures.Decode(rows, k.direct.rows)
	if err != nil {
		return c.fail(err)
	}
	c.unfollowed = got.Unfollowed()
	if level := got.Isolation(); level != "" && semantics.ParseIsolation(level) != k.levels.current() &&
		k.levels.modes.Isolation == semantics.Unsaid {
		k.levels.stale, c.again, c.failed = true, true, errOtherLevel()
		return nil
	} else if level != "" && semantics.ParseIsolation(level) != k.levels.current() {
		c.failed = wire.Errorf(wire.CodeFeatureNotSupported,
			"the transaction's isolation level was changed to %q in a way Tutti cannot follow", level).
			WithHint("Use SET TRANSACTION or BEGIN ISOLATION LEVEL as statements of their own.")
		return nil
	}
	return k.conclude(c, got, reread)
}

// conclude reads again what must be, and takes what was found.
func (k *collecting) conclude(c *collected, got Collected, reread rereader) error {
	rereads, err := got.Rereads()
	if err != nil {
		return c.fail(err)
	}
	for i, q := range rereads {
		rows, failure, err := reread(q)
		if err != nil || failure != nil {
			c.failed = failure
			return err
		}
		if err := got.Complete(i, rows); err != nil {
			return c.fail(err)
		}
	}
	c.all = got.All()
	c.order = got.Order()
	c.ws, err = got.Writeset()
	return c.fail(err)
}

// fail notes an error that is the transaction's, for its client; any other is the session's.
func (c *collected) fail(err error) error {
	if err == nil || errors.As(err, &c.failed) {
		return nil
	}
	return fmt.Errorf("session: collect: %w", err)
}

// reread asks for rows again.
func (k *collecting) reread(q Reread) (rows [][][]byte, failure *wire.SQLError, err error) {
	k.backend.out.Append(wire.AppendSync(q.Append(k.backend.out.AvailableBuffer())))
	r, rows, err := k.backend.internal(true)
	return rows, failureOf(r), err
}

// complete adds to a writeset what the transaction relies on besides what it has written.
func (k *collecting) complete(c *collected) error {
	if err := k.locks.addTo(c); err != nil {
		return err
	}
	if err := k.reads.pin(c); err != nil {
		return err
	}
	if err := k.addTableLocks(c); err != nil {
		return err
	}
	if c.failed == nil && c.ws != nil {
		c.failed = k.share(c.ws)
	}
	return nil
}

// submission is what the log is to decide on. Refused says that the transaction has lost already; retry that it may run
// again.
func (k *collecting) submission(c *collected, base uint64) (
	sub Submission, refused *wire.SQLError, retry bool, err error) {
	if refused = k.host.Pass(c.ws, k.backend.waitLimits); refused != nil {
		return sub, refused, refused.Code == wire.CodeSerializationFailure, nil
	}
	sub = Submission{Seq: c.seq, Snapshot: k.levels.snapshot(), Base: base, Order: c.order, Writeset: c.ws,
		Limits: k.backend.waitLimits}
	for _, a := range c.adds {
		sub.AddBases = append(sub.AddBases, a.row.At)
	}
	if refused, err = k.vouch(&sub); refused == nil && err == nil {
		refused = k.host.Enter(PhaseSubmitted)
	}
	return sub, refused, true, err
}

// vouch has a SERIALIZABLE transaction left to the backend as far as it conflicts with others of this member (decision
// 0034). It tells whether the backend has refused it since its last statement.
func (k *collecting) vouch(sub *Submission) (refused *wire.SQLError, err error) {
	if sub.Serial = k.levels.current() == semantics.Serializable; !sub.Serial || len(sub.Writeset.Steps) > 0 ||
		!k.host.SerialAlone(*sub) {
		return nil, nil
	}
	// it reads a row, which is enough
	k.backend.out.Append(wire.AppendSync(k.locking.AppendTablesLocked(k.backend.out.AvailableBuffer())))
	r, err := k.backend.quiet()
	switch {
	case err != nil:
		k.host.SerialApart()
		return nil, err
	case r.failed == nil:
		sub.Vouched = true
		return nil, nil
	}
	if doom := k.host.Enter(PhaseRunning); doom != nil { // it was cancelled
		return doom, nil
	}
	return &wire.SQLError{ErrorFields: *r.failed}, nil
}

// takeDirect is the collect step where direct statements have returned all that was written (transaction.alone).
func (k *collecting) takeDirect() (collected, error) {
	var c collected
	c.slot, c.incarnation, c.seq = k.host.NewSeq()
	if k.returnedTooMuch(&c) {
		return c, nil
	}
	got, err := k.captures.Decode(nil, k.direct.rows)
	if err != nil {
		return c, c.fail(err)
	}
	return c, k.conclude(&c, got, k.reread)
}

// returnedTooMuch refuses a transaction whose direct statements returned more than is kept.
func (k *collecting) returnedTooMuch(c *collected) bool {
	if k.direct.bytes <= k.bytesMax {
		return false
	}
	c.failed = k.tooMuch(k.bytesMax)
	return true
}

// tooMuch refuses a transaction that changes more than it may.
func (k *collecting) tooMuch(most int) *wire.SQLError {
	k.host.Exceeded()
	return wire.Errorf(wire.CodeProgramLimit, "the transaction changes more than %d bytes (writeset_bytes)",
		most).WithHint("Split it into smaller transactions.")
}
