package instance

import (
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/tuttidb/tutti/internal/process"
)

// run is one server process, from its launch to its end.
type run struct {
	pid      int
	process  *os.Process
	stopping atomic.Bool   // we ended it: Stop, Kill or a failed Start
	done     chan struct{} // closed after the process was reaped
	err      error         // from Wait; read only after done
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// launch starts cmd in a process group of its own, so that a terminal's Ctrl-C reaches only
// us. It is batch work if it yields, see Options. before is called when the process has been reaped, before done is
// closed.
//
// Linux delivers the parent-death signal when the launching *thread* ends, so one goroutine
// keeps its thread from fork to reaping.
func launch(cmd *exec.Cmd, yields bool, before func()) (*run, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr)
	r := &run{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		process.ExactTimers()
		restore := func() {}
		if yields {
			restore = process.YieldThread()
		}
		err := cmd.Start()
		restore()
		if err == nil {
			r.process, r.pid = cmd.Process, cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		r.err = cmd.Wait()
		before()
		close(r.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

// killTree ends the process and its children at once, as a power failure would. The
// postmaster is halted first so that it has no new children while they are counted: each of
// them is a session of its own, so the process group does not reach them.
func (r *run) killTree() error {
	r.stopping.Store(true)
	if r.ended() {
		return nil
	}
	_ = r.process.Signal(syscall.SIGSTOP) // fails only if it has just ended
	children, err := childrenOf(r.pid)
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL) // already gone is fine
	}
	_ = r.process.Signal(syscall.SIGKILL)
	<-r.done
	return err
}
