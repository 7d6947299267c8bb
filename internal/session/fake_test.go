package session_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// fakeHost is a cluster of one member that commits everything at once.
type fakeHost struct {
	onBlind func(session.Submission) (session.Decision, bool)
	there   map[uint64]bool // rows, as transactions have left them
	shy     []uint64        // and is to be left alone
	forms   map[string][]session.Foreknown
	blocks  int       // blind transactions that were asked for
	admin   *pgx.Conn // superuser, for definitions

	client  net.Conn
	backend net.Conn

	mu         sync.Mutex
	snapshots  int
	committed  int
	poked      bool
	deferrable bool // what Deferrable says
	larges     int
	known      map[string]session.Counted
	locks      bool           // another session has locked rows
	noRoom     *wire.SQLError // what BeginLarge says
	lose       bool           // the first of every two submissions loses
	lost       bool
	ordinal    uint64
	seq        uint64
	phase      session.Phase
	cancelled  bool // what Cancelled says
	cancels    bool // the client cancels what is done again
	doom       *wire.SQLError
	leaving    *wire.SQLError      // see dismiss
	orphans    int                 // submissions decided commit whose backend could not
	submits    int                 //
	holding    bool                // between EnterSnapshot and LeaveSnapshot
	onPhase    func(session.Phase) // called without the lock
	onSubmit   func(session.Submission) *session.Decision
	applied    atomic.Uint64
	channels   []string // to which the session listens
	heard      int      // how often it said so
	noChannel  *wire.SQLError
	warning    *wire.SQLError
	lateMost   []int64  // how long tables were waited for; if it is not nil, in vain
	schemas    []string // in which they were searched
	givenBack  int      // holds
	stays      int      // so often a transaction could not be done again from there on
	staysAt    uint64   // the base of the first
	staysAgain bool     // what the last one said
	staysNot   *wire.SQLError
	barred     uint64
	maintains  []int          // tries
	losesFirst bool           // Maintains says so the next time
	mayNot     *wire.SQLError // what Maintains and Defines say
	defines    int            // how often Defines was called
	watches    int
	contended  bool
	turns      [][]uint64 // at rows, that it was asked for
	noTurn     *wire.SQLError
	lostAt     [][]uint64

	serves       []bool // what it was told
	conversation string // with a procedure's transaction
	held         uint32 // the backend whose next transaction of a procedure is held up
}

func (h *fakeHost) roles() session.Host {
	return session.Host{
		Control: h, Order: h, Snapshots: h, Intents: h, Rows: h, Deferred: h, Plans: h, Definitions: h,
		Status: h, Channels: h, Advisory: h, Procedures: h, Sequences: h,
	}
}

func (h *fakeHost) Serves(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serves = append(h.serves, on)
}

func (h *fakeHost) MayListen([]string) *wire.SQLError { return h.noChannel }

func (h *fakeHost) Listen(channels []string) *wire.SQLError {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.channels = channels
	h.heard++
	return h.warning
}

func (h *fakeHost) Watch(f func()) (stop func(), over func() bool) {
	h.mu.Lock()
	h.watches++
	h.mu.Unlock()
	wait, over := h.Go(f)
	return func() {
		_ = h.backend.SetReadDeadline(time.Unix(1, 0))
		wait()
		_ = h.backend.SetReadDeadline(time.Time{})
	}, over
}

// watched reports whether the session has ever watched its backend.
func (h *fakeHost) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watches > 0
}

func (h *fakeHost) Spent(message string) (moved bool, bound string) {
	name, reached, ok := capture.Spent(message)
	if !ok {
		return false, ""
	}
	sql, values := capture.AdvanceSQL(name, reached)
	r := h.admin.PgConn().ExecParams(context.Background(), sql, values, nil, nil, nil).Read()
	if r.Err != nil {
		return true, ""
	}
	return capture.Advanced(r.Rows[0][0])
}

func (h *fakeHost) Base() uint64 { h.mu.Lock(); defer h.mu.Unlock(); return h.ordinal }

func (h *fakeHost) Deferrable() bool { return h.deferrable }

func (h *fakeHost) EnterSnapshot() (uint64, *wire.SQLError) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.doom != nil {
		return 0, h.doom
	}
	h.holding = true
	h.snapshots++
	return h.ordinal, nil
}

func (h *fakeHost) LeaveSnapshot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.holding {
		panic("LeaveSnapshot without EnterSnapshot")
	}
	h.holding = false
}

func (h *fakeHost) EnterSafe(int) (uint64, bool, *wire.SQLError) {
	base, doom := h.EnterSnapshot()
	return base, true, doom
}

func (h *fakeHost) LeaveSafe() bool {
	h.LeaveSnapshot()
	return false
}

func (h *fakeHost) SerialBegin() *wire.SQLError { return nil }

func (h *fakeHost) SerialRuns(bool) *wire.SQLError { return nil }

func (h *fakeHost) SerialAlone(session.Submission) bool { return false }

func (h *fakeHost) SerialApart() {}

func (h *fakeHost) Hold(*writeset.Writeset, session.Limits) *wire.SQLError { return nil }

func (h *fakeHost) HoldTables(_ *semantics.TableLock, schemas []string, most int64) (bool, *wire.SQLError) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lateMost == nil {
		return false, nil
	}
	h.lateMost, h.schemas = append(h.lateMost, most), schemas
	return true, nil
}

func (h *fakeHost) Contended() bool { return h.contended }

func (h *fakeHost) TakeTurns(rows []uint64) *wire.SQLError {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turns = append(h.turns, rows)
	failure := h.noTurn
	h.noTurn = nil
	return failure
}

func (h *fakeHost) LostAt(rows []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lostAt = append(h.lostAt, slices.Clone(rows))
}

func (h *fakeHost) Stays(base uint64, again bool, _ session.Limits) (bool, *wire.SQLError) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stays++; h.stays == 1 {
		h.staysAt = base
	}
	h.staysAgain = again
	return base < h.barred, h.staysNot
}

func (h *fakeHost) Defines(session.Limits) *wire.SQLError {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.defines++
	return h.mayNot
}

func (h *fakeHost) Maintains(try int, _ session.Limits) *wire.SQLError {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.maintains = append(h.maintains, try)
	if h.losesFirst {
		h.losesFirst = false
		return lost()
	}
	return h.mayNot
}

func (h *fakeHost) GiveBack() {
	h.mu.Lock()
	h.givenBack++
	h.mu.Unlock()
}

func (h *fakeHost) Pass(*writeset.Writeset, session.Limits) *wire.SQLError { return nil }

func (h *fakeHost) BeginLarge() *wire.SQLError {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.larges++
	return h.noRoom
}

func (h *fakeHost) Exceeded() {}

func (h *fakeHost) NewSeq() (uint32, uint64, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	return 1, 1, h.seq
}

func (h *fakeHost) Enter(p session.Phase) *wire.SQLError {
	if h.onPhase != nil {
		h.onPhase(p)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.poked {
		h.poked = false
		_ = h.client.SetReadDeadline(time.Time{})
	}
	if p == session.PhaseIdle {
		h.doom = nil
	}
	if h.doom != nil {
		return h.doom
	}
	h.phase = p
	return nil
}

func (h *fakeHost) Submit(s session.Submission) session.Decision {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != session.PhaseSubmitted {
		panic("Submit outside PhaseSubmitted")
	}
	if s.Writeset.Empty() {
		panic("an empty writeset was submitted")
	}
	h.submits++
	if h.onSubmit != nil {
		if d := h.onSubmit(s); d != nil {
			return *d
		}
	}
	if h.lose {
		if h.lost = !h.lost; h.lost {
			return session.Decision{Retry: true, Err: wire.Errorf(wire.CodeSerializationFailure, "lost for the test")}
		}
	}
	h.ordinal++
	h.committed++
	for _, r := range s.Writeset.Rows {
		if h.there == nil {
			h.there = map[uint64]bool{}
		}
		h.there[r.Identity] = r.Op != writeset.OpDelete
	}
	return session.Decision{Commit: true}
}

func (h *fakeHost) Committed(_ uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ok {
		h.orphans++
	}
}

func (h *fakeHost) Known(a session.Adds) (session.Counted, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.known[a.Row]
	return c, ok && !h.locks
}

func (h *fakeHost) PutOff(adds []session.Adds) (rows []session.Counted, ok bool) {
	for _, a := range adds {
		row, ok := h.Known(a)
		if !ok {
			return nil, false
		}
		rows = append(rows, row)
	}
	return rows, true
}

func (h *fakeHost) Locks([]string) {}

func (h *fakeHost) DefinedUpTo() uint64 { return h.Applied() }

func (h *fakeHost) There(_, identity uint64) (there, shy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.there[identity], slices.Contains(h.shy, identity)
}

func (h *fakeHost) Sees() uint64 { return h.Applied() }

func (h *fakeHost) CachedPlans(_ any, key []byte) []session.Foreknown { return h.forms[string(key)] }

func (h *fakeHost) CachePlan(_ any, key []byte, k session.Foreknown) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forms == nil {
		h.forms = map[string][]session.Foreknown{}
	}
	h.forms[string(key)] = []session.Foreknown{k}
}

func (h *fakeHost) LeaveAlone(identities []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shy = append(h.shy, identities...)
}

// Blind carries nothing out: it is in somebody's way, or a row was not there.
func (h *fakeHost) Blind(s session.Submission, _ bool) (session.Decision, bool) {
	if h.onBlind != nil {
		return h.onBlind(s)
	}
	h.blocks++
	return session.Decision{Retry: h.lose}, false
}

func (h *fakeHost) Writing(string) {}

func (h *fakeHost) Learn(row session.Counted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = map[string]session.Counted{}
	}
	h.known[row.Row] = row
}

func (h *fakeHost) Added(_, _ uint64, err error) {
	if err != nil {
		panic(err)
	}
}

func (h *fakeHost) Applied() uint64 { return h.applied.Load() }

func (h *fakeHost) Explain(*writeset.Writeset) *wire.SQLError { return nil }

// Main: there is one database.
func (h *fakeHost) Main() bool { return true }

func (h *fakeHost) Detach(session.Definition) (session.Turn, session.Result) {
	return nil, session.Result{Err: wire.Errorf(wire.CodeFeatureNotSupported, "not in this test")}
}

func (h *fakeHost) Define(d session.Definition) session.Result {
	ctx := context.Background()
	var r session.Result
	err := pgx.BeginFunc(ctx, h.admin, func(tx pgx.Tx) error {
		sql := "SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.tx = 'on'"
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
		settings := slices.Clone(d.Settings) // some only a superuser may set
		slices.SortStableFunc(settings, func(a, b session.Setting) int {
			last := func(s session.Setting) int { return map[bool]int{true: 1}[s.Name == session.RoleSetting] }
			return last(a) - last(b)
		})
		for _, s := range settings {
			if _, err := tx.Exec(ctx, "SELECT set_config($1, $2, true)", s.Name, s.Value); err != nil {
				return err
			}
		}
		results, err := h.admin.PgConn().Exec(ctx, d.SQL).ReadAll()
		if err != nil {
			return err
		}
		for _, x := range results {
			r.Tag = x.CommandTag.String()
		}
		if _, err := tx.Exec(ctx, "RESET ROLE; SET LOCAL search_path = pg_catalog"); err != nil {
			return err
		}
		return catalog.Refresh(ctx, tx)
	})
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		r.Err = wire.Errorf(pg.Code, "%s", pg.Message).WithPosition(pg.Position)
	case err != nil:
		r.Err = wire.Errorf(wire.CodeInternalError, "%s", err.Error())
	}
	return r
}

func (h *fakeHost) Show(name string) session.Result {
	if name != "applied" {
		return session.Result{Err: wire.Errorf("42704", "unrecognized configuration parameter \"tutti.%s\"", name)}
	}
	return session.Result{Tag: "SHOW", Columns: h.ShowColumns(name), Rows: [][]string{{"7"}}}
}

func (h *fakeHost) Verifier(password, role string, md5 bool) string {
	return fmt.Sprintf("md5%032x", len(password+role))
}

func (h *fakeHost) ShowColumns(name string) []string { return []string{"tutti." + name} }

func (h *fakeHost) Go(f func()) (wait func(), over func() bool) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		f()
		close(ended)
		h.poke()
	}()
	return func() { <-done }, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
}

// kill dooms the transaction as a node's guard does.
func (h *fakeHost) kill(why *wire.SQLError) {
	h.mu.Lock()
	h.doom = why
	h.mu.Unlock()
	h.poke()
}

// waits is the phase the session is in.
func (h *fakeHost) waits() session.Phase {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase
}

// poke makes a read from the client time out.
func (h *fakeHost) poke() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.poked = true
	_ = h.client.SetReadDeadline(time.Unix(1, 0))
}

func (h *fakeHost) Resuming(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancelled = on && h.cancels
}

func (h *fakeHost) Cancelled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cancelled
}

func (h *fakeHost) Clock() int64 { return time.Now().UnixMilli() }

func (h *fakeHost) Lock(string) bool { return false }

func (h *fakeHost) SettleLocks(bool) {}

func (h *fakeHost) Fate() *wire.SQLError { return nil }

// Dismissed is what dismiss has set.
func (h *fakeHost) Dismissed() *wire.SQLError {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leaving
}

// dismiss has the session end when no transaction is open.
func (h *fakeHost) dismiss(why *wire.SQLError) {
	h.mu.Lock()
	h.leaving = why
	h.mu.Unlock()
	h.poke()
}

// speaks runs what is said to the session's backend, which is the only one of its role that holds a lock to be spoken
// to.
func (h *fakeHost) speaks(sql func(pid uint32) string) ([]*pgconn.Result, error) {
	ctx := context.Background()
	var pid uint32
	if err := h.admin.QueryRow(ctx, `SELECT DISTINCT l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE a.usename = 'app' AND a.datname = current_database() AND l.locktype = 'advisory' AND l.mode = 'ExclusiveLock'
			AND l.granted`).Scan(&pid); err != nil {
		return nil, err
	}
	return h.admin.PgConn().Exec(ctx, sql(pid)).ReadAll()
}

func (h *fakeHost) Say(n int, command string) error {
	_, err := h.speaks(func(pid uint32) string { return capture.SaySQL(pid, h.conversation, n, command) })
	return err
}

func (h *fakeHost) Texts(r session.Reread) (array, typ string, err error) {
	sql, oid, format, value := r.Array()
	got := h.admin.PgConn().ExecParams(context.Background(), sql, [][]byte{value}, []uint32{oid}, []int16{format},
		nil).Read()
	if got.Err != nil {
		return "", "", got.Err
	}
	return string(got.Rows[0][0]), string(got.Rows[0][1]), nil
}

func (h *fakeHost) GoesOn(n int, seq uint64) error {
	var pid uint32
	r, err := h.speaks(func(p uint32) string { // the next one could talk before it is seen that this one has ended
		pid = p
		return capture.InsideHoldSQL(p) + capture.SaySQL(p, h.conversation, n, capture.InsideGo)
	})
	h.held = pid
	if err == nil {
		r, err = h.admin.PgConn().Exec(context.Background(), capture.InsideEndedSQL(pid, 1, 1, seq)).ReadAll()
	}
	if err != nil {
		return err
	}
	h.Committed(seq, len(r[len(r)-1].Rows) == 1)
	return nil
}

func (h *fakeHost) Follows() uint64 { return h.Base() }

func (h *fakeHost) Cancel() {}

func (h *fakeHost) Attend(conversation string) error {
	h.conversation = conversation
	return nil
}

func (h *fakeHost) Leave() {
	if h.held != 0 {
		// what it held up will wait
		_ = h.admin.PgConn().Exec(context.Background(), capture.InsideFreeSQL(h.held)).Close()
	}
	h.held = 0
}
