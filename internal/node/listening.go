package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/notices"
	"github.com/tuttidb/tutti/internal/wire"
)

// listen carries out a listen item.
func (l *life) listen(ctx context.Context, g *engine.Group) error {
	t := g.Tasks[0] // the engine clears the group when it is settled
	carried, err := l.notices.Listen(ctx, t)
	if err != nil {
		return err
	}
	if err := l.groupSettled(); err != nil {
		return err
	}
	if t.Item.ID.Member != l.config.Member {
		return l.sendStatus(t.Item.ID.Member)
	}
	carried()
	return nil
}

// lacking names the members that are alive and have not carried out the order up to an ordinal. Soon
// after the start nobody is taken for dead. One that is halted has no sessions that could notify.
func (l *life) lacking(ordinal uint64) (names []string) {
	fresh := time.Since(l.began) < silentAfter
	for _, m := range l.config.Members {
		if m.Member == l.config.Member {
			continue
		}
		if s, alive := l.peers.get(m.Member); (alive || fresh) && s.Applied < ordinal && s.Halted == nil {
			names = append(names, m.Name)
		}
	}
	return names
}

// MayListen refuses a channel that would be one too many for this member.
func (h *host) MayListen(channel string) *wire.SQLError {
	e := h.n.notices.MayListen(channel, h.n.settled().Limits.Channels)
	if e != nil {
		h.n.metrics.Limits.Channels.Add(1)
	}
	return e
}

// Listen makes the cluster know to what the session listens.
func (h *host) Listen(names []string) *wire.SQLError {
	before := h.channels
	h.channels = names
	return h.n.notices.Await(before, names)
}

// noticesOf is a replica as its notifications need it.
func noticesOf(l *life) notices.Options {
	return notices.Options{
		Log: l.log, ConnString: l.connString, Conn: l.applier.Pgx,
		Ignored: []uint32{l.applier.Conn.PID(), l.applier.Definer.Conn.PID()},
		Waits:   &l.metrics.Waits,
		Self:    l.config.Member, Incarnation: l.incarnation, QueueBytesMax: l.config.Limits.NotifyQueue,
		Order: func(ctx context.Context, kind engine.Kind, payload []byte) bool {
			return l.order(ctx, engine.Submission{Kind: kind, Seq: l.seq.Add(1), Payload: payload})
		},
		Opened: l.opened, Ending: l.ending, Lacking: l.lacking,
	}
}
