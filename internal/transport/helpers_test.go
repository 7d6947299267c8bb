package transport

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), part)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// member is one Transport under test with what it received.
type member struct {
	*Transport
	logs *logBuffer
	addr string
	got  chan string // "from:frame"
}

// quickTiming has no silence that a pause of the machine could be taken for.
func quickTiming() timing {
	return timing{ping: 20 * time.Millisecond, silence: time.Minute, stall: time.Minute, handshake: 5 * time.Second,
		backoffMin: 5 * time.Millisecond, backoffMax: 50 * time.Millisecond}
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false) // its sockets have no filters, see plug
	deadline := time.Now().Add(time.Minute)
	for {
		l, err := config.Listen(t.Context(), "tcp", addr)
		if err == nil {
			return l
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// launch starts a member on l; change may alter the options.
func launch(t *testing.T, self uint32, l net.Listener, peers map[uint32]string,
	change func(*Options, *timing)) *member {
	t.Helper()
	m := &member{logs: &logBuffer{}, addr: l.Addr().String(), got: make(chan string, 100000)}
	o := Options{
		Self: self, Cluster: "c1", Listener: l, Peers: peers, Credentials: known(secret),
		Logger: slog.New(slog.NewTextHandler(m.logs, nil)),
		Handler: func(from uint32, frame []byte) {
			m.got <- string(rune('0'+from)) + ":" + string(frame)
		},
	}
	tm := quickTiming()
	if change != nil {
		change(&o, &tm)
	}
	tr, err := start(o, tm)
	if err != nil {
		t.Fatal(err)
	}
	m.Transport = tr
	t.Cleanup(func() { tr.Close() })
	return m
}

// known gives credentials that do not change: secrets, without TLS.
func known(secrets ...[]byte) func() Credentials {
	return func() Credentials { return Credentials{Secrets: secrets} }
}

// pair starts members 1 and 2 that know each other and waits until they are connected;
// change is called for both.
func pair(t *testing.T, change func(*Options, *timing)) (one, two *member) {
	t.Helper()
	one, two = strangers(t, change)
	eventually(t, "connections", func() bool { return one.Stats()[2].Connected && two.Stats()[1].Connected })
	return one, two
}

// strangers is pair without waiting.
func strangers(t *testing.T, change func(*Options, *timing)) (one, two *member) {
	t.Helper()
	l1, l2 := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	one = launch(t, 1, l1, map[uint32]string{2: l2.Addr().String()}, change)
	two = launch(t, 2, l2, map[uint32]string{1: l1.Addr().String()}, change)
	return one, two
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (m *member) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-m.got:
		if got != want {
			t.Fatalf("received %.40q, want %.40q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("never received %.40q; logs:\n%s", want, m.logs)
	}
}

// exchange proves that frames pass from m to other.
func (m *member) exchange(t *testing.T, other *member) {
	t.Helper()
	eventually(t, "a connection", func() bool { return m.Send(other.o.Self, []byte("ping-pong")) })
	other.expect(t, string(rune('0'+m.o.Self))+":ping-pong")
}
