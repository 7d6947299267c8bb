package instance

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Something still holds the killed server's shared memory: PostgreSQL refuses to start, and
// Start tries again until it is released.
func TestSharedMemoryStillInUse(t *testing.T) {
	t.Parallel()
	i := started(t, options(t, serverDir(t)))
	b, err := os.ReadFile(filepath.Join(i.o.DataDir, "postmaster.pid"))
	must(t, err)
	words := strings.Fields(strings.Split(string(b), "\n")[6]) // key and id of the segment
	id, err := strconv.Atoi(words[1])
	must(t, err)
	segment, err := unix.SysvShmAttach(id, 0, 0)
	must(t, err)
	must(t, i.Kill())
	released := make(chan error, 1)
	go func() {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if log, _ := os.ReadFile(i.o.LogFile); strings.Contains(string(log), sharedMemoryInUse) {
				break
			}
		}
		released <- unix.SysvShmDetach(segment)
	}()
	must(t, i.Start(timeout(t)))
	select {
	case err := <-released:
		must(t, err)
	default:
		t.Error("it has started although the memory is held")
	}
	want(t, i, "SELECT 'hello'", "hello")
}
