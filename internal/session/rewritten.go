package session

import (
	"github.com/tuttidb/tutti/internal/rowcache"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Rewritten is a statement that returns what it changes, as the collect step would.
type Rewritten interface {
	SQL() string
	// Columns is how many columns of its result, the first ones, are its own. The others are the client's.
	Columns() int
	// Read decodes its own columns of a row, values in binary, and copies what it keeps.
	Read(values [][]byte) (Returned, error)
	Target() Target
	// Blind reports whether it can be carried out unseen by itself, and Buffered is what does so with the parameters
	// of a Bind, a whole frame, in a transaction that has begun then; false if that cannot be with these. Proves
	// reports whether a row that it has returned is what Buffered makes.
	Blind() bool
	Buffered(bind []byte, began Began) (Unseen, bool)
	Proves(bind []byte, row Returned) (shape string, ok bool)
	// Probe is a statement that returns a row, of a Glance's own columns, if the row of an Unseen is there, and
	// AppendProbe binds it.
	Probe() string
	AppendProbe(dst []byte, name string, what *Unseen) ([]byte, error)
	// Adds tells what it adds to which row with the parameters of a Bind, a whole frame; false if it does not just add
	// to one that its key finds. Counted takes what is to be known of such a row, before by was added, and Delta
	// tells others what is added; false if it may be too much.
	Adds(bind []byte) (Adds, bool)
	Counted(row Returned, by []int64) (Counted, bool)
	Delta(row Counted, by []int64) (writeset.Addition, bool)
}

// Target is what a Rewritten changes.
type Target struct {
	Table        uint32 // its OID
	Schema, Name string
	Inserts      bool // rows are made
}

// Glance is a SELECT of one row, found by its key, that shows the row as it is with a change that was put off.
type Glance interface {
	SQL() string
	// Columns is how many columns of its result, the first ones, are its own. The others are the client's.
	Columns() int
	Target() Target
	// At is the identity of the row that it is at with the parameters of a Bind, a whole frame; false if that is not
	// certain. AppendBind binds the statement of a name with those, to show the row changed as one with this image is,
	// or as it is if that is nil; formats are those of the client's columns.
	At(bind []byte) (identity uint64, ok bool)
	AppendBind(dst []byte, name string, bind, image []byte, formats []int16) ([]byte, error)
	// Read decodes its own columns: when the transaction began, and who it is, as Returned.Who.
	Read(values [][]byte) (began Began, who string, err error)
}

// Unseen is a change of a row that is carried out unseen.
type Unseen struct {
	Table   writeset.Table
	Row     writeset.Row
	Shape   string // of parameters: what PostgreSQL has read in a shape is read alike here
	Tag     string // what the client is told if the row was there
	Inserts bool   // it makes a row that its transaction has deleted anew
	Puts    bool   // it makes a row of a table without a key, which needs nothing
}

// Began is when a transaction began by its database's clock, and in its time zone: microseconds since the year 2000.
type Began struct {
	Known        bool
	Stamp, Local int64
}

// Adds is an addition to a row.
type Adds struct {
	Table uint32 // its OID
	Name  string // and its name, without the schema
	Row   string // a name of the row, for Host.Known
	Shape string // of parameters: those that PostgreSQL can read are of the same shape
	By    []int64
}

// Counted is what the columns of a row held that are added to, at some moment. Row is as Adds names it.
type Counted = rowcache.Counted

// Returned is a row that a Rewritten has returned.
type Returned interface {
	// Captured reports whether it will be collected, as everything that follows it will.
	Captured() bool
	// Forged reports whether something was although the row says it was not: a function has set what tells it.
	Forged() bool
	// Alone reports whether up to here nothing is to be collected but what was returned,
	// and nothing is deferred. snapshot says whether the transaction is meant to have one.
	Alone(snapshot bool) bool
	Size() int // in bytes, about
	// Who is another value under another role or search_path.
	Who() string
	// Identity is the row's, and Order the position of the server's WAL when the statement had it.
	Identity() uint64
	Order() uint64
}

// Reread is a query for rows to be read again.
type Reread interface {
	// Append adds it as frames, without Sync.
	Append(dst []byte) []byte
	// Command is it as a command, see Host.Say, given its parameter as text and the name of its type. Array is the
	// query that gives these two, with its only parameter.
	Command(array, typ string) string
	Array() (sql string, oid uint32, format int16, value []byte)
}

// Collected is a decoded writeset that may still want rows to be read again.
type Collected interface {
	// Order is the position of the server's WAL while the transaction held its locks.
	Order() uint64
	// Unfollowed reports whether nothing was collected, because definitions must be followed up.
	Unfollowed() bool
	// All reports whether an answer to AppendAhead is complete.
	All() bool
	// Isolation is the transaction's level as the server spells it; empty if nothing was
	// written.
	Isolation() string
	// Rereads are queries to run; the rows of the i-th go to Complete.
	Rereads() ([]Reread, error)
	Complete(i int, rows [][][]byte) error
	// Writeset is the result, nil or empty when nothing was written.
	Writeset() (*writeset.Writeset, error)
}
