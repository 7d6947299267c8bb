package transport

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

// stream is an authenticated incoming connection. finished is closed when its goroutine will
// not call Handler any more.
type stream struct {
	conn     net.Conn
	finished chan struct{}
}

// accept takes connections until the listener is closed.
func (t *Transport) accept() {
	defer t.wg.Done()
	for {
		conn, err := t.o.Listener.Accept()
		if errors.Is(err, net.ErrClosed) || t.ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil {
			// Out of file descriptors or the like: it passes, or the operator sees it.
			t.logs.warn("accept", unknownLogEvery, "cannot accept member connections", "error", err)
			select {
			case <-t.ctx.Done():
			case <-time.After(t.timing.backoffMin):
			}
			continue
		}
		if !t.track(conn) {
			conn.Close()
			return
		}
		if most, ok := t.halfOpen.take(addressOf(conn)); !ok {
			t.logs.warn("half-open", unknownLogEvery, "too many unauthenticated connections, closing the newest",
				"remote", conn.RemoteAddr(), "limit", most)
			t.untrack(conn)
			continue
		}
		t.wg.Add(1)
		go t.serve(conn)
	}
}

// serve authenticates one incoming connection and reads its frames until it ends, or answers a call.
func (t *Transport) serve(conn net.Conn) {
	defer t.wg.Done()
	defer t.untrack(conn)
	secured, first, asked, err := t.authenticate(conn)
	t.halfOpen.give(addressOf(conn))
	if t.ctx.Err() != nil {
		return
	}
	if err != nil {
		t.logs.warn("refused "+refusedWhy(err), unknownLogEvery, "refused a connection", "remote", conn.RemoteAddr(),
			"error", err)
		return
	}
	from := first.from
	if first.call {
		t.answer(secured, from, asked)
		return
	}
	p := t.peer(from)
	if p == nil {
		return // it was taken from the list meanwhile
	}
	s := &stream{conn: conn, finished: make(chan struct{})}
	stop := make(chan struct{})
	pinged := make(chan struct{})
	go func() {
		defer close(pinged)
		t.ping(secured, stop)
	}()
	older, ok := t.replace(p, s)
	if !ok {
		conn.Close()
		close(stop)
		<-pinged
		return
	}
	if older != nil {
		older.conn.Close()
		<-older.finished // T2: its handler call may still be running
	}
	p.incoming.Store(true)
	p.hurry() // it is there
	err = t.receive(p, secured)
	conn.Close()
	t.retire(from, s)
	close(s.finished)
	close(stop)
	<-pinged
	if t.ctx.Err() == nil {
		t.logs.warn(fmt.Sprintf("incoming %d", from), peerLogEvery, "connection from member ended", "member", from,
			"error", err)
	}
}

// refusedWhy keeps log lines of different reasons apart, without letting strangers make up kinds. It is empty for what
// is no refusal.
func refusedWhy(err error) string {
	var r refusal
	switch {
	case errors.As(err, &r):
		return r.Error()
	case errors.Is(err, errTLS):
		return "TLS"
	}
	var facts *Refused
	if errors.As(err, &facts) {
		return fmt.Sprint("facts of ", facts.Member)
	}
	return ""
}

// authenticate runs TLS, if configured, and both parts of the handshake, of which a call has the first only. It gives
// the dialer's first message, and what a call asks for.
func (t *Transport) authenticate(conn net.Conn) (secured net.Conn, first hello, asked string, err error) {
	tune(conn)
	if err := conn.SetDeadline(time.Now().Add(t.timing.handshake)); err != nil {
		return nil, hello{}, "", err
	}
	c := t.o.Credentials()
	secured, ch, err := c.accept(t.ctx, conn)
	if err != nil {
		return nil, hello{}, "", err
	}
	secrets := make([][]byte, 0, len(c.Secrets))
	for _, s := range c.Secrets {
		secrets = append(secrets, ch.bind(s))
	}
	first, err = acceptHandshake(secured, secrets, func(h hello) error {
		if r := t.permit(h); r != accepted {
			return r
		}
		return c.judge(ch.chain, h.from, t.o.PeerName)
	})
	if err != nil {
		return nil, hello{}, "", err
	}
	if first.call {
		var text []byte
		text, err = readText(secured, askedBytesMax)
		asked = string(text)
	} else {
		err = t.exchangeAsAcceptor(secured, first.from)
	}
	if err != nil {
		return nil, hello{}, "", err
	}
	return secured, first, asked, conn.SetDeadline(time.Time{})
}

// permit judges a dialer's claim.
func (t *Transport) permit(h hello) refusal {
	if h.cluster != t.o.Cluster {
		return refusedCluster
	}
	if t.peer(h.from) == nil || h.to != t.o.Self {
		return refusedMember
	}
	return accepted
}

// receive hands frames to Handler until the connection ends, and says why.
func (t *Transport) receive(p *peer, conn net.Conn) error {
	r := bufio.NewReaderSize(patient{conn, t.timing.silence}, 64<<10)
	for {
		frame, err := readFrame(r, t.o.FrameBytesMax)
		if err != nil {
			return err
		}
		if len(frame) == 0 {
			continue
		}
		p.receivedFrames.Add(1)
		p.receivedBytes.Add(uint64(len(frame) + frameHeaderBytes))
		t.o.Handler(p.id, frame)
	}
}

// ping shows the dialer that this member lives, also while Handler is slow.
func (t *Transport) ping(conn net.Conn, stop chan struct{}) {
	tick := time.NewTimer(process.ToBeat(t.timing.ping))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			tick.Reset(process.ToBeat(t.timing.ping))
			if _, err := conn.Write(appendFrameHeader(nil, nil)); err != nil {
				return // receive sees the same end
			}
		}
	}
}

// replace makes s a member's incoming stream and returns the one before; false if it was taken from the list meanwhile.
func (t *Transport) replace(p *peer, s *stream) (older *stream, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.peer(p.id) != p {
		return nil, false
	}
	older = t.streams[p.id]
	t.streams[p.id] = s
	return older, true
}

// retire forgets s unless a newer stream has taken its place.
func (t *Transport) retire(from uint32, s *stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams[from] == s {
		delete(t.streams, from)
		if p := t.peer(from); p != nil {
			p.incoming.Store(false)
		}
	}
}

// patient is a connection whose every Read must bring something in time.
type patient struct {
	net.Conn
	silence time.Duration
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.silence)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}
