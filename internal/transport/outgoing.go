package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

// copyBytesMax is the longest frame that is copied together with others; a longer one is written
// from where it is.
const copyBytesMax = 16 << 10

// peer is the sending half towards one member, and the counters of both halves.
type peer struct {
	t       *Transport
	id      uint32
	address string
	queue   *queue
	again   chan struct{} // capacity 1: dial without waiting, see hurry
	leave   context.CancelFunc

	mu      sync.Mutex
	conn    net.Conn // see hold
	renewed bool

	unknown        atomic.Bool // it has refused this member, by the last connection, as one it does not know
	connected      atomic.Bool
	incoming       atomic.Bool
	connections    atomic.Uint64
	dropped        atomic.Uint64
	sentFrames     atomic.Uint64
	sentBytes      atomic.Uint64
	receivedFrames atomic.Uint64
	receivedBytes  atomic.Uint64

	turn secretTurn
}

// run keeps one connection to the peer until ctx ends.
func (p *peer) run(ctx context.Context) {
	backoff, known := p.t.timing.backoffMin, uint64(0)
	way := patience{least: p.t.timing.stall / 2, most: p.t.timing.handshake}
	for {
		began := time.Now()
		err := p.connection(ctx, &way)
		if ctx.Err() != nil {
			return
		}
		p.unknown.Store(errors.Is(err, refusedMember))
		if errors.Is(err, refusedSecret) && p.turn.next(len(p.t.o.Credentials().Secrets)) ||
			errors.Is(err, errRenewed) {
			continue
		}
		if time.Since(began) > min(p.t.timing.backoffMax, p.t.timing.stall) {
			backoff = p.t.timing.backoffMin // it was not refused at once
		}
		if n := p.connections.Load(); n > known && errors.Is(err, syscall.ECONNREFUSED) {
			known = n
			if p.t.o.Gone != nil {
				p.t.o.Gone(p.id)
			}
		}
		p.t.logs.warn(p.logKey()+refusedWhy(err), outgoingLogEvery, "no connection to member",
			"member", p.id, "address", p.address, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-p.again:
			backoff = p.t.timing.backoffMin
			continue
		case <-time.After(backoff/2 + rand.N(backoff)):
		}
		backoff = min(2*backoff, p.t.timing.backoffMax)
	}
}

// connection makes one connection, sends on it until it breaks and says why.
func (p *peer) connection(ctx context.Context, way *patience) (err error) {
	conn, err := p.dial(ctx, way)
	if err != nil {
		way.failed(err)
		return err
	}
	if !p.t.track(conn) {
		return errors.Join(net.ErrClosed, conn.Close())
	}
	defer p.t.untrack(conn)
	p.hold(conn)
	defer func() {
		if p.release() {
			err = errRenewed
		}
	}()
	tune(conn)
	if err := conn.SetDeadline(time.Now().Add(way.handshake())); err != nil {
		return err
	}
	stream, err := p.greet(ctx, conn)
	if err != nil {
		way.failed(err)
		return err
	}
	p.turn.refused = 0
	if err := p.t.exchangeAsDialer(stream, p.id); err != nil {
		way.failed(err)
		return err
	}
	known, _ := progressOf(conn)
	way.arrived(known.rtt)
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	p.connections.Add(1)
	p.connected.Store(true)
	defer func() {
		p.connected.Store(false)
		p.dropped.Add(p.queue.empty()) // T6
	}()
	p.t.logs.forget(p.logKey())
	p.t.o.Logger.Info("connected to member", "member", p.id, "address", p.address)
	if p.t.o.Connected != nil {
		p.t.o.Connected(p.id)
	}
	return p.keep(ctx, conn, stream)
}

// logKey begins the keys of what is logged while there is no connection.
func (p *peer) logKey() string { return fmt.Sprintf("outgoing %d ", p.id) }

// greet runs TLS, if configured, and the handshake on conn, and returns what frames are sent on.
func (p *peer) greet(ctx context.Context, conn net.Conn) (net.Conn, error) {
	c := p.t.o.Credentials()
	return c.greet(ctx, conn, hello{from: p.t.o.Self, to: p.id, cluster: p.t.o.Cluster}, p.turn.of(c.Secrets),
		p.t.o.PeerName)
}

// greet runs TLS, if there is any, and the dialer's handshake with one of the secrets.
func (c Credentials) greet(ctx context.Context, conn net.Conn, h hello, secret []byte, name func(uint32) string) (
	net.Conn, error) {
	stream, ch, err := c.dial(ctx, conn, h.to, name)
	if err != nil {
		return nil, err
	}
	err = dialHandshake(stream, h, ch.bind(secret))
	var r refusal
	if errors.As(err, &r) {
		err = fmt.Errorf("it refuses this member: %w", err)
	}
	return stream, err
}

// dial connects to the peer.
func (p *peer) dial(ctx context.Context, way *patience) (net.Conn, error) {
	return connect(ctx, p.address, way.most, way.dial())
}

// connect connects to one of the addresses that a name stands for. That the name is slow to be found is no sign of the
// way, so it has time of its own.
func connect(ctx context.Context, address string, lookup, dial time.Duration) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	found, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(found, host)
	if err != nil {
		return nil, err
	}
	d, errs := net.Dialer{Timeout: dial}, make([]error, 0, 1)
	for _, a := range addresses {
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(a, port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// keep sends on stream, which is conn or TLS on it, until it breaks and says why. The peer's pings are the proof that
// it lives (T4), and what its kernel acknowledges that the way to it is there (T7); without them the write is woken by
// the closed connection.
func (p *peer) keep(ctx context.Context, conn, stream net.Conn) error {
	dead, over, watched := make(chan error, 1), make(chan struct{}), make(chan error, 1)
	wrote := make(chan struct{}, 1)
	go func() {
		cause := watch(conn, p.t.timing.stall, wrote, over)
		if cause != nil {
			conn.Close()
		}
		watched <- cause
	}()
	go func() {
		cause := p.listen(stream)
		conn.Close()
		dead <- cause
	}()
	err := p.write(ctx, stream, wrote, dead)
	conn.Close()
	close(over)
	if cause := <-dead; err == nil || errors.Is(err, net.ErrClosed) {
		err = cause
	}
	if cause := <-watched; cause != nil {
		err = cause
	}
	return err
}

// listen reads pings until there are none for too long.
func (p *peer) listen(conn net.Conn) error {
	r := bufio.NewReaderSize(patient{conn, p.t.timing.silence}, 64)
	for {
		b, err := readFrame(r, 0)
		if err != nil {
			return fmt.Errorf("waiting for a sign of life: %w", err)
		}
		if len(b) > 0 {
			return errGarbage
		}
	}
}

// write sends what is queued, and pings when nothing is, and tells wrote. It returns nil when dead delivered (the
// caller reads it again) and an error when a write failed; the frames of that write are lost.
func (p *peer) write(ctx context.Context, conn net.Conn, wrote chan<- struct{}, dead chan error) error {
	var w batchWriter
	ping, written := time.NewTimer(process.ToBeat(p.t.timing.ping)), false
	defer ping.Stop()
	for {
		batch, bytes, wait := p.queue.take()
		if len(batch) > 0 {
			n, err := w.write(conn, batch)
			count := uint64(len(batch))
			p.queue.done(batch, bytes)
			if err != nil {
				p.dropped.Add(count)
				return err
			}
			p.sentFrames.Add(count)
			p.sentBytes.Add(uint64(n))
			written = true
			tell(wrote)
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-p.queue.wake:
		case <-due:
		case <-ping.C:
			ping.Reset(process.ToBeat(p.t.timing.ping))
			if written {
				written = false // that shows that this member lives as well
				continue
			}
			if _, err := conn.Write(appendFrameHeader(nil, nil)); err != nil {
				return err
			}
			tell(wrote)
		case err := <-dead:
			dead <- err
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell says it, if that has not been said.
func tell(wrote chan<- struct{}) {
	select {
	case wrote <- struct{}{}:
	default:
	}
}

// batchWriter turns a batch into few large writes, with writev where the system has it.
type batchWriter struct{ small []byte }

func (w *batchWriter) write(conn io.Writer, batch []item) (int64, error) {
	var bufs net.Buffers
	small, from := w.small[:0], 0
	for _, it := range batch {
		small = appendFrameHeader(small, it.frame)
		if len(it.frame) <= copyBytesMax {
			small = append(small, it.frame...)
			continue
		}
		bufs = append(bufs, small[from:], it.frame)
		from = len(small)
	}
	if from < len(small) {
		bufs = append(bufs, small[from:])
	}
	w.small = small
	return bufs.WriteTo(conn)
}
