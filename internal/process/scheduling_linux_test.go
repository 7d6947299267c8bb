package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestTimers has the test binary execute itself again (see TestMain) and print its process id,
// the signal for its parent's death, which is kept, and the slack of each of its threads and of a
// child that it started with exact timers.
func TestTimers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // the thread that starts it counts as the parent
	defer runtime.UnlockOSThread()
	c := exec.Command(self, "timers")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("pid %d death 15 own [1000000] child 50000",
		c.Process.Pid); strings.TrimSpace(string(out)) != want {
		t.Errorf("it printed %q, not %q", out, want)
	}
}

// TestYieldThread starts a child while the thread yields, and one afterwards.
func TestYieldThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	policies := func() (own, child uint32) {
		c := exec.Command("sleep", "60")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = c.Process.Kill()
			_ = c.Wait() // it was killed
		}()
		for i, pid := range []int{0, c.Process.Pid} {
			a, err := unix.SchedGetAttr(pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			*[]*uint32{&own, &child}[i] = a.Policy
		}
		return own, child
	}
	usual, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	usual.Policy = unix.SCHED_NORMAL // the tests may have been started with another
	if err := unix.SchedSetAttr(0, usual, 0); err != nil {
		t.Fatal(err)
	}
	restore := YieldThread()
	if own, child := policies(); own != unix.SCHED_BATCH || child != unix.SCHED_BATCH {
		t.Errorf("policies %d and %d while it yields", own, child)
	}
	YieldThread()() // the policy was chosen already
	if own, _ := policies(); own != unix.SCHED_BATCH {
		t.Errorf("policy %d after a second request was taken back", own)
	}
	restore()
	if own, child := policies(); own != unix.SCHED_NORMAL || child != unix.SCHED_NORMAL {
		t.Errorf("policies %d and %d afterwards", own, child)
	}
}

func init() {
	runtime.LockOSThread() // TestMain runs on the first thread
	playTimers = func() {
		RelaxTimers()
		var death int32
		_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&death)), 0, 0, 0)
		seen := map[string]bool{}
		var own []string
		tasks, _ := filepath.Glob("/proc/self/task/*")
		for _, task := range tasks {
			b, err := os.ReadFile(filepath.Join("/proc", filepath.Base(task), "timerslack_ns"))
			if s := strings.TrimSpace(string(b)); err == nil && !seen[s] {
				seen[s] = true
				own = append(own, s)
			}
		}
		ExactTimers()
		child, _ := exec.Command("cat", "/proc/self/timerslack_ns").Output()
		fmt.Printf("pid %d death %d own %v child %s\n", os.Getpid(), death, own, strings.TrimSpace(string(child)))
	}
}
