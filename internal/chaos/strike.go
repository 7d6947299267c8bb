package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/fault"
)

// window is one fault as it happened.
type window struct {
	fault   Fault
	led     bool  // it was made at the leader
	hit     []int // nodes it was made at
	beside  int   // join, remove: the node at which Fault.Beside is made
	victims []int // nodes whose clients may see an outage
	members []int // when it was made
	start   time.Time
	healed  time.Time
	over    time.Time // every member had committed again
}

// others are those that there are beside some.
func (w window) others(some []int) []int {
	return slices.DeleteFunc(slices.Clone(w.members), func(k int) bool { return slices.Contains(some, k) })
}

// place decides where a fault is made.
func (c *cluster) place(f Fault, v view) window {
	f = c.feasible(f, v)
	w := window{fault: f, members: v.members, hit: f.victims(v.leader, v.members)}
	switch f.Kind {
	case "disk-full":
		w.hit = []int{c.disk.k}
		w.fault.Leader = v.leader == c.disk.k
	case "link":
		return c.placeLink(w, v)
	case kindRemove:
		w.beside = w.hit[0]
	case kindJoin:
		k := len(c.known()) + 1
		w.beside = k
		if f.Beside != "" && f.Other {
			w.beside = w.hit[0]
		}
		w.hit = slices.Compact([]int{w.beside, k})
	}
	w.victims = w.hit
	w.led = slices.Contains(w.hit, v.leader)
	if f.Kind != kindRemove && len(w.hit) > 0 && v.outvoted(w.hit) { // others wait for who was hit
		w.victims = append(slices.Clone(w.hit), v.members...)
	}
	return w
}

// placeLink chooses the other end. The node beside the one that leads cannot reach the leader; between followers nobody
// misses anything.
func (c *cluster) placeLink(w window, v view) window {
	a := w.hit[0]
	order := w.fault.order(v.members)
	b := order[slices.IndexFunc(order, func(k int) bool { return k != a })]
	w.hit = []int{a, b}
	for _, k := range w.hit {
		if k != v.leader && slices.Contains(w.hit, v.leader) {
			w.victims = []int{k}
		}
	}
	if slices.Contains(v.voters, a) && slices.Contains(v.voters, b) && v.outvoted([]int{a}) {
		w.victims = v.members
	}
	return w
}

// feasible is what can be made of a fault now. Whoever votes and loses its disk while the others that vote are no
// majority is lost for good, and so is the cluster; who is to be removed then must be there to vote for it.
func (c *cluster) feasible(f Fault, v view) Fault {
	lost := v.outvoted(f.victims(v.leader, v.members))
	switch {
	case f.Kind == "lose-disk" && (lost || c.o.changes() && !v.settled):
		f.Kind = "kill-both"
	case f.Kind == "disk-full" && (c.disk == nil || !slices.Contains(v.members, c.disk.k)):
		f.Kind, f.Count = none, 0
	case f.Kind == kindRemove && lost:
		f.Beside = ""
	case f.Kind == kindJoin:
		last := c.lastRemoved()
		f.Same = f.Same && last != nil && !c.named(last.member)
	}
	return f
}

// strike makes a fault and returns what heals it.
func (c *cluster) strike(ctx context.Context, w window) (heal func() error, err error) {
	f := w.fault
	switch f.Kind {
	case none:
		return nothing, nil
	case kindJoin:
		return c.join(ctx, w)
	case kindRemove:
		return c.remove(ctx, w)
	case "kill-node", "kill-both", "kill-all", "restart":
		return c.end(w)
	case "lose-disk":
		if heal, err = c.end(w); err == nil {
			err = c.eachHit(w, (*node).empty)
		}
		return heal, err
	case "kill-postgres":
		err := c.eachHit(w, func(n *node) error {
			if pid := n.postgres(); pid > 1 {
				return syscall.Kill(pid, syscall.SIGKILL)
			}
			return fmt.Errorf("%s has no postmaster", n.name())
		})
		return nothing, err
	case "freeze":
		return c.signalAll(w, syscall.SIGCONT), c.signalAll(w, syscall.SIGSTOP)()
	case "flap":
		return c.flap(ctx, w)
	case "disk-full":
		return c.disk.free, c.disk.fill()
	}
	return c.disturb(w)
}

// disturb makes a fault that is turned on and off.
func (c *cluster) disturb(w window) (heal func() error, err error) {
	f := w.fault
	switch f.Kind {
	case "slow-fsync":
		return c.switched(func(on bool) error {
			return c.eachHit(w, func(n *node) error {
				return n.disturb(func(r *fault.Rules) { r.SyncDelay = size(on, f.Millis) })
			})
		})
	case "fsync-error":
		return c.switched(func(on bool) error {
			return c.eachHit(w, func(n *node) error {
				return n.disturb(func(r *fault.Rules) {
					r.SyncError = map[bool]string{true: "a fault made on purpose"}[on]
				})
			})
		})
	case "delay":
		return c.switched(func(on bool) error { return c.delay(w, size(on, f.Millis)) })
	case "oneway":
		return c.switched(func(on bool) error { return c.oneway(w, on) })
	case "partition", "link":
		return c.switched(func(on bool) error { return c.partition(w, on) })
	case "unplug":
		return c.switched(func(on bool) error {
			return c.eachHit(w, func(n *node) error { return c.net.unplug(n.place, on) })
		})
	}
	return nil, fmt.Errorf("fault %s cannot be made", f.Kind)
}

func nothing() error { return nil }

func size(on bool, millis int) int {
	if on {
		return millis
	}
	return 0
}

// switched is a fault that is turned on and off.
func (c *cluster) switched(turn func(on bool) error) (func() error, error) {
	return func() error { return turn(false) }, turn(true)
}

func (c *cluster) eachHit(w window, f func(*node) error) error {
	var errs []error
	for _, k := range w.hit {
		errs = append(errs, f(c.node(k)))
	}
	return errors.Join(errs...)
}

func (c *cluster) signalAll(w window, s syscall.Signal) func() error {
	return func() error {
		return c.eachHit(w, func(n *node) error { n.signal(s); return nil })
	}
}

// end ends processes, all as near to at once as possible, and keeps the nodes down.
func (c *cluster) end(w window) (heal func() error, err error) {
	sig := syscall.SIGKILL
	if w.fault.Kind == "restart" {
		sig = syscall.SIGTERM
	}
	var pids []int
	for _, k := range w.hit {
		n := c.node(k)
		n.hold()
		pids = append(pids, n.pid())
		if slices.Contains([]string{"kill-both", "kill-all", "lose-disk"}, w.fault.Kind) {
			pids = append(pids, n.postgres())
		}
	}
	for _, pid := range pids {
		if pid > 1 {
			_ = syscall.Kill(pid, sig) // a postmaster may just have ended with its node
		}
	}
	err = c.eachHit(w, func(n *node) error { return n.gone(stopTimeout) })
	return func() error {
		return c.eachHit(w, func(n *node) error { n.release(); return nil })
	}, err
}

// partition cuts the nodes that are hit off from the others; for a link, from each other.
func (c *cluster) partition(w window, on bool) error {
	if w.fault.Kind == "link" {
		return c.net.cut(c, w.hit[0], w.hit[1:], on)
	}
	return c.eachHit(w, func(n *node) error { return c.net.cut(c, n.k, w.others(w.hit), on) })
}

// oneway loses what is sent in one direction, inside the nodes.
func (c *cluster) oneway(w window, on bool) error {
	var errs []error
	for _, a := range w.hit {
		for _, b := range w.others(w.hit) {
			from, to := a, b
			if w.fault.Inward {
				from, to = b, a
			}
			errs = append(errs, c.mute(from, to, on))
		}
	}
	return errors.Join(errs...)
}

// delay holds back what is sent from and to the nodes that are hit.
func (c *cluster) delay(w window, millis int) error {
	set := func(a, b int) error {
		return c.node(a).disturb(func(r *fault.Rules) {
			if r.Delay == nil {
				r.Delay = map[uint32]int{}
			}
			r.Delay[uint32(b)] = millis
		})
	}
	var errs []error
	for _, a := range w.hit {
		for _, b := range w.others([]int{a}) {
			errs = append(errs, set(a, b), set(b, a))
		}
	}
	return errors.Join(errs...)
}

// flap cuts and joins again and again.
func (c *cluster) flap(ctx context.Context, w window) (heal func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		on, err := false, error(nil)
		for ; err == nil && ctx.Err() == nil; sleep(ctx, time.Duration(w.fault.Millis)*time.Millisecond) {
			on = !on
			err = c.partition(w, on)
		}
		if on {
			err = errors.Join(err, c.partition(w, false))
		}
		done <- err
	}()
	return func() error { cancel(); return <-done }, nil
}
