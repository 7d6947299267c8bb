package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namespaces are one network namespace per place and one for the bridge that joins them; the
// clients dial from the bridge's. None has a name, and nothing is added to the machine's own:
// with their last process and descriptor they are gone, and the virtual cables with them (K4).
type namespaces struct {
	bridge *os.File
	nodes  []*os.File
}

func newNetwork(o *Options) (network, error) {
	if !o.Netns {
		return newLoopback(o)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("--netns needs root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("--netns needs the command ip (package iproute2): %w", err)
	}
	s := &namespaces{}
	if err := s.build(o.places()); err != nil {
		return nil, errors.Join(fmt.Errorf("--netns: %w", err), s.close())
	}
	return s, nil
}

func (s *namespaces) build(places int) (err error) {
	if s.bridge, err = newNamespace(); err != nil {
		return err
	}
	if err := ip(s.bridge, "link set lo up", "link add br0 type bridge", "addr add 10.255.0.254/24 dev br0",
		"link set br0 up"); err != nil {
		return err
	}
	for k := 1; k <= places; k++ {
		ns, err := newNamespace()
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, ns)
		if err := ip(s.bridge,
			fmt.Sprintf("link add v%d type veth peer name eth0 netns /proc/%d/fd/%d", k, os.Getpid(), ns.Fd()),
			fmt.Sprintf("link set v%d master br0", k), fmt.Sprintf("link set v%d up", k)); err != nil {
			return err
		}
		if err := ip(ns, "link set lo up", fmt.Sprintf("addr add %s/24 dev eth0", host(k)),
			"link set eth0 up"); err != nil {
			return err
		}
	}
	return nil
}

// newNamespace makes a network namespace that lives as long as its descriptor, or a process in it.
func newNamespace() (f *os.File, err error) {
	onThread(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			f, err = os.Open("/proc/thread-self/ns/net")
		}
	})
	return f, err
}

// onThread runs f on a thread of its own, which ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		f()
	}()
	<-done
}

func in(ns *os.File, f func() error) (err error) {
	onThread(func() {
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
			err = f()
		}
	})
	return err
}

// ip runs commands of ip(8) in a namespace.
func ip(ns *os.File, commands ...string) error {
	return in(ns, func() error {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; "), err, out)
		}
		return nil
	})
}

func host(k int) string { return fmt.Sprintf("10.255.0.%d", k) }

func (s *namespaces) clientAddress(k int) string { return host(k) + ":5432" }
func (s *namespaces) memberAddress(k int) string { return host(k) + ":7432" }

func (s *namespaces) enter(k int) func() error {
	return func() error { return unix.Setns(int(s.nodes[k-1].Fd()), unix.CLONE_NEWNET) }
}

// dial makes the socket in the bridge's namespace, where it stays whoever uses it.
func (s *namespaces) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	if network != "tcp" {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	err = in(s.bridge, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func (s *namespaces) inside(f func() error) error { return in(s.bridge, f) }

// cut lets node a's kernel throw away what is sent to the others; their answers to it are
// thrown away with it, so nothing gets through in either direction.
func (s *namespaces) cut(c *cluster, a int, others []int, on bool) error {
	var commands []string
	for _, b := range others {
		verb := "del"
		if on {
			verb = "add"
		}
		commands = append(commands, fmt.Sprintf("route %s blackhole %s/32", verb, host(c.node(b).place)))
	}
	return ip(s.nodes[c.node(a).place-1], commands...)
}

func (s *namespaces) unplug(k int, on bool) error {
	state := "up"
	if on {
		state = "down"
	}
	return ip(s.bridge, fmt.Sprintf("link set v%d %s", k, state))
}

func (s *namespaces) close() error {
	var errs []error
	for _, f := range append(s.nodes, s.bridge) {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
