package proto

import (
	"slices"

	"github.com/tuttidb/tutti/internal/wire"
)

// LateBytesMax bounds what is kept of NOTICEs, of changed parameters, and of notifications.
const LateBytesMax = 64 << 10

// Results passes a backend's frames on to the client, or holds them back. Make it with NewResults.
type Results struct {
	out   *wire.Writer
	max   int
	tells func(raw []byte) (kept bool)
	more  func() bool

	holding      bool
	commitsFirst bool // what is held is a Query's, see Notice
	spilled      bool
	held         []byte
	complete     int  // where the last CommandComplete in held begins; −1: there is none
	results      bool // held has more than announcements
	told         told
}

// NewResults returns one that holds at most bytesMax bytes of results back. tells takes part in what is passed on and
// not held, and reports whether that is to be kept from the client; more reports whether the backend has more to say.
func NewResults(out *wire.Writer, bytesMax int, tells func(raw []byte) (kept bool), more func() bool) Results {
	return Results{out: out, max: bytesMax, tells: tells, more: more, complete: -1}
}

// Begin comes before a statement's first run; early says that the client may be told NOTICEs while it runs.
func (r *Results) Begin(early bool) { r.told.begin(early) }

// Hold comes before each run: results are held back from now on. commitsFirst says that the statement is a Query's.
func (r *Results) Hold(commitsFirst bool) {
	r.holding, r.commitsFirst, r.spilled, r.held, r.complete = true, commitsFirst, false, r.held[:0], -1
	r.results = false
	r.told.again()
}

// Holding reports whether results are held back.
func (r *Results) Holding() bool { return r.holding }

// Spilled reports whether the client was told a result since Hold (P2).
func (r *Results) Spilled() bool { return r.spilled }

// Changed reports whether this run announces something else than the client was told of.
func (r *Results) Changed() bool { return r.told.broken }

// Emit passes a frame on to the client, or holds it back.
func (r *Results) Emit(f wire.Frame) error {
	if !r.holding {
		if r.tells(f.Raw) {
			return nil
		}
		return r.pass(f.Raw)
	}
	if r.told.broken || announces(f.Type) && r.told.announced(f.Raw) {
		return nil
	}
	if f.Type == wire.TypeDataRow || f.Type == wire.TypeCopyData || f.Type == wire.TypeNoticeResponse {
		if len(r.held)+len(f.Raw) > r.max {
			r.Spill()
		}
		if r.spilled && len(r.held) == 0 {
			return r.pass(f.Raw)
		}
	}
	if f.Type == wire.TypeCommandComplete {
		r.complete = len(r.held)
	}
	r.results = r.results || !announces(f.Type)
	r.held = append(r.held, f.Raw...)
	return nil
}

// Remark passes on a NOTICE. As PostgreSQL's, it leaves while the statement goes on, which may wait for a lock or
// tell how far it is; unless there are results before it (P3).
func (r *Results) Remark(f wire.Frame) error {
	if r.holding {
		if r.results || !r.told.early || r.told.broken {
			return r.Emit(f)
		}
		if r.told.noticed(f.Raw) {
			return nil
		}
		r.told.head = append(r.told.head, r.held...)
		r.told.headAt = len(r.told.head)
		r.out.Append(r.held)
		r.held = r.held[:0]
	}
	if r.tells(f.Raw) {
		return nil
	}
	if err := r.pass(f.Raw); err != nil || r.more() {
		return err
	}
	return r.out.Flush()
}

// Notice passes on a notice of what the session does at the end of a statement: with what is held, and where PostgreSQL
// commits before it says that a Query's statement is complete, before that.
func (r *Results) Notice(raw []byte) {
	switch {
	case !r.holding && r.tells(raw):
	case !r.holding:
		r.out.Append(raw)
	case r.commitsFirst && r.complete >= 0:
		r.held = slices.Insert(r.held, r.complete, raw...)
		r.complete += len(raw)
	default:
		r.held = append(r.held, raw...)
	}
}

func (r *Results) pass(raw []byte) error {
	r.out.Append(raw)
	if r.out.Full() {
		return r.out.Flush()
	}
	return nil
}

// Spill passes on what is held: from here on the statement cannot be run again.
func (r *Results) Spill() {
	r.out.Append(r.held)
	r.held, r.complete, r.spilled = r.held[:0], -1, true
}

// Release ends holding and passes on what is held.
func (r *Results) Release() {
	r.Spill()
	r.holding = false
	if cap(r.held) > r.max {
		r.held = nil
	}
}

// Drop ends holding and forgets what is held.
func (r *Results) Drop() { r.held, r.holding = r.held[:0], false }

// Uncommitted takes the last CommandComplete, and what comes behind it, out of what is held: as PostgreSQL, which tells
// of none if the commit has failed.
func (r *Results) Uncommitted() { r.held = r.held[:max(r.complete, 0)] }

// Broken passes on what is held when the connection ends, if nothing in it says that anything was done.
func (r *Results) Broken() {
	if r.holding && r.complete < 0 {
		r.out.Append(r.held)
	}
}
