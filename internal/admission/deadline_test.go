package admission

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/wire"
)

// TestDeadline: one without limits never comes, one of no time has come at once, and one of some time comes then. It
// asks for the limits of a lock only for a wait for others.
func TestDeadline(t *testing.T) {
	late := wire.Errorf(wire.CodeLockNotAvailable, "late")
	limits := func(most int64) func(bool) (int64, *wire.SQLError) {
		return func(locks bool) (int64, *wire.SQLError) {
			if !locks {
				return 0, nil
			}
			return most, late
		}
	}
	for name, d := range map[string]Deadline{
		"without limits": NewDeadline(Time, nil, true), "unlimited": NewDeadline(Time, limits(0), true),
		"not for others": NewDeadline(Time, limits(1), false),
	} {
		woken := false
		d.Wakes(func() { woken = true })()
		if left, why := d.Left(); left != 0 || why != nil || d.Passed() != nil || woken {
			t.Errorf("%s: it comes: %s, %v, %v, woken %v", name, left, why, d.Passed(), woken)
		}
	}
	if e := NewDeadline(Time, limits(-1), true).Passed(); e != late {
		t.Errorf("no time is left, and it has not come: %v", e)
	}
	d := NewDeadline(Time, limits(20), true)
	if left, why := d.Left(); left <= 0 || left > 20*time.Millisecond || why != late || d.Passed() != nil {
		t.Errorf("%s are left, then %v; now %v", left, why, d.Passed())
	}
	wakes := make(chan struct{})
	defer d.Wakes(func() { close(wakes) })()
	<-wakes
	if e := d.Passed(); e != late {
		t.Errorf("it has woken, and says %v", e)
	}
	stopped := NewDeadline(Time, limits(20), true)
	stopped.Wakes(func() { t.Error("it wakes who has stopped that") })()
	time.Sleep(30 * time.Millisecond)
}
