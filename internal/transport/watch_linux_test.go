package transport

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deafen has the kernel throw away all that comes for a socket before TCP sees it, as if its cable was pulled. A
// listener passes that on to the connections that it accepts.
func deafen(c syscall.Conn) error { return filter(c, unix.SO_ATTACH_FILTER) }

func hear(c syscall.Conn) error { return filter(c, unix.SO_DETACH_FILTER) }

func filter(c syscall.Conn, option int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, option, &unix.SockFprog{Len: 1, Filter: &nothing})
	})
	if err != nil || failed == unix.ENOENT { // closed meanwhile, or heard already
		return nil
	}
	return failed
}

// plug joins m's network, or pulls its cable: nothing comes in any more, so nothing that it sends is acknowledged
// either.
func (m *member) plug(t *testing.T, in bool) {
	t.Helper()
	turn := deafen
	if in {
		turn = hear
	}
	if err := turn(m.o.Listener.(*net.TCPListener)); err != nil {
		t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		if err := turn(c.(*net.TCPConn)); err != nil {
			t.Error(err)
		}
	}
}

// TestFlappingLink (T7): where the link comes and goes every 227 ms, TCP's own repetitions can all fall into the times
// without it. Frames arrive all the same, never much later than a second after those before. (A cluster stood still for
// three seconds once, see test/record.)
func TestFlappingLink(t *testing.T) {
	for _, period := range []time.Duration{110 * time.Millisecond, 227 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(period.String(), func(t *testing.T) {
			t.Parallel()
			one, two := pair(t, func(_ *Options, tm *timing) { *tm = productionTiming() })
			longest := [2]time.Duration{}
			last := [2]time.Time{time.Now(), time.Now()}
			hearing := func(i int, m *member) {
				for {
					select {
					case <-m.got:
						longest[i], last[i] = max(longest[i], time.Since(last[i])), time.Now()
					default:
						return
					}
				}
			}
			end := time.Now().Add(6 * time.Second)
			for in := false; time.Now().Before(end); in = !in {
				two.plug(t, in)
				for until := time.Now().Add(period); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
					one.Send(2, []byte("a"))
					two.Send(1, []byte("b"))
					hearing(0, one)
					hearing(1, two)
				}
			}
			two.plug(t, true)
			t.Logf("longest silence %v, connections %d and %d", longest, one.Stats()[2].Connections,
				two.Stats()[1].Connections)
			for i, l := range longest {
				if l > 2500*time.Millisecond {
					t.Errorf("nothing came to member %d for %v", 2-i, l)
				}
			}
		})
	}
}
