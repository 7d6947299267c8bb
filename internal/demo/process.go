package demo

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is how long a node may take to stop before it is killed.
const stopTimeout = 45 * time.Second

// process is one node's process.
type process struct {
	name, config, log string
	env               []string // added to our own

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error
}

func newProcess(name, config, log string) *process {
	return &process{name: name, config: config, log: log}
}

// start runs the node in a process group of its own, so that a terminal's Ctrl-C reaches
// only the demo, and asks the kernel to stop it if the demo dies.
func (p *process) start() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, "node", "--config", p.config)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()
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
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	return nil
}

func (p *process) running() bool {
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
func (p *process) ended() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return "exit status 0"
	}
	return p.err.Error()
}

func (p *process) terminate() {
	if p.running() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
	}
}

func (p *process) wait() {
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

// tail gives the end of the node's log.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
