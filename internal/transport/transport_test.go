package transport

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestBothDirectionsInOrder(t *testing.T) {
	one, two := pair(t, nil)
	const n = 5000
	big := strings.Repeat("b", 3*copyBytesMax) // written from where it is
	text := func(i int) string {
		if i%100 == 0 {
			return fmt.Sprint(i, big)
		}
		return fmt.Sprint(i)
	}
	for i := range n {
		if !one.Send(2, []byte(text(i))) || !two.Send(1, []byte(text(i))) {
			t.Fatalf("frame %d was refused", i)
		}
	}
	for i := range n {
		two.expect(t, "1:"+text(i))
		one.expect(t, "2:"+text(i))
	}
	eventually(t, "statistics", func() bool {
		s := one.Stats()[2]
		return s.Connected && s.Incoming && s.Connections == 1 && s.QueuedBytes == 0 && s.Dropped == 0 &&
			s.SentFrames == n && s.ReceivedFrames == n && s.SentBytes == two.Stats()[1].ReceivedBytes &&
			s.SentBytes > n*frameHeaderBytes
	})
}

func TestSendRefusals(t *testing.T) {
	one, two := pair(t, func(o *Options, _ *timing) { o.FrameBytesMax = 1000; o.QueueBytesMax = 1000 })
	if one.Send(9, []byte("x")) {
		t.Error("a frame for an unknown member was accepted")
	}
	began := time.Now()
	if one.Send(2, nil) || one.Send(2, make([]byte, 1001)) {
		t.Error("a frame of impossible length was accepted")
	}
	if n := one.logs.count("impossible length"); n != 1 && time.Since(began) < peerLogEvery {
		t.Errorf("%d log lines for two frames in one second", n)
	}
	if one.Stats()[2].Dropped != 2 {
		t.Errorf("statistics are %+v", one.Stats()[2])
	}
	longest := strings.Repeat("x", 1000)
	if !one.Send(2, []byte(longest)) {
		t.Error("the longest frame was refused")
	}
	two.expect(t, "1:"+longest)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if one.Send(2, []byte("x")) {
		t.Error("a frame was accepted after Close")
	}
	if one.Close() == nil {
		t.Error("the second Close returned nil")
	}
}

// TestReconnectAfterRestart (T6): nothing is kept for a member that is away.
func TestReconnectAfterRestart(t *testing.T) {
	var reached atomic.Int32
	one, two := pair(t, func(o *Options, _ *timing) {
		if o.Self == 1 {
			o.Connected = func(member uint32) {
				if member == 2 {
					reached.Add(1)
				}
			}
		}
	})
	one.exchange(t, two)
	for range 3 {
		addr := two.addr
		if err := two.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "loss noticed", func() bool { return !one.Stats()[2].Connected })
		if one.Send(2, []byte("old")) {
			t.Error("a frame is taken for a member that is away")
		}
		two = launch(t, 2, listen(t, addr), map[uint32]string{1: one.addr}, nil)
		one.exchange(t, two)
		two.exchange(t, one)
	}
	if n := one.Stats()[2].Connections; n != 4 || reached.Load() != 4 {
		t.Errorf("%d connections, %d told, want 4", n, reached.Load())
	}
}

// TestSlowPeer (T1, T3): a member whose handler hangs fills the queue; Send keeps returning at
// once, drops are counted, and nobody else waits. Later everything accepted arrives in order.
func TestSlowPeer(t *testing.T) {
	const silence = 3 * time.Second
	release := make(chan struct{})
	l1, l2, l3 := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	one := launch(t, 1, l1, map[uint32]string{2: l2.Addr().String(), 3: l3.Addr().String()},
		func(o *Options, tm *timing) {
			o.QueueBytesMax, o.FrameBytesMax, tm.silence, tm.stall = 1<<20, 1<<20, silence, silence/10
		})
	received := make(chan byte, 100000)
	launch(t, 2, l2, map[uint32]string{1: one.addr}, func(o *Options, tm *timing) {
		tm.silence = silence
		o.Handler = func(_ uint32, frame []byte) {
			<-release
			received <- frame[0]
		}
	})
	three := launch(t, 3, l3, map[uint32]string{1: one.addr}, nil)
	var accepted []byte
	eventually(t, "a full queue", func() bool {
		for i := range 20 {
			began := time.Now()
			frame := make([]byte, 64<<10)
			frame[0] = byte(len(accepted))
			if one.Send(2, frame) {
				accepted = append(accepted, byte(len(accepted)))
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Fatalf("Send %d took %v", i, took)
			}
		}
		s := one.Stats()[2]
		return s.Dropped > 0 && s.QueuedBytes > 900<<10
	})
	if q := one.Stats()[2].QueuedBytes; q > 1<<20 {
		t.Errorf("%d bytes queued, the limit is %d", q, 1<<20)
	}
	one.exchange(t, three)
	time.Sleep(2 * silence) // slow is not dead (T4), and its kernel says so (T7)
	if s := one.Stats()[2]; !s.Connected || s.Connections != 1 {
		t.Errorf("the slow member was cut off: %+v", s)
	}
	close(release)
	for i, want := range accepted {
		select {
		case got := <-received:
			if got != want {
				t.Fatalf("frame %d is %d, want %d", i, got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("frame %d never arrived", i)
		}
	}
}

func TestFaultSeam(t *testing.T) {
	const delay = 60 * time.Millisecond
	one, two := pair(t, func(o *Options, _ *timing) {
		if o.Self == 1 {
			o.Fault = func(to uint32, frame []byte) (time.Duration, bool) {
				switch frame[0] {
				case 'd':
					return delay, false
				case 'l':
					return 0, true
				}
				return 0, false
			}
		}
	})
	one.exchange(t, two)
	began := time.Now()
	for _, f := range []string{"delayed", "lost", "not delayed, but behind"} {
		if !one.Send(2, []byte(f)) {
			t.Fatalf("%q was refused", f)
		}
	}
	two.expect(t, "1:delayed")
	two.expect(t, "1:not delayed, but behind")
	if took := time.Since(began); took < delay {
		t.Errorf("frames arrived after %v, the delay is %v", took, delay)
	}
	if n := one.Stats()[2].Dropped; n != 1 {
		t.Errorf("%d drops, want 1", n)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := func() Options {
		return Options{Self: 1, Cluster: "c", Listener: listen(t, "127.0.0.1:0"), Credentials: known([]byte("s")),
			Handler: func(uint32, []byte) {}}
	}
	for what, spoil := range map[string]func(*Options){
		"Listener":    func(o *Options) { o.Listener.Close(); o.Listener = nil },
		"Handler":     func(o *Options) { o.Handler = nil },
		"Cluster":     func(o *Options) { o.Cluster = "" },
		"Credentials": func(o *Options) { o.Credentials = nil },
		"no secret":   func(o *Options) { o.Credentials = known() },
		"PeerName": func(o *Options) {
			o.Credentials = func() Credentials {
				return Credentials{[][]byte{secret}, &TLS{}}
			}
		},
		"FrameBytesMax": func(o *Options) { o.FrameBytesMax = -1 },
		"QueueBytesMax": func(o *Options) { o.QueueBytesMax = 1 },
		"Peers":         func(o *Options) { o.Peers = map[uint32]string{1: "x:1"} },
	} {
		o := good()
		spoil(&o)
		tr, err := New(o)
		if err == nil {
			tr.Close()
		}
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		if o.Listener != nil {
			if _, err := o.Listener.Accept(); err == nil {
				t.Errorf("%s: the listener was left open", what)
			}
		}
	}
	tr, err := New(good())
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCloseWhileBusy (T5) ends transports in every state of a connection; goleak checks the rest.
func TestCloseWhileBusy(t *testing.T) {
	silent := listen(t, "127.0.0.1:0") // takes connections, never answers
	defer silent.Close()
	one, two := pair(t, nil)
	three := launch(t, 3, listen(t, "127.0.0.1:0"), map[uint32]string{1: silent.Addr().String(), 2: two.addr}, nil)
	c, err := net.Dial("tcp", two.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2000 {
		one.Send(2, make([]byte, 10000))
		two.Send(1, make([]byte, 10000))
	}
	for _, m := range []*member{one, two, three} {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBrokenConnectionDropsTheQueue (T6): what waited for a member that hangs is gone when the
// connection is.
func TestBrokenConnectionDropsTheQueue(t *testing.T) {
	release := make(chan struct{})
	l1, l2 := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	one := launch(t, 1, l1, map[uint32]string{2: l2.Addr().String()}, nil)
	two := launch(t, 2, l2, map[uint32]string{1: one.addr}, func(o *Options, _ *timing) {
		o.Handler = func(uint32, []byte) { <-release }
	})
	eventually(t, "a connection", func() bool { return one.Stats()[2].Connected })
	sent := uint64(0)
	eventually(t, "a queue", func() bool {
		for sent < 1000 && one.Send(2, make([]byte, 64<<10)) {
			sent++
		}
		return sent == 1000 && one.Stats()[2].QueuedBytes > 1<<20
	})
	closed := make(chan error)
	go func() { closed <- two.Close() }() // it waits for the handler
	eventually(t, "an empty queue", func() bool { return one.Stats()[2].QueuedBytes == 0 })
	if s := one.Stats()[2]; s.Connected || s.Dropped == 0 || s.Dropped+s.SentFrames != sent {
		t.Errorf("%d frames were taken: %+v", sent, s)
	}
	close(release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestGone: a member is called gone once when nobody listens where it was; not when it has never been there, and not
// when only the connection is lost.
func TestGone(t *testing.T) {
	var gone atomic.Int64
	tell := func(o *Options, _ *timing) {
		if o.Self == 1 {
			o.Gone = func(member uint32) { gone.Add(int64(member)) }
		}
	}
	l1, l2 := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	addr := l2.Addr().String()
	if err := l2.Close(); err != nil {
		t.Fatal(err)
	}
	one := launch(t, 1, l1, map[uint32]string{2: addr}, tell)
	eventually(t, "a refusal", func() bool { return one.logs.count("connection refused") > 0 })
	two := launch(t, 2, listen(t, addr), map[uint32]string{1: one.addr}, tell)
	one.exchange(t, two)
	two.mu.Lock()
	for c := range two.conns {
		c.Close()
	}
	two.mu.Unlock()
	eventually(t, "another connection", func() bool { return one.Stats()[2].Connections > 1 })
	if n := gone.Load(); n != 0 {
		t.Errorf("gone %d before it was", n)
	}
	for times := int64(1); times <= 2; times++ {
		one.exchange(t, two)
		if err := two.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "that it is gone", func() bool { return gone.Load() == 2*times })
		time.Sleep(4 * quickTiming().backoffMax)
		if n := gone.Load(); n != 2*times {
			t.Errorf("told %d times that member 2 is gone, not %d", n/2, times)
		}
		two = launch(t, 2, listen(t, addr), map[uint32]string{1: one.addr}, tell)
	}
}
