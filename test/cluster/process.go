package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a node may take to end after SIGTERM.
const stopTimeout = 40 * time.Second

// process is one run of "tutti node".
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how, once done
}

// startProcess runs a command whose output is appended to a file. The death signal is tied to
// the thread that starts the child, so that thread is kept.
func startProcess(logFile string, name string, args ...string) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		_ = out.Close()
		close(p.done)
	}()
	return p, <-started
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits for the end, at most d.
func (p *process) wait(d time.Duration) error {
	select {
	case <-p.done:
		return nil
	case <-time.After(d):
		return fmt.Errorf("process %d has not ended after %s", p.cmd.Process.Pid, d)
	}
}

// signal is lost if the process has ended, which is what all callers want.
func (p *process) signal(s syscall.Signal) {
	if p.running() {
		_ = p.cmd.Process.Signal(s)
	}
}

// accident finds a crash, or what the race detector says, in a log.
func accident(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for _, sign := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if at := strings.Index(string(b), sign); at >= 0 {
			return string(b[at:min(len(b), at+4000)])
		}
	}
	return ""
}

// tail gives the last lines of a file.
func tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
