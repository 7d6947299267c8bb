package node

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/trial"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// outgoing is what of a submission goes into the log, or why it cannot be ordered.
func outgoing(h *host, sub *session.Submission) (payload []byte, refused session.Decision) {
	if w := sub.Writeset; len(w.Steps) > 0 {
		w.NewestNames = h.n.tenure.standing.Understand(bootstrap.NewestNames)
	}
	if e := tooLarge(h, sub.Writeset); e != nil {
		return nil, session.Decision{Err: e}
	}
	payload, doubts := replay.Outgoing(h.n.db.tables.Load(), sub.Writeset, h.n.node.files.Room)
	return payload, unorderable(h, sub, payload, doubts)
}

// unorderable is why a submission cannot be ordered; its Err is nil if it can.
func unorderable(h *host, sub *session.Submission, payload []byte, doubts []catalog.Doubt) session.Decision {
	if d := missed(h, sub, math.MaxUint64); d.Err != nil {
		return d
	}
	t := tried{h, h.seen}
	o := trial.Options{Try: h.n.trials.dryRuns.Try, Lost: h.n.words.Lost}
	tables := described{h.n.db.tables.Load(), h.n.trials.receiver}
	if e := trial.Refused(o, &t, tables, sub, payload, doubts); e != nil {
		return session.Decision{Retry: e.Code == wire.CodeSerializationFailure, Err: e}
	}
	return missed(h, sub, t.behind)
}

// tooLarge refuses a writeset that is larger than it may be; nil if it is not.
func tooLarge(h *host, ws *writeset.Writeset) *wire.SQLError {
	size, most := ws.Size(), h.n.config.Limits.WritesetBytes
	if size > session.RowByRowMax && !inPieces(ws) {
		most = min(most, session.RowByRowMax)
	}
	if size <= most {
		return nil
	}
	h.n.metrics.Limits.Writeset.Add(1)
	return outcome.TooLarge(size, most)
}

// inPieces reports whether members can carry out a writeset some rows at a time, so that it may be larger than what
// fits into memory several times: there are no definitions between its rows, no large objects, and each is found by
// a key, or inserted.
func inPieces(ws *writeset.Writeset) bool {
	return len(ws.Steps) == 0 && !slices.ContainsFunc(ws.Tables, func(t writeset.Table) bool {
		return t.Schema == capture.SchemaName
	}) && !slices.ContainsFunc(ws.Rows, func(r writeset.Row) bool {
		return r.Identity == 0 && r.Op != writeset.OpInsert && !r.All()
	})
}

// missed is why a submission has lost to a long definition, behind so many of which its own definitions come.
func missed(h *host, sub *session.Submission, behind uint64) session.Decision {
	g := h.n.db.jobs.Missed(h.seen, behind, sub.Writeset)
	if g == nil {
		return session.Decision{}
	}
	h.writes, h.lost, h.missed = true, true, g
	return session.Decision{Retry: true, Err: h.n.words.Missed(g.Task.Item.ID)}
}

// tried is a session as package trial needs it. Behind are so many long definitions that had ended when it took its
// turn.
type tried struct {
	*host
	behind uint64
}

func (x *tried) Alone(sub *session.Submission, most time.Duration) *wire.SQLError {
	failure := x.grants.Alone(sub, most)
	x.behind = x.n.db.jobs.Seen()
	return failure
}

func (x *tried) Decided() uint64 { return x.n.order.core.Ordinal() }

// Defined asks whether a definition of nothing that has seen so much would lose.
func (x *tried) Defined(since uint64) (yes bool) {
	ws, err := capture.Extent([]byte("[]"), false, false)
	x.n.order.core.Call(func(e *engine.Engine) {
		yes = err != nil || !e.Loses(engine.Submission{Kind: engine.KindCertified, Snapshot: true, Base: since,
			Writeset: ws}).Commit()
	})
	return yes
}

func (x *tried) Loses(sub *session.Submission, ordinal uint64) certify.Verdict {
	return x.loses(sub, ordinal)
}

func (x *tried) Behind(ordinal uint64) { x.after, x.writes, x.lost = ordinal, true, true }

// described are the tables as they are now, whose values the receiver tries.
type described struct {
	*catalog.Tables
	receiver *replay.Receiver
}

func (x described) Refused(doubts, wide []catalog.Doubt) *wire.SQLError {
	return x.receiver.Refused(x.Tables, doubts, wide)
}

// loses is the verdict of all that is decided up to an ordinal on a transaction that is not submitted.
func (h *host) loses(sub *session.Submission, ordinal uint64) (v certify.Verdict) {
	ctx, cancel := context.WithTimeout(context.Background(), replay.TryTimeout)
	defer cancel()
	for h.n.order.core.Ordinal() < ordinal && !h.n.course.ending() && process.Sleep(ctx, time.Millisecond) {
	}
	h.n.order.core.Call(func(e *engine.Engine) { v = e.Loses(h.submission(sub, nil)) })
	return v
}

// rehearser is a member to ask whether a transaction can be carried out there, always the same while it is fit: what
// stands in the way at another one, as temporary objects of its sessions do, gives way there. Zero if none is fit.
func (l *life) rehearser() uint32 {
	if others := l.others.peers.Synced(); len(others) > 0 {
		return others[0]
	}
	return 0
}

// dryRunsOf is a replica as its dry runs need it.
func dryRunsOf(l *life) replay.DryRunOptions {
	return replay.DryRunOptions{
		Log: l.log, ConnString: l.db.connString, Config: l.config, Incarnation: l.id.incarnation,
		Waits:      &l.metrics.Waits,
		Peer:       l.rehearser,
		Ask:        func(to uint32, dryRun []byte) bool { return l.sendFrame(to, frameRehearse, dryRun) },
		Answer:     func(to uint32, outcome []byte) bool { return l.sendFrame(to, frameRehearsed, outcome) },
		Tables:     l.db.tables.Load,
		Applied:    func() uint64 { return l.order.core.Applied() },
		Decided:    func() uint64 { return l.order.core.Ordinal() },
		Free:       func() bool { return l.db.jobs.Under() == nil },
		Yield:      l.grants.Locks.Yield,
		Background: l.course.background.Go, Ending: l.course.ending, Done: l.course.done,
	}
}
