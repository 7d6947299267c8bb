package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
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
	admin *pgx.Conn // superuser, for definitions

	client net.Conn

	mu         sync.Mutex
	snapshots  int
	committed  int
	poked      bool
	deferrable bool // what Deferrable says
	lose       bool // the first of every two submissions loses
	lost       bool
	ordinal    uint64
	seq        uint64
	phase      session.Phase
	doom       *wire.SQLError
	orphans    int                 // submissions decided commit whose backend could not
	submits    int                 //
	holding    bool                // between EnterSnapshot and LeaveSnapshot
	onPhase    func(session.Phase) // called without the lock
	onSubmit   func(session.Submission) *session.Decision
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
	return session.Decision{Commit: true}
}

func (h *fakeHost) Committed(_ uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ok {
		h.orphans++
	}
}

func (h *fakeHost) Explain(*writeset.Writeset) *wire.SQLError { return nil }

func (h *fakeHost) Define(d session.Definition) session.Result {
	ctx := context.Background()
	var r session.Result
	err := pgx.BeginFunc(ctx, h.admin, func(tx pgx.Tx) error {
		sql := "SET LOCAL tutti.ddl = 'on'; SET LOCAL tutti.tx = 'on'"
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
		for _, s := range d.Settings {
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

// token and proof are what marking demands.
const (
	token = 1
	proof = "proof"
)

// collector is the node's, as far as a test needs it. admin says where the tables are.
type collector struct{ admin *pgx.Conn }

func (collector) AppendPrepare(dst []byte) []byte {
	dst = wire.AppendClose(dst, 'S', "tutti fire")
	dst = wire.AppendClose(dst, 'S', "tutti collect")
	dst = wire.AppendClose(dst, 'S', "tutti ahead")
	dst = wire.AppendClose(dst, 'S', "tutti mark")
	dst = wire.AppendParse(dst, "tutti mark", capture.MarkStatement, capture.MarkParameterOIDs())
	dst = wire.AppendParse(dst, "tutti fire", capture.FireDeferred, nil)
	dst = wire.AppendParse(dst, "tutti ahead", capture.AheadStatement, capture.CollectParameterOIDs())
	return wire.AppendParse(dst, "tutti collect", capture.CollectStatement, capture.CollectParameterOIDs())
}

func (collector) AppendCollect(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	dst = wire.AppendBind(dst, "", "tutti fire", nil, nil, nil)
	dst = wire.AppendExecute(dst, "", 0)
	return run(dst, "tutti collect", slot, incarnation, seq, anyway)
}

func (collector) AppendAhead(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	return run(dst, "tutti ahead", slot, incarnation, seq, anyway)
}

func run(dst []byte, statement string, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	flag := []byte{0}
	if anyway {
		flag[0] = 1
	}
	dst = wire.AppendBind(dst, "", statement, []int16{1}, [][]byte{
		binary.BigEndian.AppendUint64(nil, token),
		binary.BigEndian.AppendUint32(nil, slot), binary.BigEndian.AppendUint64(nil, incarnation), binary.BigEndian.AppendUint64(nil, seq), flag,
	}, []int16{1})
	return wire.AppendExecute(dst, "", 0)
}

func (collector) AppendMark(dst []byte, slot uint32, incarnation, seq uint64) []byte {
	dst = wire.AppendBind(dst, "", "tutti mark", []int16{1}, [][]byte{
		binary.BigEndian.AppendUint32(nil, slot), binary.BigEndian.AppendUint64(nil, incarnation), binary.BigEndian.AppendUint64(nil, seq), []byte(proof),
	}, nil)
	return wire.AppendExecute(dst, "", 0)
}

func (collector) AgainStatement() string { return capture.AgainStatement }

func (collector) Catalog() any { return nil }

func (collector) DirectMark() string { return capture.DirectMark }

func (collector) AskDirect(d *semantics.Direct) string { return capture.DirectSQL(d.Relation) }

func (c collector) Direct(d *semantics.Direct, answer [][]byte) (session.Rewritten, bool) {
	var t *capture.TableDesc
	conn, err := pgx.ConnectConfig(context.Background(), c.admin.Config())
	if err != nil {
		return nil, false
	}
	defer conn.Close(context.Background())
	err = pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
		tables, err := catalog.Describe(context.Background(), tx)
		if err == nil && string(answer[2]) == "t" {
			t = tables.Capture(string(answer[0]), string(answer[1]))
		}
		return err
	})
	if err != nil || t == nil {
		return nil, false
	}
	op := map[semantics.Verb]writeset.Op{semantics.Insert: writeset.OpInsert, semantics.Update: writeset.OpUpdate, semantics.Delete: writeset.OpDelete}[d.Verb]
	how, ok := t.Direct(op, d.Alias, d.Sets)
	if !ok {
		return nil, false
	}
	return rewritten{how, how.SQL(d.Text)}, true
}

type rewritten struct {
	how *capture.Direct
	sql string
}

func (r rewritten) SQL() string { return r.sql }

func (r rewritten) Read(values [][]byte) (session.Returned, error) {
	row, err := r.how.Read(values)
	return &row, err
}

func (collector) Decode(rows [][][]byte, returned []session.Returned) (session.Collected, error) {
	c := &collection{}
	for _, r := range returned {
		if err := c.AddReturned(r.(*capture.Returned)); err != nil {
			return nil, err
		}
	}
	for _, r := range rows {
		if err := c.AddBinary(r); err != nil {
			return nil, err
		}
	}
	return c, nil
}

type collection struct{ capture.Collector }

func (c *collection) Rereads() [][]byte {
	var out [][]byte
	for _, r := range c.Collector.Rereads() {
		frames := wire.AppendClose(nil, 'S', "tutti reread")
		frames = wire.AppendParse(frames, "tutti reread", r.SQL, []uint32{r.ParameterOID})
		frames = wire.AppendBind(frames, "", "tutti reread", []int16{int16(r.Format)}, [][]byte{r.Parameter}, []int16{1})
		out = append(out, wire.AppendExecute(frames, "", 0))
	}
	return out
}

func (c *collection) Complete(i int, rows [][][]byte) error {
	for _, r := range rows {
		if err := c.AddFinal(i, r); err != nil {
			return err
		}
	}
	return nil
}
