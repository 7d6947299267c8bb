package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Options say how a child runs.
type Options struct {
	// Log is the file its output is appended to.
	Log string
	// Env is added to our own environment, as name=value.
	Env []string
	// Enter, if set, runs on the thread that starts the child, before it does: to change what a
	// child inherits from a thread, such as its network namespace. That thread is not used
	// for anything else, and ends with the child.
	Enter func() error
	// Kill makes the kernel kill the child when we die, instead of asking it to end: a stopped
	// process cannot be asked.
	Kill bool
}

// Process is one run of a child.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how, once done
}

// Start runs a command in a process group of its own. The death signal is tied to the thread
// that starts the child, so that thread is kept.
func Start(o Options, name string, args ...string) (*Process, error) {
	out, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = attributes(o.Kill)
	p.cmd.Env = append(os.Environ(), o.Env...)
	started := make(chan error)
	go func() {
		defer close(p.done)
		defer out.Close() // the child has its own descriptor
		runtime.LockOSThread()
		var err error
		if o.Enter != nil {
			err = o.Enter() // the thread ends with this goroutine, being locked still
		} else {
			defer runtime.UnlockOSThread()
		}
		if err == nil {
			err = p.cmd.Start()
		}
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the child ended; call it when Done is closed. Nil means exit status 0.
func (p *Process) Err() error { return p.err }

// Running reports whether the child has not ended. A nil Process does not run.
func (p *Process) Running() bool {
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

// Wait waits for the end, at most d.
func (p *Process) Wait(d time.Duration) error {
	select {
	case <-p.done:
		return nil
	case <-time.After(d):
		return fmt.Errorf("process %d has not ended after %s", p.PID(), d)
	}
}

// Signal is lost if the process has ended, which is what all callers want.
func (p *Process) Signal(s syscall.Signal) {
	if p.Running() {
		_ = p.cmd.Process.Signal(s)
	}
}

// Accident finds a crash, or what the race detector says, in a log.
func Accident(path string) string {
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

// Tail gives the last lines of a file.
func Tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
