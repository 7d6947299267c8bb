package node

import (
	"context"
	"fmt"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/session"
)

// inside is what a host has of procedures that commit.
type inside struct {
	spoken bool // something was said
	wait   int  // the number of what the backend will wait for, by a lock that the keeper holds; zero if there is none
}

// Attend makes the first transaction wait for what will be said to it.
func (h *host) Attend() error { return h.speak("", 1) }

// Say has the backend's transaction, which a procedure is about to commit, carry a command out.
func (h *host) Say(conversation string, n int, command string) error {
	next := n + 1
	if command == capture.InsideGo || command == capture.InsideFail {
		next = 1 // of another transaction
	}
	return h.speak(capture.SaySQL(h.g.pid, conversation, n, command), next)
}

// speak says something and makes the backend wait for the next thing, before it wakes it up.
func (h *host) speak(sql string, next int) error {
	if h.inside.wait > 0 && capture.SameInsideWait(h.inside.wait, next) {
		sql += h.wakeInside() // who waits gets the lock at once, and then it is not taken again
	}
	sql += capture.InsideWaitSQL(h.g.pid, next) + h.wakeInside()
	r, err := h.n.keeper.exec(context.Background(), sql)
	if err != nil {
		return err
	}
	h.inside = inside{spoken: true}
	for i := range r {
		if rows := r[i].Rows; len(rows) == 1 && string(r[i].FieldDescriptions[0].Name) == "native_try" && string(rows[0][0]) == "t" {
			h.inside.wait = next
		}
	}
	return nil
}

// wakeInside ends the wait that was begun, if there is one.
func (h *host) wakeInside() string {
	if h.inside.wait == 0 {
		return ""
	}
	sql := capture.InsideWakeSQL(h.g.pid, h.inside.wait)
	h.inside.wait = 0
	return sql
}

// Texts gives a Reread's parameter as text, and its type.
func (h *host) Texts(r session.Reread) (array, typ string, err error) {
	sql, oid, format, value := r.Array()
	row, err := h.n.keeper.row(context.Background(), sql, oid, format, value)
	if err != nil {
		return "", "", err
	}
	return string(row[0]), string(row[1]), nil
}

// GoesOn has it commit, and tells the executor how that ended. Its next transaction has seen all that was applied before, if
// its group was one of its own; a definition that is being carried out beside the order is not counted.
func (h *host) GoesOn(conversation string, n int, xid string, seq uint64) (base uint64, err error) {
	seen := h.n.longs.seen()
	base = h.n.core.applied.Load()
	if w := h.n.waiters.get(seq); w != nil && !w.early {
		base = w.ordinal
	}
	if err := h.Say(conversation, n, capture.InsideGo); err != nil {
		return 0, err
	}
	ok, err := h.endedInside(xid, seq)
	if err != nil {
		return 0, err
	}
	h.Committed(seq, ok)
	h.n.gate.await(func() bool { return h.n.core.applied.Load() >= base || h.n.ending() }) // the engine knows it, too
	h.seen, h.after = seen, 0
	h.g.cancelLate()
	return base, nil
}

// endedLooks is how often the end of a transaction is looked for at once: a look takes a part of the time of a COMMIT.
const endedLooks = 10

// Cancel cancels what the backend executes.
func (h *host) Cancel() { h.g.cancelRunning() }

// endedInside waits until the backend's transaction has ended, and says whether it has committed.
func (h *host) endedInside(xid string, seq uint64) (committed bool, err error) {
	sql := capture.EndedSQL(h.g.pid, h.g.slot, h.n.incarnation, seq, xid)
	for looks, last := 0, false; ; looks++ {
		r, err := h.n.keeper.exec(context.Background(), sql)
		if err != nil {
			return false, err
		}
		committed, runs := string(r[0].Rows[0][0]) == "t", string(r[0].Rows[0][1]) == "t"
		if committed || last {
			return committed, nil
		}
		if last = !runs; last || looks < endedLooks {
			continue
		}
		select {
		case <-time.After(time.Millisecond):
		case <-h.n.done:
			return false, fmt.Errorf("node: this life ended while a procedure's transaction committed")
		}
	}
}

// leaveInside takes back what the session has said to its backend.
func (h *host) leaveInside() {
	if !h.inside.spoken {
		return
	}
	if _, err := h.n.keeper.exec(context.Background(), capture.HushSQL(h.g.pid)+h.wakeInside()); err != nil && !h.n.ending() {
		h.n.log.Warn("what was said to a backend cannot be taken back", "pid", h.g.pid, "error", err)
	}
}
