package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/process"
)

// restartAfter is how long a node that ended by itself stays down, as a supervisor's would.
const restartAfter = 500 * time.Millisecond

// node is one member and who keeps it running.
type node struct {
	k          int    // the number of its member
	place      int    // where it is in the network
	member     string // the name of its member
	config     config.Config
	configFile string
	logFile    string
	faultFile  string

	stage   stage     // guarded by the cluster
	removed time.Time // since when it is no member
	small   bool      // it is or was on the small file system; guarded by the cluster

	mu       sync.Mutex
	proc     *process.Process
	started  time.Time
	held     bool // a fault keeps it down
	expected bool // we ended it
	stopping bool
	exits    []exit
	rules    fault.Rules
}

// exit is one end of a node's process.
type exit struct {
	at       time.Time
	expected bool
	how      string // exit status, and the log's last line
}

func (n *node) name() string { return fmt.Sprintf("node%d", n.k) }

// supervise starts the node again whenever it ends, until ctx does.
func (c *cluster) supervise(ctx context.Context, n *node) {
	for n.await(ctx) {
		p, err := process.Start(process.Options{
			Log: n.logFile, Enter: c.net.enter(n.place), Kill: true,
			Env: []string{
				// The nodes share this machine's cores; threads beyond that only wake each other.
				fmt.Sprintf("GOMAXPROCS=%d", max(1, runtime.NumCPU()/c.o.Nodes)),
				fault.Variable + "=" + n.faultFile,
			},
		}, c.o.Exe, "node", "--config", n.configFile)
		if err != nil {
			c.say("%s cannot be started: %v", n.name(), err)
			sleep(ctx, restartAfter)
			continue
		}
		n.mu.Lock()
		n.proc, n.started, n.expected = p, time.Now(), false
		if n.stopping { // since await
			p.Signal(syscall.SIGTERM)
		}
		n.mu.Unlock()
		<-p.Done()
		if !n.ended(p) {
			c.say("%s ended by itself: %s", n.name(), n.lastExit())
			sleep(ctx, restartAfter)
		}
	}
}

// await waits while the node is held down; false when it is not to start again.
func (n *node) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		n.mu.Lock()
		held, stopping := n.held, n.stopping
		n.mu.Unlock()
		if stopping {
			return false
		}
		if !held {
			return true
		}
		sleep(ctx, pollInterval)
	}
	return false
}

// ended notes the end of a process, and reports whether we were its reason.
func (n *node) ended(p *process.Process) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	how := "exit status 0"
	if err := p.Err(); err != nil {
		how = err.Error()
	}
	expected := n.expected || n.stopping
	if !expected {
		how += ": " + process.Tail(n.logFile, 1)
	}
	n.exits = append(n.exits, exit{time.Now(), expected, how})
	return expected
}

func (n *node) lastExit() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exits[len(n.exits)-1].how
}

// pid is the node's process; zero while it does not run.
func (n *node) pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.proc.Running() {
		return 0
	}
	return n.proc.PID()
}

// empty removes all that a node has. Its directory may be where a file system is mounted.
func (n *node) empty() error {
	files, err := os.ReadDir(n.config.DataDir)
	for _, f := range files {
		err = errors.Join(err, os.RemoveAll(filepath.Join(n.config.DataDir, f.Name())))
	}
	return err
}

func (n *node) postgres() int { return process.Postmaster(filepath.Join(n.config.DataDir, "postgres")) }

// hold keeps the node down once it ends, until release.
func (n *node) hold() {
	n.mu.Lock()
	n.held, n.expected = true, true
	n.mu.Unlock()
}

func (n *node) release() {
	n.mu.Lock()
	n.held = false
	n.mu.Unlock()
}

// signal is lost if the process has ended.
func (n *node) signal(s syscall.Signal) {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	p.Signal(s)
}

// gone waits for the end of the node's process.
func (n *node) gone(d time.Duration) error {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.Wait(d)
}

// disturb changes the node's own faults.
func (n *node) disturb(change func(*fault.Rules)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.rules)
	return n.rules.Write(n.faultFile)
}

// stop ends the node, and its supervisor with it.
func (n *node) stop() error {
	n.mu.Lock()
	n.stopping = true
	p := n.proc
	n.mu.Unlock()
	running := p.Running()
	n.signal(syscall.SIGCONT) // a frozen one could not end
	n.signal(syscall.SIGTERM)
	if err := n.gone(stopTimeout); err != nil {
		n.signal(syscall.SIGKILL)
		return fmt.Errorf("%s, asked to stop: %w", n.name(), err)
	}
	if running && p.Err() != nil {
		return fmt.Errorf("%s, asked to stop, ended with %w: %s", n.name(), p.Err(), process.Tail(n.logFile, 1))
	}
	return nil
}

// byItself lists the ends nobody asked for.
func (n *node) byItself() (how []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.exits {
		if !e.expected {
			how = append(how, e.how)
		}
	}
	return how
}

// fatal are words in a node's log that no fault explains: the databases differ, or the code
// is wrong.
var fatal = []string{"has diverged from the cluster", "cannot be applied", "panic: ", "fatal error: ",
	"WARNING: DATA RACE"}

// accident finds such words in a node's log.
func (n *node) accident() string {
	for _, line := range strings.Split(process.Tail(n.logFile, 1<<30), "\n") {
		for _, sign := range fatal {
			if strings.Contains(line, sign) {
				return line
			}
		}
	}
	return ""
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
