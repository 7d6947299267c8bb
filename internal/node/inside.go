package node

import (
	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/speakers"
)

// talk is session.Procedures of a host.
type talk struct {
	*speakers.Talk
	h *host
}

// speakersOf is what a session's conversations need.
func speakersOf(h *host) speakers.Options {
	return speakers.Options{
		Pool: h.n.db.speakers, Backend: h.g.PID(), Context: h.n.course.context, Done: h.n.course.done,
		Ends: func() error { return outcome.Ending() },
		Connect: func() (speakers.Conn, error) {
			settings := apply.SessionSettings()
			settings["idle_session_timeout"] = "0"
			conn, err := link.Connect(h.n.course.context, h.n.db.applier.ConnString, "tutti speaker", settings)
			return speakers.Connection{PgConn: conn}, err
		},
	}
}

// GoesOn has it commit, and tells the executor how that ended, whatever it is: the log has decided, and the executor
// waits.
func (t talk) GoesOn(n int, seq uint64) error {
	h := t.h
	h.seen = h.n.db.jobs.Seen()
	committed, err := t.LetCommit(n, h.g.Slot(), h.n.id.incarnation, seq)
	h.Committed(seq, committed)
	if err != nil {
		return err
	}
	if committed && h.advisory != nil {
		h.advisory.GiveBack() // what the transaction had locked
	}
	h.g.CancelLate()
	return nil
}

// Follows lets the procedure's next transaction go on, once all is applied that was visible together with the last one,
// or it is in the way of that.
func (t talk) Follows() (base uint64) {
	h := t.h
	after := h.after
	awaits(h.n, flow.WaitInside, func() bool {
		return h.n.order.core.Applied() >= after || h.n.course.ending() || h.g.Lost() != nil
	})
	h.after = 0
	return h.n.order.core.Applied()
}
