package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestWhoIsAnswered: an answer to a definition reaches the session of this incarnation that waits for it; nobody is
// told of another one's.
func TestWhoIsAnswered(t *testing.T) {
	l := &life{id: identity{incarnation: 5}, config: &config.Config{Member: 1}}
	id := func(member uint32, incarnation, seq uint64) engine.Item {
		return engine.Item{ID: writeset.TxID{Member: member, Incarnation: incarnation, Seq: seq}}
	}
	result, _ := l.submitted.definitions.Begin(3)
	for _, other := range []engine.Item{id(2, 5, 3), id(1, 4, 3), id(1, 5, 4)} {
		if l.answer(&engine.Task{Item: other}, session.Result{}); len(result) > 0 {
			t.Errorf("%s is answered to somebody else", other.ID)
		}
	}
	if l.answer(&engine.Task{Item: id(1, 5, 3)}, session.Result{Tag: "CREATE"}); (<-result).Tag != "CREATE" {
		t.Error("an answer is not passed on")
	}
}
