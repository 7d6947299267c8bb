package peers

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/replica"
)

// TestWords: a member is heard for a while after its last word, and not at all once its connection is lost.
func TestWords(t *testing.T) {
	w := NewWords(3)
	fresh := func(member uint32) (is bool) {
		w.with(func(c *replica.Contact, now int64) { is = c.Fresh(now, int64(freshMax), member) })
		return is
	}
	if fresh(2) {
		t.Error("nothing came, and it is heard")
	}
	w.Heard(2)
	if !fresh(2) || fresh(3) {
		t.Error("the wrong one is heard")
	}
	w.began = w.began.Add(-freshMax)
	if fresh(2) {
		t.Error("it is heard for too long")
	}
	if w.Heard(2); !fresh(2) {
		t.Error("it came again, and is not heard")
	}
	if w.Gone(2); fresh(2) {
		t.Error("its connection is lost, and it is heard")
	}
	if freshMax <= 2*Interval || freshMax >= time.Second {
		t.Errorf("%s is not between two words of a member that is well and a second", freshMax)
	}
}

// TestReadAge: without a leader what is read grows older, whatever is known of the order.
func TestReadAge(t *testing.T) {
	var a ReadAge
	a.Note(time.Second, 5, true)
	a.Note(3*time.Second, 5, false)
	if got := a.Is(4*time.Second, 5); got != 3*time.Second {
		t.Errorf("it is %s old", got)
	}
	a.Note(5*time.Second, 6, true)
	if got := a.Is(5*time.Second, 6); got != 0 {
		t.Errorf("it is %s old", got)
	}
}
