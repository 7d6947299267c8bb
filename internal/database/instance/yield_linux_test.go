package instance

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestYields looks at the processes of a server that yields and of one that does not.
func TestYields(t *testing.T) {
	t.Parallel()
	ours, err := unix.SchedGetAttr(0, 0)
	must(t, err)
	for yields, expected := range map[bool]uint32{false: ours.Policy, true: unix.SCHED_BATCH} {
		o := options(t, serverDir(t))
		o.Yields = yields
		i := started(t, o)
		pids, err := serversOn(o.DataDir)
		must(t, err)
		if len(pids) < 5 {
			t.Errorf("only processes %v", pids)
		}
		for _, pid := range pids {
			a, err := unix.SchedGetAttr(pid, 0)
			if errors.Is(err, unix.ESRCH) {
				continue // it has ended since
			}
			if err != nil || a.Policy != expected {
				t.Errorf("a process of the server that yields (%v): %+v (%v)", yields, a, err)
			}
		}
		must(t, i.Stop(timeout(t)))
	}
}
