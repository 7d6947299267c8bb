package session

import (
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// Advisory locks hold in the whole cluster. The functions that take them, at the backend, ask for them by
// notices (capture.LockState); the host asks the others and answers the function itself, while the statement runs.
// What the session does is to pass that on, and to have compared what the backend holds with what the
// cluster thinks, once locks may have gone without a function's doing.

// advisory is what a session has of that. All of what changes is zero in one that takes no such lock.
type advisory struct {
	backend *backend
	host    Advisory
	txn     *txn.Machine

	used    bool // some function has asked
	asked   bool // one has since the last ReadyForQuery
	workers bool // one of a parallel worker's has, whose locks end with it
	xact    bool // one took a lock for the transaction
	stale   bool // the backend may hold less than the cluster thinks

	// taken counts what the attempt of a statement took for the session, less what it gave back: if it is to be
	// run again, it must find what it found.
	taken   map[string]int
	gaveAll bool
}

// takenMax is how many locks an attempt may take, and still be run again.
const takenMax = 10_000

// attempt begins counting.
func (a *advisory) attempt() { a.taken, a.gaveAll = nil, false }

// notice passes on what a function asks or tells.
func (a *advisory) notice(message string) {
	action, rest, _ := strings.Cut(message, " ")
	_, lock, _ := strings.Cut(rest, " ")
	if strings.Trim(rest, "0123456789 ") != "" {
		return // not by our functions
	}
	a.used, a.asked = true, true
	if action == "took" {
		a.count(lock, 1)
		return
	}
	if a.host.Lock(message) {
		a.workers = true // what it takes and gives back is nothing to the session's backend
		return
	}
	switch action {
	case "gave":
		a.count(lock, -1)
	case "gaveall":
		a.gaveAll = true
	case "xtake", "xtry":
		a.xact = true
	}
}

// count counts what an attempt has taken. A statement inside a block is not run again.
func (a *advisory) count(lock string, n int) {
	if !a.txn.Idle() {
		return
	}
	if a.taken == nil {
		a.taken = map[string]int{}
	}
	if a.taken[lock] += n; len(a.taken) > takenMax { // a client's function may say anything
		a.taken, a.gaveAll = nil, true
	}
}

// settle tells the host when locks may have gone without a function's doing: with their transaction,
// to a savepoint, by DISCARD ALL, or because the function failed.
func (a *advisory) settle() {
	over := a.txn.Idle() && !a.txn.Open()
	compare := a.stale || a.workers || a.xact && (over || a.txn.Failed())
	if compare || a.asked {
		a.host.SettleLocks(compare)
	}
	a.stale, a.asked, a.workers, a.xact = false, false, false, a.xact && !over
}

// giveBack undoes what an attempt of a statement did with locks of the session, so that it can be run
// again. False if that cannot be undone. The backend is outside of transactions.
func (a *advisory) giveBack() (bool, error) {
	if !a.used {
		return true, nil
	}
	defer a.attempt()
	if a.gaveAll {
		return false, nil
	}
	calls := make([]string, 0, len(a.taken))
	for lock, n := range a.taken { // order-free: locks are given back, one by one
		if n < 0 {
			return false, nil
		}
		for range n {
			calls = append(calls, unlockCall(lock))
		}
	}
	if len(calls) == 0 {
		return true, nil
	}
	r, _, err := a.backend.ask("SELECT " + strings.Join(calls, ",")) // once: what is given back is not rolled back
	if err == nil && r.failed != nil {
		err = fmt.Errorf("session: advisory locks cannot be given back: %s", r.failed.Message)
	}
	return true, err
}

// unlockCall is the function call that gives back a lock named by mode, form, class and object.
func unlockCall(lock string) string {
	var mode, form, class, object string
	if f := strings.Fields(lock); len(f) == 4 {
		mode, form, class, object = f[0], f[1], f[2], f[3]
	}
	name := "pg_catalog.pg_advisory_unlock"
	if mode == "1" {
		name += "_shared"
	}
	if form == "2" {
		return name + "(" + signed(class) + "," + signed(object) + ")"
	}
	return name + "((" + class + "::pg_catalog.int8 OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|) " + object +
		"::pg_catalog.int8)"
}

// signed is SQL for the integer with the same bits as a number without sign.
func signed(n string) string {
	return "(" + n + "::pg_catalog.int8::pg_catalog.bit(32)::pg_catalog.int4)"
}

// plainContext takes out of an error's context what only Tutti's form of functions of PostgreSQL's adds: PostgreSQL's
// own are no PL/pgSQL.
func plainContext(e *wire.ErrorFields) bool {
	if !strings.Contains(e.Where, "tutti.") && !strings.Contains(e.Where, "advisory_") &&
		!strings.Contains(e.Where, "setval") && !largeFrame.MatchString(e.Where) {
		return false
	}
	lines := strings.Split(e.Where, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], "PL/pgSQL function setval(regclass,bigint,boolean) line ") ||
			lines[i] == `SQL function "setval" statement 1` {
			e.Where = strings.Join(lines[i+1:], "\n")
			return true
		}
		if largeFrame.MatchString(lines[i]) {
			e.Where = strings.Join(lines[i+1:], "\n")
			return true
		}
		if f, ok := strings.CutPrefix(lines[i], "PL/pgSQL function pg_"); ok &&
			(strings.HasPrefix(f, "advisory_") || strings.HasPrefix(f, "try_advisory_")) {
			e.Where = strings.Join(lines[i+1:], "\n")
			return true
		}
	}
	return false
}
