package session

import (
	"fmt"
	"testing"

	"github.com/tuttidb/tutti/internal/session/txn"
)

// TestLocksOfBlocksAreNotCounted: what is taken inside of blocks is not kept for ever by a session that runs nothing
// else.
func TestLocksOfBlocksAreNotCounted(t *testing.T) {
	m := &txn.Machine{Strict: true}
	a := &advisory{txn: m}
	m.Begin(true)
	for i := range 1000 {
		a.notice(fmt.Sprintf("took 1 1 1 0 %d", i))
	}
	if n := len(a.taken); n != 0 {
		t.Errorf("%d locks are remembered", n)
	}
	m.Reset()
	a.notice("took 1 1 1 0 7")
	if n := len(a.taken); n != 1 {
		t.Errorf("%d locks of an attempt are remembered", n)
	}
}
