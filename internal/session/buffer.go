package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// buffer holds the writes of a block that its client was told of and that are yet to be carried out (later). A write is
// appended as an addition (add.go) or as a change (unseen.go). A SELECT of one row is read through it (glance.go).
// Before everything else it is flushed: what it holds is carried out by the session's backend. If nothing has flushed
// it, it is committed as it is: changes by the order alone, additions behind the verdict. What its client may rely on
// (rely.go) is not flushed, but the block is done again.
type buffer struct {
	later   later
	backend *backend
	host    bufferHost
	results *proto.Results
	fail    func(*wire.SQLError) error // tells the client

	txn    *txn.Machine
	tx     *transaction
	levels *levels
	texts  *texts
	sight  *sight
	forms  *forms
	direct *direct
	retry  *retrying

	rewriting Rewriting
	facts     Facts
	find      func(sql string) (semantics.Glance, bool) // what may be read through
}

// bufferHost is what it needs of the node.
type bufferHost struct {
	Control
	Order
	Intents
	Rows
	Deferred
}
