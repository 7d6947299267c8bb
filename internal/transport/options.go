package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

const (
	frameBytesMaxDefault = 64 << 20
	queueBytesMaxDefault = 64 << 20
	callsMax             = 8 // that are answered at once
)

// Options configure a Transport.
type Options struct {
	// Self is this member's id.
	Self uint32
	// Cluster is the cluster's id, 1 to 255 bytes, the same on all members.
	Cluster string
	// Listener accepts the other members' connections. The Transport owns and closes it.
	Listener net.Listener
	// Peers maps every other member to its host:port.
	Peers map[uint32]string
	// Credentials is asked at every connection, so that what it gives can be renewed; connections that exist stay. It
	// must be quick, and is called from several goroutines. Whether it gives TLS does not change.
	Credentials func() Credentials
	// PeerName is the name in a member's certificate. Required with TLS.
	PeerName func(member uint32) string
	// FrameBytesMax bounds a frame. Zero means 64 MiB. A longer one is not sent, and when received
	// ends the connection.
	FrameBytesMax int
	// QueueBytesMax bounds the frames waiting for one peer. Zero means 64 MiB. When it is full, new
	// frames are dropped and counted.
	QueueBytesMax int
	// Facts, if set, gives what this member says of itself at each handshake, to members that have proved themselves.
	Facts func() []byte
	// Judge, if set, is told what another member says of itself before any frame of the connection is sent or taken.
	// With an error there is no connection, and the other member is told why. It is called from several goroutines, and
	// must not call Close or Renew.
	Judge func(member uint32, facts []byte) error
	// Handler gets every received frame and owns it. It is called from one goroutine per
	// member, in order; while it runs nothing more is read from that member. It must not call
	// Close.
	Handler func(from uint32, frame []byte)
	// Gone, if set, is told when a member to which there was a connection refuses another: its machine answers, and
	// nobody listens there. It is called once for each connection lost so, from one goroutine per member, and must not
	// call Close.
	Gone func(member uint32)
	// Connected, if set, is told of each new connection to a member: frames for the one before may be lost. It is
	// called from one goroutine per member, and must not call Close.
	Connected func(member uint32)
	// Called, if set, judges a call of another member by what it asks for, and gives what answers it, or why it is not
	// answered. What answers has the connection until it returns, and must return when ctx ends. Several calls run at
	// once. Nil answers none.
	Called func(from uint32, asked string) (answer func(ctx context.Context, conn net.Conn), err error)
	// Fault, nil in production, decides for every frame how long it is held back (later frames
	// wait behind it) and whether it is lost. It is called inside Send.
	Fault func(to uint32, frame []byte) (delay time.Duration, drop bool)
	// Logger gets connections made, lost and refused. Nil means no logs.
	Logger *slog.Logger
}

// timing is fixed in production; tests shorten it.
type timing struct {
	ping       time.Duration // between signs of life
	silence    time.Duration // after which a connection is dead
	stall      time.Duration // for how long the other kernel may acknowledge nothing of what was sent (T7)
	handshake  time.Duration // for dialing and for the handshake, each
	backoffMin time.Duration
	backoffMax time.Duration
}

func productionTiming() timing {
	return timing{
		ping: time.Second, silence: 5 * time.Second, stall: 300 * time.Millisecond, handshake: 5 * time.Second,
		backoffMin: 20 * time.Millisecond, backoffMax: time.Second,
	}
}

func (o *Options) validate() error {
	if o.FrameBytesMax == 0 {
		o.FrameBytesMax = frameBytesMaxDefault
	}
	if o.QueueBytesMax == 0 {
		o.QueueBytesMax = max(queueBytesMaxDefault, o.FrameBytesMax)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("transport: "+format, args...))
		}
	}
	complain(o.Listener == nil, "Options.Listener is nil: listen first")
	complain(o.Handler == nil, "Options.Handler is nil: somebody must take the frames")
	complain(len(o.Cluster) == 0 || len(o.Cluster) > clusterBytesMax, "Options.Cluster has %d bytes: use 1 to %d",
		len(o.Cluster), clusterBytesMax)
	complain(o.Credentials == nil, "Options.Credentials is nil: members could not prove who they are")
	if o.Credentials != nil {
		c := o.Credentials()
		complain(len(c.Secrets) == 0, "Options.Credentials gives no secret: members could not prove who they are")
		complain(c.TLS != nil && o.PeerName == nil, "Options.PeerName is nil: with TLS members have names")
	}
	complain(o.FrameBytesMax < 0 || int64(o.FrameBytesMax) > 1<<31, "Options.FrameBytesMax is %d: use 1 to 2^31",
		o.FrameBytesMax)
	complain(o.QueueBytesMax < o.FrameBytesMax, "Options.QueueBytesMax is %d, below FrameBytesMax %d: the longest "+
		"frame would not fit", o.QueueBytesMax, o.FrameBytesMax)
	_, self := o.Peers[o.Self]
	complain(self, "Options.Peers contains this member, %d: leave it out", o.Self)
	return errors.Join(errs...)
}
