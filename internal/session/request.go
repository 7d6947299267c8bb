package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
)

// request is something for the backend to do that ends with one ReadyForQuery.
type request struct {
	frames   []byte   // ends with a Query, a FunctionCall, a Sync or a Flush
	sql      []string // texts, to remember which of them turned out to write
	extended bool
	messages int      // of an extended one
	prepares bool     // it only parses, describes and closes
	parses   []string // names of the statements it parses, in order
	closes   bool     // it closes a prepared statement
	marked   bool     // some text of it begins with the mark of statements that are captured as a whole

	named bool // rows are the ones that its statements name, see rowTurns
	rows  []uint64

	does   doing
	looks  lookups
	way    way
	answer answering
}

// doing is what a request does, as far as the texts of its statements tell.
type doing struct {
	added int // statements
	reads int // of these, that write nothing

	write    bool      // some statement needs a Tutti transaction
	runsCode bool      // some statement may run code of somebody's
	local    bool      // some statement must run outside transactions
	alone    bool      // and PostgreSQL may refuse it in a block
	copies   bool      // it may start a COPY FROM STDIN
	settles  bool      // the session has more to do after it, see learn
	settings bool      // nothing in it looks at data
	snapshot bool      // and yet something takes a snapshot
	maintain bool      // it is one statement, of those that maintain tables
	defines  bool      // it changes the schema, as far as its text tells, or is noted
	outlives outliving // what of it outlives a rollback
	apart    bool      // it is more than rows read and written, or not complete in itself, see retrying

	calls   string // the procedure it calls, without its schema
	commits bool   // it is a DO that may commit

	// what other members are told of it
	tables   []*semantics.TableLock // that it locks
	notes    []string               // texts, see note
	restarts bool                   // they are definitions
	listens  bool                   // it may change what the session listens to
	channels []string               // it adds to that
}

// lookups is what the statements of a request read of tables, see reading.
type lookups struct {
	runs     []Run
	followed bool // that is known of one of them
	opaque   bool // and not of another
}

// way is how a request may be run, and is.
type way struct {
	direct  *directRun  // how it may be run directly; nil if it cannot
	glance  *glancePart // while it is carried out: that it may be a glance
	chosen  bool        // it is run directly
	resumes bool        // if the transaction loses while it runs, it is not told so, see resume
	yields  int         // when it has lost so often, it is done in another way, see first; zero: never
}

// answering is what must be known of a request to make of the backend's answer the client's.
type answering struct {
	shifts    []int32               // for each message, how many characters less its text has than the client's
	locks     []*semantics.RowLocks // how its messages, or its one statement, are followed; nil if none is
	locked    []lockedRow           // rows that they name
	tag       string                // instead of the backend's, if not empty
	describes []*prepared           // statements yet to be described that may be noted, in order; nil for others
}

// harmless reports whether it writes nothing.
func (d *doing) harmless() bool { return d.added > 0 && d.added == d.reads }

// yieldsAt reports whether a request is done in another way if it loses this try, counted from zero.
func (w *way) yieldsAt(try int) bool { return w.yields > 0 && try+1 >= w.yields }

// run is how a request is run directly; nil if it is not.
func (w *way) run() *directRun {
	if w.chosen {
		return w.direct
	}
	return nil
}

// flushes reports whether the frames end with a Flush, see relay.
func (r *request) flushes() bool { return r.extended && r.does.copies }

// add notes what one statement does.
func (d *doing) add(st semantics.Statement) {
	d.added++
	if st.Kind == semantics.Read && !st.Later || st.Kind == semantics.Local {
		d.reads++
	}
	d.runsCode = d.runsCode || runsCode(st)
	d.write = d.write || st.NeedsTransaction()
	d.local = d.local || st.Kind == semantics.Local
	d.snapshot = d.snapshot || takesSnapshot(st)
	d.maintain = st.Maintains() && d.added == 1
	d.outlives |= outlivesIf(st.Sticky, effects)
	d.apart = d.apart || !onlyRows(st)
	d.settles = d.settles || st.Forgets || st.Scope != semantics.NoScope
	d.alone = d.alone || st.Apart()
	d.calls, d.commits = st.Calls, st.Commits
	d.copies = d.copies || st.Kind == semantics.Copy || st.Kind == semantics.Unknown
	d.tells(st)
}

// tells notes what other members are told of one statement.
func (d *doing) tells(st semantics.Statement) {
	d.listens = d.listens || st.Listens
	if st.LocksTables != nil {
		d.tables = append(d.tables, st.LocksTables)
	}
	if st.Channel != "" {
		d.channels = append(d.channels, st.Channel)
	}
}

// onlyRows reports whether a statement is nothing but rows that are read or written, and its text says which.
func onlyRows(st semantics.Statement) bool {
	rows := st.Kind == semantics.Read || st.Kind == semantics.Write
	return rows && !st.Later && st.Executes == "" && st.Locks == nil
}

// pipelineBytesMax bounds what is sent together with the collect step (S5).
const pipelineBytesMax = 32 << 10
