package intent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts plays the files in testdata. `go test -rewrite` writes down what happens now; read the difference
// before committing.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		m := &Manager{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var owner, resource, deadline, by int
			resource, deadline = 1, 100
			switch d.Cmd {
			case "request":
				var mode string
				d.ScanArgs(t, "owner", &owner)
				d.ScanArgs(t, "mode", &mode)
				d.MaybeScanArgs(t, "of", &resource)
				d.MaybeScanArgs(t, "until", &deadline)
				modes := map[string]Mode{"ordered": Ordered, "own": Own, "stays": Stays, "bars": Bars}
				m.Request(Owner(owner), Resource(resource), modes[mode], uint64(deadline))
			case "release":
				d.ScanArgs(t, "owner", &owner)
				m.Release(Owner(owner))
			case "blocked":
				d.ScanArgs(t, "owner", &owner)
				if d.MaybeScanArgs(t, "by", &by); by == 0 {
					m.Blocked(Owner(owner))
				} else {
					m.Blocked(Owner(owner), Owner(by))
				}
			case "drop":
				d.ScanArgs(t, "owner", &owner)
				d.ScanArgs(t, "of", &resource)
				m.Drop(Owner(owner), Resource(resource))
			case "tick":
				d.ScanArgs(t, "at", &deadline)
				m.Tick(uint64(deadline))
			default:
				t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			}
			return said(m)
		})
	})
}

// said is what has happened, and who has intents and who waits now.
func said(m *Manager) string {
	var out strings.Builder
	for _, e := range m.Ready() {
		fmt.Fprintf(&out, "%d: %s\n", e.Owner, e.Outcome)
	}
	all := []Mode{Ordered, Own, Stays, Bars}
	fmt.Fprintf(&out, "have %d, wait %d\n", m.Holders(all...), m.Waiters(all...))
	return out.String()
}
