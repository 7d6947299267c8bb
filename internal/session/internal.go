package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// Statements every backend has prepared for the session's own use. They are named, and run
// with the extended protocol, because a simple Query would destroy the client's unnamed
// statement; see sendCommit.
const (
	ownBegin    = "tutti begin" // at the level that is the backend's default, the usual one
	ownBeginRC  = "tutti begin read committed"
	ownBeginAs  = "tutti begin as"
	ownTx       = "tutti tx"
	ownTxDirect = "tutti tx direct"
	ownTxBulk   = "tutti tx bulk"
	ownCommit   = "tutti commit" // there only while it runs, see sendCommit
	ownRollback = "tutti rollback"
	ownSnapshot = "tutti snapshot"
	ownPrompt   = "tutti prompt" // waits for no safe snapshot
	ownFail     = "tutti fail"
	ownQuery    = "tutti query"

	// ownPrefix begins the names above and the collector's; clients may not use it.
	ownPrefix = semantics.ReservedPrefix
)

func appendRun(dst []byte, name string) []byte {
	return wire.AppendExecute(wire.AppendBind(dst, "", name, nil, nil, nil), "", 0)
}
