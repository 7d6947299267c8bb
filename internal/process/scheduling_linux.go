package process

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how late a timer of this process may be, at most and only when its thread sleeps.
const timerSlack = time.Millisecond

// RelaxTimers executes this program again with a timer slack of a millisecond, unless it has it.
// Go's monitor thread asks for naps of 20 µs while any goroutine is in a system call for that
// long, as the writer of the log is all the time; on a small machine the naps cost more than
// what the monitor does. The slack must be there when that thread is born, hence exec. Call it
// first in main, and on the process's first thread: nothing that was done before survives, and
// of what the kernel keeps per thread (the signal for the parent's death) only the caller's. On
// another thread, or where the kernel refuses, it returns and all goes on as it was.
func RelaxTimers() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || was >= int(timerSlack) || unix.Gettid() != os.Getpid() {
		return
	}
	path, err := os.Executable()
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) != nil {
		return
	}
	_ = syscall.Exec(path, os.Args, os.Environ())
	// Still here: with the old threads' slack, which does no harm.
}

// ExactTimers gives the calling thread, and what it starts, the kernel's usual slack back. The
// goroutine must be locked to its thread.
func ExactTimers() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(50*time.Microsecond), 0, 0, 0) }

// YieldThread has the calling thread, and what it starts, scheduled as batch work until restore is called:
// a process of those that wakes up waits for a processor that is free, and takes none from who is at
// work. Its share of the processors stays what it is. The goroutine must be locked to its thread. Nothing
// changes if somebody has chosen another policy before, or the kernel refuses.
func YieldThread() (restore func()) {
	was, err := unix.SchedGetAttr(0, 0)
	if err != nil || was.Policy != unix.SCHED_NORMAL {
		return func() {}
	}
	batch := *was
	batch.Policy = unix.SCHED_BATCH
	if unix.SchedSetAttr(0, &batch, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetAttr(0, was, 0) }
}
