package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Collector is how a session gets a transaction's writeset out of its backend, by role: frames to
// send and decoders for what comes back. It is capture's, handed in by the node.
type Collector struct {
	Captures
	Steps
	Extents
	Locking
	Rewriting
	Facts
	Marks
	Pinning
	Conversing
}

// Captures gets out of the backend what a transaction has written.
type Captures interface {
	// AppendPrepare adds Parse messages for the statements AppendCollect uses.
	AppendPrepare(dst []byte) []byte
	// AppendCollect adds Bind and Execute messages, without Sync. It marks the transaction if something was captured,
	// or anyway.
	AppendCollect(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte
	// AppendAhead is AppendCollect without firing what is deferred, for a transaction that goes on. In a session with
	// temporary objects, which may have something deferred of their own, it does nothing, see Collected.
	AppendAhead(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte
	// AppendMark adds Bind and Execute messages that mark a transaction of nothing but direct statements, without
	// Sync.
	AppendMark(dst []byte, slot uint32, incarnation, seq uint64) []byte
	// Decode reads the DataRows, values as received. returned is what direct statements have returned, in order, before
	// anything was frozen; it does not count if something is (AppendFreeze).
	Decode(rows [][][]byte, returned []Returned) (Collected, error)
}

// Steps gets out what a transaction has defined, and keeps what it had written before.
type Steps interface {
	// AppendPeek is AppendCollect that changes nothing; AppendFreeze puts a writeset in place of all that was captured
	// so far.
	AppendPeek(dst []byte) []byte
	AppendFreeze(dst []byte, ws *writeset.Writeset) []byte
	// AppendAskFollow asks what must be done about definitions that were noted, AppendFollow takes the answer, one
	// value, and does it. What cannot be replicated is a *wire.SQLError.
	AppendAskFollow(dst []byte) []byte
	AppendFollow(dst, answer []byte) ([]byte, error)
	// AppendNote notes a definition that fires no event trigger.
	AppendNote(dst []byte, d Definition) ([]byte, error)
}

// Extents finds out what a definition may change, and how it may be carried out.
type Extents interface {
	// Carried are the settings a definition runs under, besides the role.
	Carried() []string
	// AskConcurrent asks for the table, in text, on which every member may build an index for itself; Concurrent takes
	// the only value of the answer, nil if it may not. The writeset has what must not have changed.
	AskConcurrent(c *semantics.Concurrent) (sql string)
	Concurrent(answer []byte, c *semantics.Concurrent) (Index, *writeset.Writeset, error)
	// AskDetach asks for the tables of a DETACH PARTITION, in text; Detach takes the only value of the answer, nil if
	// it is not to be done in two steps. The writeset is the extent of the first one.
	AskDetach(d *semantics.Detach) (sql string)
	Detach(answer []byte) (Detach, *writeset.Writeset, error)
	// TurnStatements are what goes before and after a definition that the backend carries out at its place, see Turn.
	TurnStatements() (on, off string)
	// AskAround asks what decides where a definition runs; names are SQL for the OIDs of the relations that it names,
	// where there are such.
	AskAround(st *semantics.Statement, names []string) (sql string)
	// AskExtent asks which tables a definition may change, Extent takes the only value of the answer and makes a
	// writeset without steps of it. Without an answer it is a barrier.
	AskExtent(st *semantics.Statement) (sql string)
	Extent(answer []byte, st *semantics.Statement) (*writeset.Writeset, error)
}

// Locking finds out what a transaction has locked.
type Locking interface {
	// AppendTablesLocked asks which tables LOCK TABLE has locked; TablesLocked takes the only value of the answer.
	AppendTablesLocked(dst []byte) []byte
	TablesLocked(answer []byte) ([]writeset.TableLock, error)
	// AppendLocked asks which rows these are, in the transaction that has locked them, and Locked reads the only value
	// of the answer, in binary: the position of the server's WAL, and the rows that were not changed since. ok is
	// false if none of them is replicated.
	AppendLocked(dst []byte, rows []semantics.LockedRow) (frames []byte, ok bool)
	Locked(rows []semantics.LockedRow, answer []byte) (
		order uint64, locks []writeset.Lock, tables []writeset.TableLock, err error)
}

// Rewriting makes statements that return what they change or look at.
type Rewriting interface {
	// AskDirect is a query for the table that a direct statement would change. Direct takes the values of its only
	// row, in text, and makes the statement direct, if that is possible.
	AskDirect(d *semantics.Direct) (sql string)
	Direct(d *semantics.Direct, answer [][]byte) (Rewritten, bool)
	// AskReadThrough and ReadThrough are the same for a SELECT with parameters of these types, as far as they are
	// prescribed, at a row that is changed as one with this image is, or not if it is nil. Settings is what of an image
	// matters.
	AskReadThrough(g *semantics.Glance) (sql string)
	Settings(image []byte) []byte
	ReadOwn(values [][]byte) (began Began, who string, err error)
	ReadThrough(g *semantics.Glance, types []uint32, answer [][]byte, image []byte) (Glance, bool)
}

// Facts is what is known of the database.
type Facts interface {
	// Catalog is another value after every definition; compared only.
	Catalog() any
	// Code reports whether the database has functions that are neither PostgreSQL's nor Tutti's own.
	Code() bool
	// View reports whether something that may not be a table has this name, in whatever schema.
	View(name string) bool
	// EventTriggers reports whether the database has event triggers of users.
	EventTriggers() bool
	// Reach tells what a statement may do that its transaction does not show, as far as its text and the catalog
	// tell.
	Reach(sql string) Reach
	// Unkeyed reports whether an UPDATE or DELETE looks for rows by no column of a key, in a table that can be
	// captured as a whole. What it knows may be out of date, and without a schema it may mean any table of the name.
	Unkeyed(c *semantics.Compared) bool
	// Piecewise reports whether a table is captured row by row, whatever is said of the statement. Like Unkeyed it may
	// be wrong.
	Piecewise(schema, table string) bool
}

// Marks is what no client knows or may use.
type Marks interface {
	// Secret ends the names of statements that are the session's own.
	Secret() string
	// Mark stands in the text of everything rewritten or marked, and in no client's.
	Mark() string
	// BulkMark begins the text of a statement that may be captured as a whole, and no client's has it.
	BulkMark() string
}

// Pinning finds out which rows a SERIALIZABLE transaction has looked for.
type Pinning interface {
	// AskNames is a query for what relations are, as SQL has them; Names takes its rows, in text.
	AskNames(relations []string) (sql string)
	Names(rows [][][]byte) (Names, bool)
	// Pins says which rows and tables the statements of a transaction have looked for, which are all it has run. oids
	// says what their relations are. ok is false if that is not known.
	Pins(runs []Run, oids map[string]uint32) (pins Pins, ok bool)
}

// Conversing reads and makes what is said to a transaction that a procedure commits.
type Conversing interface {
	// InsideMessage reads what a transaction that a procedure commits says in an INFO (capture.InsideState). Its kind
	// is "commit", "row", whose rest ReadRecord reads, "done", or "cancelled". Not ok: a client made it up.
	InsideMessage(message string) (conversation, kind, rest string, ok bool)
	ReadRecord(text string) ([][]byte, error)
	// InsideCommand, AskFollowCommand and FollowCommand are AppendCollect, AppendAskFollow and AppendFollow as
	// commands that can be said to it.
	InsideCommand(slot uint32, incarnation, seq uint64) string
	AskFollowCommand() string
	FollowCommand(answer []byte) (string, error)
}
