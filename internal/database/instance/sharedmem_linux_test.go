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
	const held = 500 * time.Millisecond
	released := make(chan error, 1)
	time.AfterFunc(held, func() { released <- unix.SysvShmDetach(segment) })
	began := time.Now()
	must(t, i.Start(timeout(t)))
	took := time.Since(began)
	must(t, <-released)
	log, err := os.ReadFile(i.o.LogFile)
	must(t, err)
	if took < held || !strings.Contains(string(log), sharedMemoryInUse) {
		t.Errorf("started after %v, while the memory was held for %v", took, held)
	}
	want(t, i, "SELECT 'hello'", "hello")
}
