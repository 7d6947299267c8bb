package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is how long a child may take to stop before it is killed.
const stopTimeout = 45 * time.Second

// Process is one long-lived child: a node, or a server beside the cluster.
type Process struct {
	name, log string
	argv      []string
	env       []string // added to our own
	user      *syscall.Credential

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error

	given bool // it was said that it is not started again
}

// NewProcess describes a child whose output is appended to the file log.
func NewProcess(name, log string, argv ...string) *Process {
	return &Process{name: name, log: log, argv: argv}
}

// RunAs makes Start run the child as another user, which takes root. A child that changed
// its user by itself would outlive us.
func (p *Process) RunAs(uid, gid uint32) { p.user = &syscall.Credential{Uid: uid, Gid: gid} }

// Start runs the child in a process group of its own, so that a terminal's Ctrl-C reaches
// only us, and asks the kernel to stop it if we die.
func (p *Process) Start() error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()
	cmd.SysProcAttr.Credential = p.user
	cmd.Env = append(os.Environ(), p.env...)
	started := make(chan error)
	done := make(chan struct{})
	go func() {
		// The death signal is tied to the thread that starts the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
			p.mu.Lock()
			p.err = err
			p.mu.Unlock()
		}
		_ = out.Close()
		close(done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.mu.Lock()
	p.cmd, p.done, p.given = cmd, done, false
	p.mu.Unlock()
	return nil
}

// Running reports whether the child has been started and has not ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// ended says how the process ended.
func (p *Process) ended() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return "exit status 0"
	}
	return p.err.Error()
}

// PID is the child's process id, zero before the first Start.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Terminate asks the child to end.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// Interrupt asks the child to end at once: a node does not wait for its clients' transactions then.
func (p *Process) Interrupt() { p.signal(syscall.SIGINT) }

func (p *Process) signal(s syscall.Signal) {
	if p.Running() {
		_ = p.cmd.Process.Signal(s) // it may just have ended
	}
}

// exitConfig is the exit status of a node whose configuration must be changed first.
const exitConfig = 78

// hopeless reports whether the child has ended because of its configuration, so that to start it again would be in
// vain.
func (p *Process) hopeless() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var exit *exec.ExitError
	return errors.As(p.err, &exit) && exit.ExitCode() == exitConfig
}

// Wait waits for the child's end, and kills it when that takes too long.
func (p *Process) Wait() {
	if p.done == nil {
		return
	}
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Tail gives the end of the child's log.
func (p *Process) Tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
