package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
)

// request is something for the backend to do that ends with one ReadyForQuery.
type request struct {
	frames   []byte   // ends with a Query, a FunctionCall, a Sync or a Flush
	sql      []string // texts, to remember which of them turned out to write
	parses   []string // names of the statements it parses, in order
	runsCode bool     // some statement may run code of somebody's
	write    bool     // some statement needs a Tutti transaction
	local    bool     // some statement must run outside transactions
	copies   bool     // it may start a COPY FROM STDIN
	settles  bool     // the session has more to do after it, see learn
	settings bool     // nothing in it looks at data
	extended bool
	prepares bool      // it only parses, describes and closes
	defines  bool      // it changes the schema, as far as its text tells, or is noted
	yields   int       // when it has lost so often, it is done in another way, see first; zero: never
	outlives outliving // what of it outlives a rollback
	messages int       // of an extended one

	marked bool                   // some text of it begins with the mark of statements that are captured as a whole
	shifts []int32                // for each message, characters that its text has less than the client's; nil for none
	tables []*semantics.TableLock // that it locks

	calls   string // the procedure it calls, without its schema
	commits bool   // it is a DO that may commit

	notes     []string    // texts for the other members, see note
	describes []*prepared // statements it describes that may be noted, in order; nil for others

	listens  bool     // it may change what the session listens to
	channels []string // it adds to that

	added  int                   // statements
	reads  int                   // of these, that write nothing as far as their text tells
	locks  []*semantics.RowLocks // how its messages, or its one statement, are followed; nil if none is
	direct *directRun            // how it may be run directly; nil if it cannot
	glance *glancePart           // while it is carried out: that it may be a glance

	apart    bool  // it is more than rows read and written, or not complete in itself, see retrying
	closes   bool  // it closes a prepared statement
	runs     []Run // what its statements read of tables, see reading
	followed bool  // that is known of one of them
	opaque   bool  // and not of another
	chosen   bool  // it is run directly
	resumes  bool  // if the transaction loses while it runs, it is not told so, see resume
}

// harmless reports whether the request writes nothing, as far as its text tells.
func (r *request) harmless() bool { return r.added > 0 && r.added == r.reads }

// yieldsAt reports whether the request is done in another way if it loses this try, counted from zero.
func (r *request) yieldsAt(try int) bool { return r.yields > 0 && try+1 >= r.yields }

// run is how it is run directly; nil if it is not.
func (r *request) run() *directRun {
	if r.chosen {
		return r.direct
	}
	return nil
}

// flushes reports whether the frames end with a Flush, see relay.
func (r *request) flushes() bool { return r.extended && r.copies }

// add notes what one statement of the request needs.
func (r *request) add(st semantics.Statement) {
	r.added++
	if st.Kind == semantics.Read && !st.Later || st.Kind == semantics.Local {
		r.reads++
	}
	r.runsCode = r.runsCode || runsCode(st)
	r.write = r.write || st.NeedsTransaction()
	r.local = r.local || st.Kind == semantics.Local
	r.outlives |= outlivesIf(st.Sticky, effects)
	r.apart = r.apart || st.Kind != semantics.Read && st.Kind != semantics.Write || st.Later || st.Executes != "" ||
		st.Locks != nil
	r.settles = r.settles || st.Forgets || st.Scope != semantics.NoScope
	r.listens = r.listens || st.Listens
	if st.LocksTables != nil {
		r.tables = append(r.tables, st.LocksTables)
	}
	r.calls, r.commits = st.Calls, st.Commits
	if st.Channel != "" {
		r.channels = append(r.channels, st.Channel)
	}
	r.copies = r.copies || st.Kind == semantics.Copy || st.Kind == semantics.Unknown
}

// pipelineBytesMax bounds what is sent together with the collect step (S5).
const pipelineBytesMax = 32 << 10
