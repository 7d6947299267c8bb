package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A call is a connection of one member to another for something else than frames, as long as that takes: it begins with
// the first part of the handshake, under a name of its own. Then the caller says what it asks for, and is told why it
// does not get that, or nothing; then the connection is theirs. Pings do not flow, and nobody's place is taken by it.
// The kernel's probes end one whose other side has vanished.

// askedBytesMax bounds what a caller asks for.
const askedBytesMax = 256

// errNotTaken is in the chain of why a call is not answered by a member that has been reached.
var errNotTaken = errors.New("it does not take the call")

// Caller makes calls.
type Caller struct {
	Self    uint32
	Cluster string
	// Credentials and PeerName are as in Options.
	Credentials func() Credentials
	PeerName    func(member uint32) string
}

// Call reaches a member at host:port and asks for something, in askedBytesMax bytes. The connection is the caller's;
// ctx counts until it is there.
func (c Caller) Call(ctx context.Context, member uint32, address, asked string) (conn net.Conn, err error) {
	now := c.Credentials()
	for _, secret := range now.Secrets {
		conn, err = c.call(ctx, now, secret, hello{from: c.Self, to: member, cluster: c.Cluster, call: true}, address,
			asked)
		if !errors.Is(err, refusedSecret) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("call member %d at %s: %w", member, address, err)
	}
	return conn, nil
}

func (c Caller) call(ctx context.Context, now Credentials, secret []byte, h hello, address, asked string) (net.Conn,
	error) {
	most := productionTiming().handshake
	conn, err := connect(ctx, address, most, most)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	tune(conn)
	err = conn.SetDeadline(time.Now().Add(most))
	var stream net.Conn
	if err == nil {
		stream, err = now.greet(ctx, conn, h, secret, c.PeerName)
	}
	if err == nil {
		err = writeText(stream, []byte(asked))
	}
	var why []byte
	if err == nil {
		why, err = readText(stream, judgementBytesMax)
	}
	if err == nil && len(why) > 0 {
		err = fmt.Errorf("%w: %s", errNotTaken, why)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("it ends the connection without an answer; does it run an earlier release? %w", err)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return stream, nil
}

// answer answers a call of a member that has proved itself, and says what it asks for.
func (t *Transport) answer(conn net.Conn, from uint32, asked string) {
	defer t.calls.Add(-1)
	answer, err := t.called(from, asked)
	if err == nil {
		err = writeText(conn, nil)
	} else {
		err = errors.Join(err, writeText(conn, reason(err)))
	}
	if err != nil {
		t.logs.warn(fmt.Sprintf("call %d", from), peerLogEvery, "did not answer a call", "member", from,
			"asked", asked, "error", err)
		return
	}
	answer(t.ctx, conn)
}

// called judges a call, which counts from then on.
func (t *Transport) called(from uint32, asked string) (func(context.Context, net.Conn), error) {
	switch {
	case t.calls.Add(1) > callsMax:
		return nil, fmt.Errorf("it answers %d calls already", callsMax)
	case t.o.Called == nil:
		return nil, errors.New("it answers no calls")
	}
	return t.o.Called(from, asked)
}
