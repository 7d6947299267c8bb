package transport

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Transport sends frames to the other members and receives theirs.
type Transport struct {
	o        Options
	timing   timing
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	logs     *gate
	peers    atomic.Pointer[map[uint32]*peer] // never changed: another one takes its place
	halfOpen opening
	calls    atomic.Int64 // being answered

	mu      sync.Mutex
	closed  bool
	conns   map[net.Conn]struct{} // everything Close must close
	streams map[uint32]*stream
}

// PeerStats are the counters of one peer since New.
type PeerStats struct {
	Connected      bool   // we can send to it
	Incoming       bool   // it can send to us
	Connections    uint64 // outgoing connections made
	QueuedBytes    int    // waiting or being written, bookkeeping included
	Dropped        uint64 // frames not sent: queue full, too long, lost with a connection, Fault
	SentFrames     uint64
	SentBytes      uint64 // with frame headers, without pings
	ReceivedFrames uint64
	ReceivedBytes  uint64
}

// New starts listening and dialing. It takes ownership of o.Listener, which is closed also
// when New fails.
func New(o Options) (*Transport, error) { return start(o, productionTiming()) }

func start(o Options, tm timing) (*Transport, error) {
	if err := o.validate(); err != nil {
		if o.Listener != nil {
			o.Listener.Close()
		}
		return nil, err
	}
	t := &Transport{
		o: o, timing: tm, logs: newGate(o.Logger),
		conns: map[net.Conn]struct{}{}, streams: map[uint32]*stream{},
	}
	t.peers.Store(&map[uint32]*peer{})
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.SetPeers(o.Peers) // before anybody can be refused as unknown
	t.wg.Add(1)
	go t.accept()
	return t, nil
}

// Send queues frame for member to and owns it from then on, also when it returns false: the
// member is not known or not connected, the frame is empty or too long, the queue is full, or
// the Transport is closed. True does not mean that the frame arrives.
func (t *Transport) Send(to uint32, frame []byte) bool {
	p := t.peer(to)
	if p == nil {
		return false
	}
	if len(frame) == 0 || len(frame) > t.o.FrameBytesMax {
		p.dropped.Add(1)
		t.logs.warn(fmt.Sprintf("send %d", to), peerLogEvery, "dropped a frame of impossible length",
			"member", to, "bytes", len(frame), "limit", t.o.FrameBytesMax)
		return false
	}
	var delay time.Duration
	if t.o.Fault != nil {
		var drop bool
		if delay, drop = t.o.Fault(to, frame); drop {
			p.dropped.Add(1)
			return true // as on a network, the sender does not notice
		}
	}
	if !p.connected.Load() || !p.queue.put(frame, delay) {
		p.dropped.Add(1)
		return false
	}
	return true
}

// Stats returns the counters of every peer.
func (t *Transport) Stats() map[uint32]PeerStats {
	peers := *t.peers.Load()
	out := make(map[uint32]PeerStats, len(peers))
	for id, p := range peers {
		out[id] = PeerStats{
			Connected: p.connected.Load(), Incoming: p.incoming.Load(), Connections: p.connections.Load(),
			QueuedBytes: p.queue.queued(), Dropped: p.dropped.Load(),
			SentFrames: p.sentFrames.Load(), SentBytes: p.sentBytes.Load(),
			ReceivedFrames: p.receivedFrames.Load(), ReceivedBytes: p.receivedBytes.Load(),
		}
	}
	return out
}

// Close ends all connections and goroutines; it waits for running Handler calls. Frames that are
// still queued are lost.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return net.ErrClosed
	}
	t.closed = true
	t.cancel()
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	err := t.o.Listener.Close()
	for _, p := range *t.peers.Load() {
		p.queue.close()
	}
	t.wg.Wait()
	return err
}

// track remembers a connection for Close; false means that Close was there first.
func (t *Transport) track(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.conns[c] = struct{}{}
	return true
}

// untrack closes and forgets a connection.
func (t *Transport) untrack(c net.Conn) {
	c.Close()
	t.mu.Lock()
	delete(t.conns, c)
	t.mu.Unlock()
}

// tune sets what member streams want: no delay, and probes against machines that vanish.
func tune(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	// Failure here means that the connection is gone already; the next read says so.
	_ = tcp.SetNoDelay(true)
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second,
		Count: 5})
}
