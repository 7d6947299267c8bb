package node

import (
	"context"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/notices"
	"github.com/tuttidb/tutti/internal/wire"
)

// listenSet is to what one session listens; it is session.Channels.
type listenSet struct {
	l     *life
	names []string
}

// MayListen refuses channels that would be too many for this member.
func (x *listenSet) MayListen(channels []string) *wire.SQLError {
	e := x.l.notices.MayListen(channels, x.l.settled().Limits.Channels)
	if e != nil {
		x.l.metrics.Limits.Channels.Add(1)
	}
	return e
}

// Listen makes the cluster know to what the session listens.
func (x *listenSet) Listen(names []string) *wire.SQLError {
	before := x.names
	x.names = names
	return x.l.notices.Await(before, names)
}

// leave ends all of it with the session.
func (x *listenSet) leave() { x.l.notices.Replace(x.names, nil) }

// noticesOf is a replica as its notifications need it.
func noticesOf(l *life) notices.Options {
	return notices.Options{
		Log: l.log, ConnString: l.db.connString, Conn: l.db.applier.Pgx,
		Ignored: []uint32{l.db.applier.Conn.PID(), l.db.applier.Definer.Conn.PID()},
		Waits:   &l.metrics.Waits,
		Self:    l.config.Member, Incarnation: l.id.incarnation, QueueBytesMax: l.config.Limits.NotifyQueue,
		Order: func(ctx context.Context, kind engine.Kind, payload []byte) bool {
			return l.order.core.Order(ctx, engine.Submission{Kind: kind, Seq: l.order.seq.Add(1), Payload: payload})
		},
		Opened: l.course.opened, Ending: l.course.ending, Lacking: l.others.peers.Lacking,
		Lagging: l.others.peers.Lagging,
	}
}
