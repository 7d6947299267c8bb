package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func dialTo(t *testing.T, m *member) net.Conn {
	t.Helper()
	return dialFrom(t, m, 1)
}

// dialFrom dials from one of the addresses 127.0.0.n.
func dialFrom(t *testing.T, m *member, n byte) net.Conn {
	t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}}
	c, err := from.Dial("tcp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// lone starts member 1, whose peer 2 is played by the test; 2's address leads nowhere.
func lone(t *testing.T, change func(*Options, *timing)) *member {
	t.Helper()
	nowhere := listen(t, "127.0.0.1:0")
	addr := nowhere.Addr().String()
	nowhere.Close()
	return launch(t, 1, listen(t, "127.0.0.1:0"), map[uint32]string{2: addr}, change)
}

var secret = []byte("0123456789abcdef")

// authenticated returns a connection that member m takes for member 2.
func authenticated(t *testing.T, m *member) net.Conn {
	t.Helper()
	c := dialTo(t, m)
	if err := dialHandshake(c, hello{from: 2, to: 1, cluster: "c1"}, secret); err != nil {
		t.Fatal(err)
	}
	if err := new(Transport).exchangeAsDialer(c, 1); err != nil {
		t.Fatal(err)
	}
	return c
}

func wire(frame string) []byte {
	return append(appendFrameHeader(nil, []byte(frame)), frame...)
}

// expectClosed reads until the member closes the connection; it returns what came before.
func expectClosed(t *testing.T, c net.Conn) []byte {
	t.Helper()
	b, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the connection stays open")
	}
	return b
}

func TestRefusalsAreDistinct(t *testing.T) {
	m := lone(t, nil)
	for _, c := range []struct {
		h      hello
		secret string
		want   refusal
	}{
		{hello{from: 2, to: 1, cluster: "other"}, string(secret), refusedCluster},
		{hello{from: 3, to: 1, cluster: "c1"}, string(secret), refusedMember},
		{hello{from: 2, to: 5, cluster: "c1"}, string(secret), refusedMember},
		{hello{from: 2, to: 1, cluster: "c1"}, "wrong", refusedSecret},
	} {
		conn := dialTo(t, m)
		if err := dialHandshake(conn, c.h, []byte(c.secret)); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.h, err, c.want)
		}
		expectClosed(t, conn)
		eventually(t, "a log line for "+c.want.Error(), func() bool { return m.logs.count(c.want.Error()) > 0 })
	}
	conn := dialTo(t, m)
	first := hello{from: 2, to: 1, cluster: "c1"}.append(nil)
	binary.LittleEndian.PutUint16(first[len(magic):], 77)
	if _, err := conn.Write(first); err != nil {
		t.Fatal(err)
	}
	if _, err := readVerdict(conn, nonceBytes); !errors.Is(err, refusedVersion) {
		t.Errorf("wrong version: %v", err)
	}
	// Strangers can not make this member talk about its cluster.
	for _, text := range refusalTexts {
		if strings.Contains(text, "c1") {
			t.Errorf("%q reveals the cluster", text)
		}
	}
}

// TestRefusedDialerSaysWhy: the refusal reaches the log of the member that was misconfigured.
func TestRefusedDialerSaysWhy(t *testing.T) {
	one, _ := strangers(t, func(o *Options, _ *timing) {
		if o.Self == 1 {
			o.Credentials = known([]byte("another"))
		}
	})
	eventually(t, "reason in the log", func() bool { return one.logs.count("wrong secret") > 0 })
	time.Sleep(100 * time.Millisecond)
	if n := one.logs.count("no connection to member"); n != 1 {
		t.Errorf("%d lines for one cause:\n%s", n, one.logs)
	}
}

// TestImpostorAcceptor: a listener that does not know the secret gets no frames.
func TestImpostorAcceptor(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	defer l.Close()
	m := launch(t, 1, listen(t, "127.0.0.1:0"), map[uint32]string{2: l.Addr().String()}, nil)
	m.Send(2, []byte("confidential"))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := readHello(c); err != nil {
		t.Fatal(err)
	}
	if err := writeVerdict(c, accepted, make([]byte, nonceBytes)); err != nil {
		t.Fatal(err)
	}
	var proof [macBytes]byte
	if _, err := io.ReadFull(c, proof[:]); err != nil {
		t.Fatal(err)
	}
	// The best an impostor has: the dialer's own proof.
	if err := writeVerdict(c, accepted, proof[:]); err != nil {
		t.Fatal(err)
	}
	if b := expectClosed(t, c); len(b) > 0 {
		t.Fatalf("the impostor received %q", b)
	}
	eventually(t, "a log line", func() bool { return m.logs.count("does not know the cluster secret") > 0 })
}

func TestGarbageDisturbsNobody(t *testing.T) {
	one, two := pair(t, nil)
	one.exchange(t, two)
	for _, g := range [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		bytes.Repeat([]byte{0}, 100),
		bytes.Repeat([]byte{0xFF}, 100000),
		append([]byte(magic), protocolVersion, 0, 0xFF, 0xFF),
		append([]byte(magic), protocolVersion, 0, 1, 0),
	} {
		c := dialTo(t, two)
		// The member may have closed already; that is the point.
		_, _ = c.Write(g)
		if b := expectClosed(t, c); len(b) > 0 {
			t.Errorf("garbage %.20q was answered with %q", g, b)
		}
		one.exchange(t, two)
	}
	if n := two.logs.count("not a Tutti member stream"); n == 0 {
		t.Errorf("no log line for garbage:\n%s", two.logs)
	}
	if s := one.Stats()[2]; s.Connections != 1 {
		t.Errorf("the good connection broke: %+v", s)
	}
}

func TestHandshakeTimesOut(t *testing.T) {
	m := lone(t, func(_ *Options, tm *timing) { tm.handshake = 3 * time.Second })
	c := dialTo(t, m)
	if _, err := c.Write(hello{from: 2, to: 1, cluster: "c1"}.append(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := readVerdict(c, nonceBytes); err != nil {
		t.Fatal(err)
	}
	expectClosed(t, c) // the proof never comes
	eventually(t, "a log line", func() bool { return m.logs.count("handshake was not finished") > 0 })
}

func TestHalfOpenLimit(t *testing.T) {
	m := lone(t, func(_ *Options, tm *timing) { tm.handshake = time.Minute })
	var conns []net.Conn
	for n := range byte(halfOpenMax / halfOpenEach) {
		for range halfOpenEach {
			conns = append(conns, dialFrom(t, m, 2+n))
		}
		eventually(t, "all places of an address taken", func() bool { return m.halfOpen.count() == len(conns) })
		expectClosed(t, dialFrom(t, m, 2+n))
		if n == 0 { // others have theirs
			authenticated(t, m)
		}
	}
	expectClosed(t, dialTo(t, m))
	eventually(t, "a log line", func() bool { return m.logs.count("too many unauthenticated") > 0 })
	for _, c := range conns {
		c.Close()
	}
	eventually(t, "places free again", func() bool { return m.halfOpen.count() == 0 })
	c := authenticated(t, m)
	if _, err := c.Write(wire("hello")); err != nil {
		t.Fatal(err)
	}
	m.expect(t, "2:hello")
}

func TestBadFramesEndTheConnection(t *testing.T) {
	damaged := wire("damaged")
	damaged[len(damaged)-1] ^= 1
	for want, bad := range map[string][]byte{
		"frame is too long": wire(strings.Repeat("x", 101)),
		"wrong checksum":    damaged,
	} {
		m := lone(t, func(o *Options, _ *timing) { o.FrameBytesMax = 100 })
		began := time.Now()
		for range 3 {
			c := authenticated(t, m)
			if _, err := c.Write(append(wire("good"), bad...)); err != nil {
				t.Fatal(err)
			}
			m.expect(t, "2:good")
			expectClosed(t, c)
		}
		eventually(t, want, func() bool { return m.logs.count(want) > 0 })
		if n := m.logs.count(want); n != 1 && time.Since(began) < peerLogEvery {
			t.Errorf("%d log lines within a second", n)
		}
		if len(m.got) > 0 {
			t.Errorf("a bad frame was delivered: %q", <-m.got)
		}
	}
}

// TestSilentConnectionsDie (T4), for both ends.
func TestSilentConnectionsDie(t *testing.T) {
	const silence = 3 * time.Second
	l := listen(t, "127.0.0.1:0")
	defer l.Close()
	m := launch(t, 1, listen(t, "127.0.0.1:0"), map[uint32]string{2: l.Addr().String()},
		func(_ *Options, tm *timing) { tm.silence = silence })
	began := time.Now()
	c := authenticated(t, m) // as dialer that never pings
	eventually(t, "incoming", func() bool { return m.Stats()[2].Incoming })
	if b := expectClosed(t, c); len(b) < 2*frameHeaderBytes {
		t.Errorf("only %d bytes of pings came", len(b))
	}
	if took := time.Since(began); took < silence/2 {
		t.Errorf("closed after %v already", took)
	}
	eventually(t, "incoming gone", func() bool { return !m.Stats()[2].Incoming })

	a, err := l.Accept() // as acceptor that never pings
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := acceptHandshake(a, [][]byte{secret}, func(hello) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := new(Transport).exchangeAsAcceptor(a, 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "connected", func() bool { return m.Stats()[2].Connected })
	eventually(t, "no longer connected", func() bool { return !m.Stats()[2].Connected })
	eventually(t, "a log line", func() bool { return m.logs.count("sign of life") > 0 })
}

func TestNewerConnectionReplacesOlder(t *testing.T) {
	m := lone(t, func(_ *Options, tm *timing) { tm.silence = time.Minute })
	older := authenticated(t, m)
	if _, err := older.Write(wire("from the older")); err != nil {
		t.Fatal(err)
	}
	m.expect(t, "2:from the older")
	newer := authenticated(t, m)
	expectClosed(t, older)
	if _, err := newer.Write(wire("from the newer")); err != nil {
		t.Fatal(err)
	}
	m.expect(t, "2:from the newer")
	if !m.Stats()[2].Incoming {
		t.Error("the replaced connection took the newer one's place in the statistics")
	}
}

// TestReplacedConnectionFinishesFirst (T2): the newer connection's frames wait for the
// handler call that the older one is in.
func TestReplacedConnectionFinishesFirst(t *testing.T) {
	entered, release := make(chan string, 10), make(chan struct{})
	m := lone(t, func(o *Options, tm *timing) {
		tm.silence = time.Minute
		o.Handler = func(_ uint32, frame []byte) {
			entered <- string(frame)
			<-release
		}
	})
	older := authenticated(t, m)
	if _, err := older.Write(wire("older")); err != nil {
		t.Fatal(err)
	}
	if got := <-entered; got != "older" {
		t.Fatalf("handler got %q", got)
	}
	newer := authenticated(t, m)
	if _, err := newer.Write(wire("newer")); err != nil {
		t.Fatal(err)
	}
	expectClosed(t, older)
	select {
	case got := <-entered:
		close(release)
		t.Fatalf("%q was handled while another frame of the member was", got)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if got := <-entered; got != "newer" {
		t.Fatalf("handler got %q", got)
	}
}
