package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
)

// An audit compares the members' copies of all tables, one part of a table after another, each at an ordinal of its
// own. The member that leads the order audits; all members carry a part's check out beside their work.
const (
	auditFirst   = time.Minute            // after which a member that leads begins
	auditPoll    = 300 * time.Millisecond // between two looks whether this member leads, or who is alive
	auditRestMin = 20 * time.Millisecond  // between two parts
	auditWait    = 2 * auditScanMost      // for the members' sums of a part
	auditBytes   = 4 << 20                // of a part, about
	auditRowsMin = 100
	auditRowsMax = 5000
	// rows of a part of which nothing is known, and of a table without key, between which the reader rests
	auditFetch    = 1000
	auditScanMost = time.Minute // that the reader keeps a snapshot for
)

// part is what of a table the members compare at one ordinal: the rows behind one key, up to another one. A table
// without a key that can be walked is one part.
type part struct {
	Table string      `json:"table"` // quoted, with its schema
	Key   []keyColumn `json:"key,omitempty"`
	After []string    `json:"after,omitempty"` // values of the key's columns; none: from the first row on
	UpTo  []string    `json:"up_to,omitempty"` // none: to the last row
}

// keyColumn is a column of the key by which a table is walked, quoted, and its type.
type keyColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// row is the key as a row of PostgreSQL's, of values or of columns if values is nil.
func (p *part) row(values []string) string {
	list := make([]string, len(p.Key))
	for i, k := range p.Key {
		if list[i] = k.Name; values != nil {
			list[i] = "'" + strings.ReplaceAll(values[i], "'", "''") + "'::" + k.Type
		}
	}
	return "ROW(" + strings.Join(list, ", ") + ")"
}

// condition says which rows belong to the part.
func (p *part) condition() string {
	out := "true"
	if p.After != nil {
		out += " AND " + p.row(nil) + " > " + p.row(p.After)
	}
	if p.UpTo != nil {
		out += " AND " + p.row(nil) + " <= " + p.row(p.UpTo)
	}
	return out
}

// decodePart reads the payload of a check item: nil if it is a check of everything.
func decodePart(payload []byte) (*part, error) {
	if len(payload) == 0 {
		return nil, nil
	}
	var p part
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, fmt.Errorf("audit: the part of an audit cannot be read: %w", err)
	}
	if p.After != nil && len(p.After) != len(p.Key) || p.UpTo != nil && len(p.UpTo) != len(p.Key) {
		return nil, errors.New("audit: the part of an audit has bounds that are no keys")
	}
	return &p, nil
}

// Difference is what an audit has found: these members' copies of a table are not what most members have.
type Difference struct {
	Table   string   `json:"table"`
	Members []uint32 `json:"members"`
	Ordinal uint64   `json:"ordinal"`
}

// Replica is a replica as its audit needs it.
type Replica struct {
	Log         *slog.Logger
	ConnString  string
	Self        uint32
	Incarnation uint64
	Members     func() []config.Member
	Name        func(member uint32) string
	Counts      *metrics.Audit
	Waits       *metrics.Waits

	Limits   func() (percent int, every time.Duration) // a negative percentage: it does not audit
	Ready    func() bool
	CaughtUp func() bool
	Busy     func() bool // a definition goes on beside the executor, which asks this
	Leader   func() uint32
	Seq      func() uint64                     // the next sequence
	Engine   func(f func(*engine.Engine)) bool // runs f with the engine, and waits for that

	Send       func(to uint32, report []byte) bool
	State      func(member uint32) (s State, alive bool)
	LastHeard  func(member uint32, otherwise time.Time) time.Time
	Gossip     time.Duration // between two looks at the members' states
	Silent     time.Duration // after which one of which nothing is heard is not alive
	Background func(f func())
	Done       <-chan struct{} // closed when it ends
}

// State is what is known of a member.
type State struct {
	Applied uint64
	Halted  bool
}

// Audit is what one replica does to compare the members' copies: on request, all at one ordinal, and by itself, part by
// part.
type Audit struct {
	o      Replica
	checks checks

	mu    sync.Mutex
	found map[string]Difference // by table

	reading atomic.Bool // of this member's reader, which reads one part at a time
	conn    *pgconn.PgConn
}

// New makes it for a replica that is opened.
func New(o Replica) *Audit {
	a := &Audit{o: o}
	a.checks.init()
	return a
}

// Differences lists what was found, by table.
func (a *Audit) Differences() []Difference {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Difference
	for _, d := range a.found {
		out = append(out, d)
	}
	slices.SortFunc(out, func(x, y Difference) int { return strings.Compare(x.Table, y.Table) })
	return out
}

// note keeps what became of a table, or forgets what was found when it is equal again.
func (a *Audit) note(table string, d *Difference) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d == nil {
		delete(a.found, table)
		return
	}
	if a.found == nil {
		a.found = map[string]Difference{}
	}
	a.found[table] = *d
}

// keep forgets what was found in tables that are not there any more.
func (a *Audit) keep(tables []walk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t := range a.found {
		if !slices.ContainsFunc(tables, func(w walk) bool { return w.Table == t }) {
			delete(a.found, t)
		}
	}
}

// Run runs one audit after another while this member leads the order.
func (a *Audit) Run(ctx context.Context) error {
	var led, last time.Time // since when, without a break; the end of the last audit in that time
	for process.Rest(ctx, auditPoll) {
		percent, every := a.o.Limits()
		switch {
		case percent < 0 || !a.auditing():
			led, last = time.Time{}, time.Time{}
			continue
		case led.IsZero():
			led = time.Now()
		}
		if due := max(min(auditFirst, every)-time.Since(led), every-time.Since(last)); due > 0 {
			continue
		}
		if err := a.auditAll(ctx, percent); err != nil && ctx.Err() == nil {
			a.o.Log.Warn("the audit of the members' copies broke off; it begins anew later", "error", err)
		}
		last = time.Now()
	}
	return nil
}

// auditing reports whether this member is the one that audits.
func (a *Audit) auditing() bool {
	return a.o.Ready() && a.o.CaughtUp() && a.o.Leader() == a.o.Self
}

// walk is a table to be audited, and how.
type walk struct {
	Table string      `json:"table"`
	Key   []keyColumn `json:"key"`
	Rows  int         `json:"rows"` // of a part
}

// walks lists the tables, and of each the key by which it is walked: one whose order all members share.
const walks = `SELECT coalesce(json_agg(json_build_object('table', x.name, 'rows', x.rows, 'key', x.key) ORDER ` +
	`BY x.name), '[]') FROM (
  SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name,
    greatest(%d, least(%d, CASE WHEN c.reltuples > 0 THEN (%d * c.reltuples / greatest(pg_table_size(c.oid), 1))::int8 ELSE %d END)) AS rows,
    (SELECT json_agg(json_build_object('name', quote_ident(a.attname), 'type', format_type(a.atttypid, NULL)) ORDER BY u.ord)
     FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY u(num, ord) JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.num
     WHERE u.ord <= i.indnkeyatts AND i.indexrelid = (SELECT k.indexrelid FROM pg_index k JOIN pg_class kc ON kc.oid = k.indexrelid WHERE k.indrelid = c.oid AND k.indisunique
       AND k.indisvalid AND k.indimmediate AND k.indpred IS NULL AND k.indexprs IS NULL AND kc.relam = 403 AND NOT EXISTS (
         SELECT FROM unnest(k.indkey::int2[], k.indclass::oid[], k.indcollation::oid[], k.indoption::int2[]) WITH ORDINALITY v(num, class, coll, opt, ord)
         JOIN pg_attribute b ON b.attrelid = c.oid AND b.attnum = v.num JOIN pg_opclass o ON o.oid = v.class
         WHERE v.ord <= k.indnkeyatts AND (NOT b.attnotnull OR NOT o.opcdefault OR v.coll <> b.attcollation OR v.opt <> 0
           OR EXISTS (SELECT FROM pg_constraint n WHERE n.conrelid = c.oid AND n.contype = 'n' AND n.conkey = ARRAY[b.attnum] AND NOT n.convalidated)))
       ORDER BY k.indisprimary DESC, k.indexrelid LIMIT 1)) AS key
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (ARRAY(%s))) x`

// auditAll audits every table once.
func (a *Audit) auditAll(ctx context.Context, percent int) error {
	conn, err := link.Connect(ctx, a.o.ConnString, "tutti audit", Settings)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	r, err := conn.Exec(ctx, fmt.Sprintf(walks, auditRowsMin, auditRowsMax, auditBytes, auditFetch,
		checkedOIDs)).ReadAll()
	if err != nil {
		return err
	}
	var tables []walk
	if err := json.Unmarshal(r[0].Rows[0][0], &tables); err != nil {
		return err
	}
	a.keep(tables)
	for _, t := range tables {
		if err := a.auditTable(ctx, conn, t, percent); err != nil {
			return err
		}
		if !a.auditing() {
			return nil // another member does it
		}
	}
	a.o.Counts.Passes.Add(1)
	return nil
}

// auditTable audits a table part by part. What is said of it changes at the end, if all of it was compared.
func (a *Audit) auditTable(ctx context.Context, conn *pgconn.PgConn, t walk, percent int) error {
	p := part{Table: t.Table, Key: t.Key}
	var found *Difference
	whole := true
	for {
		if p.Key != nil {
			upTo, err := auditBound(ctx, conn, &p, t.Rows)
			if err != nil {
				return a.auditSkips(t.Table, err)
			}
			p.UpTo = upTo
		}
		v, err := a.auditPart(ctx, &p)
		if err != nil {
			return err
		}
		if v.differs != nil && found == nil {
			found = v.differs
			a.note(t.Table, found)
			a.o.Log.Error("copies of a table differ: see tutti check", "table", t.Table, "members",
				a.names(found.Members), "ordinal", found.Ordinal, "rows", p.condition())
		}
		whole = whole && v.compared
		if !process.Sleep(ctx, max(auditRestMin, v.took*time.Duration(100/percent))) || !a.auditing() {
			return nil
		}
		if p.UpTo == nil {
			break
		}
		p.After = p.UpTo
	}
	if whole && found == nil {
		a.note(t.Table, nil)
	}
	return nil
}

// auditSkips goes on with another table if this one cannot be walked: it may be gone, or another by now.
func (a *Audit) auditSkips(table string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		a.o.Log.Info("a table is left out of this audit", "table", table, "error", err)
		return nil
	}
	return err
}

// auditBound finds the last key of a part; nil if it goes to the end of the table.
func auditBound(ctx context.Context, conn *pgconn.PgConn, p *part, rows int) ([]string, error) {
	q := part{Table: p.Table, Key: p.Key, After: p.After}
	var texts, order []string
	for _, k := range p.Key {
		texts = append(texts, k.Name+"::text")
		order = append(order, "t."+k.Name) // and not the text of that name
	}
	r, err := conn.Exec(ctx, fmt.Sprintf("SELECT %s FROM ONLY %s t WHERE %s ORDER BY %s OFFSET %d LIMIT 1",
		strings.Join(texts, ", "), q.Table, q.condition(), strings.Join(order, ", "), rows-1)).ReadAll()
	if err != nil || len(r[0].Rows) == 0 {
		return nil, err
	}
	bound := make([]string, len(p.Key))
	for i, v := range r[0].Rows[0] {
		bound[i] = string(v)
	}
	return bound, nil
}

// verdict is what came of a part.
type verdict struct {
	compared bool        // by all members that are alive
	differs  *Difference // nil: those that have answered agree
	took     time.Duration
}

// auditPart orders the check of a part, and compares what the members that are alive have found.
func (a *Audit) auditPart(ctx context.Context, p *part) (v verdict, err error) {
	payload, err := json.Marshal(p)
	if err != nil {
		return v, err
	}
	seq := a.o.Seq()
	answers := a.checks.open(seq, len(a.o.Members()))
	defer a.checks.close(seq)
	taken := false
	a.o.Engine(func(e *engine.Engine) {
		taken = e.Submit(engine.Submission{Kind: engine.KindCheck, Seq: seq, Payload: payload})
	})
	if !taken {
		return v, nil // the order is busy
	}
	got := map[uint32]report{}
	for deadline := time.Now().Add(auditWait); a.awaited(got) && time.Now().Before(deadline); {
		select {
		case r := <-answers:
			got[r.Member] = r
		case <-time.After(auditPoll):
		case <-ctx.Done():
			return v, nil
		}
	}
	v = judgePart(p.Table, len(a.o.Members()), got)
	a.o.Counts.Parts.Add(1)
	a.o.Counts.Time.Add(v.took)
	return v, nil
}

// awaited reports whether a member that is alive, and not halted, has yet to answer.
func (a *Audit) awaited(got map[uint32]report) bool {
	for _, m := range a.o.Members() {
		if s, alive := a.o.State(m.Member); alive && !s.Halted && got[m.Member].Member == 0 {
			return true
		}
	}
	return false
}

// judgePart compares what members have found in a part.
func judgePart(table string, members int, got map[uint32]report) verdict {
	v := verdict{compared: len(got) == members}
	votes := map[string][]uint32{}
	ordinal := uint64(0)
	for m, r := range got { // order-free: counted, and sorted below
		v.took = max(v.took, time.Duration(r.Micros)*time.Microsecond)
		if r.Error != "" || len(r.Tables) != 1 {
			v.compared = false
			continue
		}
		key := fmt.Sprint(r.Tables[0].Rows, " ", r.Tables[0].Sum)
		votes[key] = append(votes[key], m)
		ordinal = r.Ordinal
	}
	if len(votes) < 2 {
		return v
	}
	answered := 0
	for _, list := range votes { // order-free: added up
		answered += len(list)
	}
	d := Difference{Table: table, Ordinal: ordinal}
	for _, list := range votes { // order-free: sorted below
		if 2*len(list) <= answered {
			d.Members = append(d.Members, list...)
		}
	}
	slices.Sort(d.Members)
	v.differs = &d
	return v
}

// readPart takes a snapshot at the part's ordinal, between two groups, and reads the part beside the executor. A member
// that cannot do so now says so.
func (a *Audit) readPart(ctx context.Context, t engine.Task, p *part) error {
	rep := report{Seq: t.Item.ID.Seq, Life: t.Item.ID.Incarnation, Ordinal: t.Ordinal, Member: a.o.Self}
	to := t.Item.ID.Member
	if !a.o.CaughtUp() || a.o.Busy() || !a.reading.CompareAndSwap(false, true) {
		rep.Error = "this member is busy"
		return a.report(to, rep)
	}
	began := time.Now()
	if err := a.begin(ctx, a.o.ConnString); err != nil {
		a.reading.Store(false)
		rep.Error = err.Error()
		return a.report(to, rep)
	}
	a.o.Background(func() {
		sum, err := a.read(ctx, p)
		if rep.Tables = []Sum{sum}; err != nil {
			rep.Error = err.Error()
		}
		a.end(ctx)
		a.reading.Store(false)
		rep.Micros = time.Since(began).Microseconds()
		if err := a.report(to, rep); err != nil {
			a.o.Log.Error("the report of an audit cannot be written", "error", err)
		}
	})
	return nil
}

// report tells the member that audits. One that is lost is not sent again: the part counts as not compared.
func (a *Audit) report(to uint32, rep report) error {
	data, err := json.Marshal(rep)
	if err != nil {
		return err
	}
	if to == a.o.Self {
		a.Receive(to, data)
	} else {
		a.o.Send(to, data)
	}
	return nil
}

// begin takes the reader's snapshot.
func (a *Audit) begin(ctx context.Context, connString string) (err error) {
	if a.conn == nil {
		if a.conn, err = link.Connect(ctx, connString, "tutti audit", Settings); err != nil {
			return err
		}
	}
	if _, err := a.conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1").ReadAll(); err != nil {
		err = errors.Join(err, a.conn.Close(context.WithoutCancel(ctx)))
		a.conn = nil
		return err
	}
	return nil
}

// end gives the snapshot back. A connection of which nothing is known is left.
func (a *Audit) end(ctx context.Context) {
	if _, err := a.conn.Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
		_ = a.conn.Close(context.WithoutCancel(ctx)) // of no use
		a.conn = nil
	}
}

func (a *Audit) Close() {
	if a.conn != nil {
		_ = a.conn.Close(context.Background()) // the server notices either way
	}
}

// read adds a part up as sums does.
func (a *Audit) read(ctx context.Context, p *part) (Sum, error) {
	if p.Key == nil {
		return a.scan(ctx, p)
	}
	r, err := a.conn.Exec(ctx, "SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM ONLY "+
		p.Table+" t WHERE "+p.condition()).ReadAll()
	if err != nil {
		return Sum{}, err
	}
	n, err := strconv.ParseInt(string(r[0].Rows[0][0]), 10, 64)
	return Sum{Table: p.Table, Rows: n, Sum: string(r[0].Rows[0][1])}, err
}

// scan reads a table that cannot be walked: slowly, and no longer than auditScanMost. Who waits for a lock on the table
// ends it.
func (a *Audit) scan(ctx context.Context, p *part) (Sum, error) {
	if _, err := a.conn.Exec(ctx, "DECLARE a NO SCROLL CURSOR FOR SELECT hashtextextended(t::text, 0) FROM ONLY "+
		p.Table+" t").ReadAll(); err != nil {
		return Sum{}, err
	}
	fetch := fmt.Sprintf("FETCH %d FROM a; SELECT EXISTS (SELECT FROM pg_locks w JOIN pg_locks h ON h.relation = "+
		"w.relation AND h.database = w.database WHERE NOT w.granted AND h.granted AND h.pid = pg_backend_pid())",
		auditFetch)
	out := Sum{Table: p.Table}
	sum := int64(0)
	for began := time.Now(); ; {
		step := time.Now()
		r, err := a.conn.Exec(ctx, fetch).ReadAll()
		if err != nil {
			return out, err
		}
		for _, row := range r[0].Rows {
			h, err := strconv.ParseInt(string(row[0]), 10, 64)
			if err != nil {
				return out, err
			}
			sum += h
		}
		out.Rows += int64(len(r[0].Rows))
		out.Sum = strconv.FormatInt(sum, 10)
		switch {
		case len(r[0].Rows) < auditFetch:
			return out, nil
		case string(r[1].Rows[0][0]) == "t":
			return out, errors.New("somebody waits for a lock on the table")
		case time.Since(began) > auditScanMost:
			return out, errors.New("the table has no key by which it could be read in parts, and is too large to be " +
				"read at once")
		}
		if !process.Sleep(ctx, 2*time.Since(step)) {
			return out, ctx.Err()
		}
	}
}

// names are members' names for messages.
func (a *Audit) names(members []uint32) string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = a.o.Name(m)
	}
	return strings.Join(out, ", ")
}
