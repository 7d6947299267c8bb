package flow

import (
	"strings"
	"testing"
)

// TestWaitsAreDeclared: each wait says who waits and for what, by a name of its own; one that has a bound says what
// comes then.
func TestWaitsAreDeclared(t *testing.T) {
	seen := map[string]bool{}
	for w := range waits {
		row := Waits[w]
		if row.Name == "" || row.Who == "" || row.For == "" || seen[row.Name] || strings.ToLower(row.Name) != row.Name {
			t.Errorf("wait %d: %+v", w, row)
		}
		if bounded := row.MostMs > 0 || row.Setting != ""; bounded != (row.Then != "") || row.MostMs < 0 {
			t.Errorf("%s: a wait that ends by itself says what comes then, and only such a one: %+v", row.Name, row)
		}
		if seen[row.Name] = true; w.String() != w.Names()[w] {
			t.Errorf("%s is called %s", w, w.Names()[w])
		}
	}
}

// TestWaitsWithoutBound: these waits end only with what they wait for. Each of them is for something that this member
// does itself, or that the client has asked for in so many words; a new one needs a reason as good.
func TestWaitsWithoutBound(t *testing.T) {
	var without []string
	for w := range waits {
		if Waits[w].MostMs == 0 && Waits[w].Setting == "" {
			without = append(without, w.String())
		}
	}
	want := "own_commit snapshot advisory_lock procedure_commit applied slot snapshots commits deltas"
	if got := strings.Join(without, " "); got != want {
		t.Errorf("no bound have %s, want %s", got, want)
	}
}
