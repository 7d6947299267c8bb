package admission

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestLarges: as many are kept as may be; the others wait for their end, for a while, or until they should
// not any more.
func TestLarges(t *testing.T) {
	l := NewLarges(2, &metrics.Counter{})
	goesOn := func() *wire.SQLError { return nil }
	for range 2 {
		if e := l.Enter(0, goesOn); e != nil {
			t.Fatal(e)
		}
	}
	if l.Open() != 2 || l.Waited() != 0 {
		t.Errorf("%d are kept, %d have waited", l.Open(), l.Waited())
	}
	if e := l.Enter(0, goesOn); e == nil || e.Code != wire.CodeConfigurationLimit {
		t.Errorf("one too many: %v", e)
	}
	over := wire.Errorf(wire.CodeQueryCanceled, "no longer")
	if e := l.Enter(time.Hour, func() *wire.SQLError { return over }); e != over {
		t.Errorf("who should not wait any more: %v", e)
	}
	time.AfterFunc(5*time.Millisecond, l.Leave)
	if e := l.Enter(time.Hour, goesOn); e != nil {
		t.Errorf("after another's end: %v", e)
	}
	if l.Open() != 2 || l.Waited() != 3 {
		t.Errorf("in the end %d are kept, %d have waited", l.Open(), l.Waited())
	}
}
