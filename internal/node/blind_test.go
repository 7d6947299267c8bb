package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestGoBlind: who is in the way of blind transactions, and for how long.
func TestGoBlind(t *testing.T) {
	l := &life{}
	a := &l.additions
	may := func(want bool, must bool, what string) {
		t.Helper()
		h := &host{n: l}
		if got, _ := a.goBlind(h, []writeset.Table{{Name: "v"}, {Name: "t"}}, must); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		if got := a.any([]string{"t"}); got != want {
			t.Errorf("%s: who asks for locks waits: %v", what, got)
		}
		h.endAdditions()
		if a.any([]string{"t", "v"}) {
			t.Errorf("%s: it does not end", what)
		}
	}
	may(true, false, "nobody is there")
	for _, x := range []struct {
		name, table string
		may         bool
	}{{"another table", "u", true}, {"the table", "t", false}, {"any table", "", false}} {
		writer, locker := &host{n: l}, &host{n: l}
		intents{h: writer}.Writing(x.table)
		intents{h: writer}.Writing(x.table)
		may(x.may, false, "a writer to "+x.name)
		may(true, true, "a writer to "+x.name+", and it must")
		if a.unseen() {
			t.Errorf("a writer to %s is not seen", x.name)
		}
		writer.endAdditions()
		may(true, false, "the writer to "+x.name+" is gone")
		if tables := []string{x.table}; x.table == "" {
			locker.locks(nil)
		} else {
			locker.locks(tables)
		}
		may(x.may, false, "locks on "+x.name)
		may(x.may, true, "locks on "+x.name+", and it must")
		locker.endAdditions()
		if !a.unseen() {
			t.Errorf("locks on %s are still seen", x.name)
		}
	}
	a.sighted = true
	may(false, true, "it is switched off")
}
