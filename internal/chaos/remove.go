package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

const (
	// leaveTimeout is how long the node of a removed member may run on that hears the others.
	leaveTimeout = time.Minute
	// lingers is how long one may that does not hear of its removal: then its machine is taken away.
	lingers = 10 * time.Second
)

// whyLeft is what the log of a node says that ends because its member was removed.
const whyLeft = "was removed from the cluster, which goes on without it"

// leaver is a node whose member is removed.
type leaver struct {
	*cluster
	n *node
}

// remove removes a member, of which the node may be down by then or not hear the others. What heals that has the node
// end for ever, and takes away what it has.
func (c *cluster) remove(ctx context.Context, w window) (heal func() error, err error) {
	l := &leaver{c, c.node(w.beside)}
	n := l.n
	healed := nothing
	if w.fault.Beside == "" {
		n.hold() // it is to end by itself, and not to start again
	} else if healed, err = c.strike(ctx, c.besides(w)); err != nil {
		return healed, err
	}
	if err := l.dismiss(ctx, !w.fault.Other && w.fault.Beside == ""); err != nil {
		return healed, errors.Join(err, healed())
	}
	n.removed = time.Now()
	c.enter(n, stageRemoved)
	c.say("%s is removed", n.name())
	return func() error {
		err := healed()
		if err == nil && w.fault.Beside == "" {
			err = l.ends()
		} else if err == nil {
			l.lingers(ctx)
		}
		return errors.Join(err, l.takeAway(), c.keepFiles())
	}, nil
}

// dismiss removes a member, by the command that is for it, at one of the others or, at first, at itself. A command
// whose end nobody knows has done it if others do not list the member.
func (l *leaver) dismiss(ctx context.Context, byItself bool) error {
	n := l.n
	try := func(by *node) error {
		out, err := l.tool(ctx, "member", "remove", n.member, "--address", l.address(by.k))
		if err == nil {
			return nil
		}
		return fmt.Errorf("tutti member remove at %s: %w: %s", by.name(), err, strings.TrimSpace(out))
	}
	if byItself {
		if err := try(n); err != nil { // it may have ended before it could answer
			l.say("%v", err)
		}
	}
	return l.untilDone(ctx, n, func(by *node) error {
		err := try(by)
		if listed, unknown := l.lists(ctx, by); err != nil && unknown == nil && !listed {
			return nil
		}
		return err
	})
}

// lists reports whether a node lists the member.
func (l *leaver) lists(ctx context.Context, by *node) (bool, error) {
	rows, err := ask(ctx, l.url(by.k), l.net.dial, "SHOW tutti.members", 5*time.Second)
	return slices.ContainsFunc(rows, func(row []string) bool { return row[0] == strconv.Itoa(l.n.k) }), err
}

// ends waits for the end of a removed member's node, which must say why.
func (l *leaver) ends() error {
	n := l.n
	if err := n.gone(leaveTimeout); err != nil {
		return fmt.Errorf("%s was removed: %w\n%s", n.name(), err, n.lastWords())
	}
	l.say("%s has ended %.1f s after that", n.name(), time.Since(n.removed).Seconds())
	if log := process.Tail(n.logFile, 1<<30); !strings.Contains(log, whyLeft) {
		return fmt.Errorf("%s was removed, and ended with %s", n.name(), process.Tail(n.logFile, 1))
	}
	return nil
}

// lingers waits for the end of a node that may not hear that its member was removed, for a while. If it was down it
// starts once more.
func (l *leaver) lingers(ctx context.Context) {
	n := l.n
	wait := func(running bool) {
		for range lingers / pollInterval {
			if (n.pid() != 0) == running || !sleep(ctx, pollInterval) {
				return
			}
		}
	}
	wait(true)
	n.hold()
	wait(false)
	how := "runs on"
	if n.pid() == 0 {
		how = "has ended"
	}
	l.say("%s, which was removed, %s", n.name(), how)
}

// takeAway ends what is left of a node, and removes its files but for the log of what it did.
func (l *leaver) takeAway() error {
	n := l.n
	n.mu.Lock()
	n.stopping = true
	n.mu.Unlock()
	n.signal(syscall.SIGKILL)
	err := n.gone(stopTimeout)
	for deadline := time.Now().Add(stopTimeout); ; sleep(context.Background(), pollInterval) {
		left := process.OfNode(n.configFile, n.config.DataDir)
		if len(left) == 0 {
			break
		}
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("processes of %s do not end: %v", n.name(), left))
		}
	}
	if l.disk != nil && l.disk.k == n.k {
		err = errors.Join(err, l.unmounts())
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(l.o.Dir, n.name())))
}

// unmounts takes away the small file system. A process that has just ended may hold it for a moment.
func (l *leaver) unmounts() error {
	deadline := time.Now().Add(stopTimeout)
	err := l.disk.unmount()
	for ; err != nil && time.Now().Before(deadline); err = l.disk.unmount() {
		sleep(context.Background(), pollInterval)
	}
	if err == nil {
		l.disk = nil
	}
	return err
}
