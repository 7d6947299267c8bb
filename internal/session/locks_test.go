package session

import (
	"fmt"
	"testing"
)

// TestLocksOfBlocksAreNotCounted: what is taken inside of blocks is not kept for ever by a session that runs nothing else.
func TestLocksOfBlocksAreNotCounted(t *testing.T) {
	s := &Session{}
	s.txn.Begin(true)
	for i := range 1000 {
		s.lockNotice(fmt.Sprintf("took 1 1 1 0 %d", i))
	}
	if n := len(s.advisory.taken); n != 0 {
		t.Errorf("%d locks are remembered", n)
	}
	s.txn.Reset()
	s.lockNotice("took 1 1 1 0 7")
	if n := len(s.advisory.taken); n != 1 {
		t.Errorf("%d locks of an attempt are remembered", n)
	}
}
