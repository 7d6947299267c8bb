package bench

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestTreeCountsTheDead: the time of a backend stays in the total, and its own, after it has
// ended.
func TestTreeCountsTheDead(t *testing.T) {
	if err := procWorks(); err != nil {
		t.Skip("no CPU times here: ", err)
	}
	s := pgtest.Start(t)
	tr := newTree(s.Instance().Pid())
	before, err := tr.read()
	if err != nil {
		t.Fatal(err)
	}
	session := s.Connect(t, "")
	// Work until the backend itself has seen 300 ms of CPU, however busy the machine is.
	var pid int
	if err := session.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	var burnt time.Duration
	for burnt < 300*time.Millisecond {
		if _, err := session.Exec(t.Context(), "SELECT count(*) FROM generate_series(1, 200000)"); err != nil {
			t.Fatal(err)
		}
		live, err := tr.read()
		if err != nil {
			t.Fatal(err)
		}
		burnt = live.of[pid]
	}
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := readTimes(pid); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the backend does not end")
		}
	}
	after, err := tr.read()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := after.of[pid]; ok {
		t.Fatal("a dead backend is listed")
	}
	after2 := reading{treeTimes: after}
	c := after2.sub(&reading{treeTimes: before})
	if c.sessions < burnt-2*userTick || c.sessions > burnt+200*time.Millisecond {
		t.Errorf("sessions used %v, the backend %v", c.sessions, burnt)
	}
	if len(tr.helpers) == 0 {
		t.Error("no checkpointer or WAL writer was found")
	}
}
