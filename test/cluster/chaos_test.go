package cluster

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/chaos"
)

// TestChaos is a short form of "tutti chaos", with the faults that need no rights. How long survivors wait is not
// judged here: other tests use the machine as well. So a member that comes back also has more time than in a run of its
// own: it took 8 s alone, 37 s beside three other runs.
func TestChaos(t *testing.T) {
	t.Parallel()
	exe, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tx")
	if err != nil {
		t.Fatal(err)
	}
	port, err := freeRun(6)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = chaos.Run(t.Context(), chaos.Options{
		Nodes: 3, Seconds: int(seconds(15 * time.Second).Seconds()), Dir: dir, Exe: exe, BasePort: port,
		Faults: []string{"kill-node", "kill-postgres", "kill-both", "kill-all", "freeze", "partition", "oneway", "link",
			"slow-fsync", "fsync-error"},
		Large: true, GapLeader: time.Minute, GapOther: time.Minute, Recover: 4 * time.Minute, RSSMax: 4 << 30,
	}, &out)
	t.Logf("%s", out.String())
	if err != nil {
		t.Error(err)
	}
	if os.Getenv("TUTTI_TEST_KEEP") == "" {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}
