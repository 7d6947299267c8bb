package captest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/writeset"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var ctx = context.Background()

// pair is two databases with the same schema: a runs transactions, b gets their writesets.
type pair struct {
	bulk    bool // statements are captured as a whole where that is possible
	t       testing.TB
	a, b    *pgx.Conn
	dbA     string
	dbB     string
	seq     uint64
	tables  *catalog.Tables
	pending []*writeset.Writeset
	last    *writeset.Writeset
	rereads int
	unfit   int // attempts that failed for their form
	copied  int // rows that were applied ahead, by COPY
	ran     int // writesets that were executed ahead
}

// inBulk is pair.bulk of new pairs.
var inBulk bool

func newPair(t testing.TB, ddl ...string) *pair {
	t.Helper()
	s := pgtest.Shared(t)
	// OIDs in the two databases must differ, as they do between servers: their originals were made one after the other.
	p := &pair{t: t, dbA: s.CopyDatabase(t, original(t, "pair_a")), bulk: inBulk}
	p.dbB = s.CopyDatabase(t, original(t, "pair_b"))
	p.a, p.b = s.Connect(t, p.dbA), s.Connect(t, p.dbB)
	for _, c := range []*pgx.Conn{p.a, p.b} {
		p.install(c)
	}
	for k, v := range apply.SessionSettings() {
		p.exec(p.b, fmt.Sprintf("SELECT set_config('%s', '%s', false)", k, v))
	}
	p.ddl(ddl...)
	return p
}

// originals are the databases that pairs are copies of: schema tutti is in them.
var originals = struct {
	sync.Mutex
	made map[string]bool
}{made: map[string]bool{}}

func original(t testing.TB, name string) string {
	t.Helper()
	originals.Lock()
	defer originals.Unlock()
	if originals.made[name] {
		return name
	}
	s := pgtest.Shared(t)
	s.Exec(t, "", "CREATE DATABASE "+name)
	c, err := pgx.Connect(ctx, s.ConnString(name))
	if err != nil {
		t.Fatal(err)
	}
	(&pair{t: t}).install(c)
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	originals.made[name] = true
	return name
}

func (p *pair) install(c *pgx.Conn) {
	p.t.Helper()
	tx, err := c.Begin(ctx)
	if err == nil {
		if err = catalog.Install(ctx, tx); err == nil {
			_, err = tx.Exec(ctx, capture.TokenSQL(1, "proof", []byte("secret"), 256<<20))
		}
		if err == nil {
			err = tx.Commit(ctx)
		}
	}
	if err != nil {
		p.t.Fatal(explain(err))
	}
}

func explain(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Sprintf("%v\n%s\n%s\n%s", err, pg.Where, pg.InternalQuery, pg.Detail)
	}
	return err.Error()
}

func (p *pair) exec(c *pgx.Conn, sql string) {
	p.t.Helper()
	if _, err := c.Exec(ctx, sql); err != nil {
		p.t.Fatalf("%s: %s", sql, explain(err))
	}
}

// ddl runs schema changes in both databases, in order with the pending writesets.
func (p *pair) ddl(sql ...string) {
	p.t.Helper()
	p.sync()
	for _, c := range []*pgx.Conn{p.a, p.b} {
		tx, err := c.Begin(ctx)
		if err != nil {
			p.t.Fatal(err)
		}
		if c == p.b {
			p.exec(c, "SET LOCAL session_replication_role = origin")
		}
		p.exec(c, "SET LOCAL search_path = public; SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.tx = "+
			"on; SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_material = on")
		for _, s := range sql {
			p.exec(c, s)
		}
		if err := catalog.Refresh(ctx, tx); err != nil {
			p.t.Fatal(explain(err))
		}
		if c == p.b {
			if p.tables, err = catalog.Describe(ctx, tx); err != nil {
				p.t.Fatal(explain(err))
			}
		}
		if err := tx.Commit(ctx); err != nil {
			p.t.Fatal(explain(err))
		}
	}
}

// setting is the value of tutti.tx for what run runs, and mark begins its texts.
func (p *pair) setting() string {
	if p.bulk {
		return capture.BulkSetting
	}
	return "on"
}

func (p *pair) mark() string {
	if p.bulk {
		return capture.BulkMark
	}
	return ""
}

// tx runs one transaction on a and returns its writeset, which is pending for b.
func (p *pair) tx(sql ...string) *writeset.Writeset {
	p.t.Helper()
	w, err := p.try("read committed", sql...)
	if err != nil {
		p.t.Fatalf("%q: %s", sql, explain(err))
	}
	return w
}

func (p *pair) try(isolation string, sql ...string) (*writeset.Writeset, error) {
	p.exec(p.a, "BEGIN ISOLATION LEVEL "+isolation+"; SET LOCAL tutti.tx = "+p.setting())
	w, err := p.run(sql)
	if err != nil {
		p.exec(p.a, "ROLLBACK")
		return nil, err
	}
	p.exec(p.a, "COMMIT")
	p.pending = append(p.pending, w)
	p.last = w
	return w, nil
}

func (p *pair) run(sql []string) (*writeset.Writeset, error) {
	for _, s := range sql {
		if _, err := p.a.Exec(ctx, p.mark()+s); err != nil {
			return nil, err
		}
	}
	p.seq++
	w, n, err := collect(p.a, 1, 7, p.seq)
	p.rereads += n
	if err != nil {
		return nil, err
	}
	// Text and binary collection must agree, and the codec must be transparent.
	return writeset.Decode(w.Append(nil))
}

// collect fires what is deferred and collects the open transaction of c.
func collect(c *pgx.Conn, slot int32, incarnation, seq uint64) (*writeset.Writeset, int, error) {
	if _, err := c.Exec(ctx, capture.FireDeferred); err != nil {
		return nil, 0, err
	}
	var col capture.Collector
	args := [][]byte{[]byte("1"), fmt.Append(nil, slot), fmt.Append(nil, incarnation), fmt.Append(nil, seq),
		[]byte("f")}
	r := c.PgConn().ExecParams(ctx, capture.CollectStatement, args, capture.CollectParameterOIDs(), nil, []int16{1})
	if err := each(r, col.AddBinary); err != nil {
		return nil, 0, err
	}
	rereads, err := col.Rereads()
	if err != nil {
		return nil, 0, err
	}
	for i, q := range rereads {
		r := c.PgConn().ExecParams(ctx, q.SQL, [][]byte{q.Parameter}, []uint32{q.ParameterOID},
			[]int16{int16(q.Format)}, []int16{1})
		if err := each(r, func(cols [][]byte) error { return col.AddFinal(i, cols) }); err != nil {
			return nil, 0, fmt.Errorf("re-read: %w", err)
		}
	}
	w, err := col.Writeset()
	return w, len(rereads), err
}

func each(r *pgconn.ResultReader, f func([][]byte) error) error {
	for r.NextRow() {
		values := slices.Clone(r.Values())
		for i := range values {
			values[i] = bytes.Clone(values[i])
		}
		if err := f(values); err != nil {
			_, more := r.Close()
			return errors.Join(err, more)
		}
	}
	_, err := r.Close()
	return err
}

// sync applies what is pending to b as one batch.
func (p *pair) sync() {
	p.t.Helper()
	if len(p.pending) == 0 {
		return
	}
	if err := p.apply(p.pending); err != nil {
		p.t.Fatal(explain(err))
	}
	p.pending = nil
}

// apply does what a member's applier does.
func (p *pair) apply(ws []*writeset.Writeset) error {
	if len(ws) == 1 && p.ahead(ws[0]) {
		return nil
	}
	for form := apply.InPlace; ; form = form.Next(len(ws)) {
		tx, loose, err := p.open(ws, form)
		if err == nil {
			return tx.Commit(ctx)
		}
		if !loose {
			return err
		}
		p.unfit++
	}
}

// ahead does what a member's forerunner does with a writeset that comes in pieces, and reports whether it could.
func (p *pair) ahead(w *writeset.Writeset) bool {
	tx, err := p.b.Begin(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	copied, ok := p.stream(w.Append(nil))
	if !ok {
		if err := tx.Rollback(ctx); err != nil {
			p.t.Fatal(err)
		}
		return false
	}
	p.copied += copied
	p.ran++
	if err := tx.Commit(ctx); err != nil {
		p.t.Fatal(err)
	}
	return true
}

func (p *pair) stream(all []byte) (copied int, ok bool) {
	var s writeset.Scanner
	stream := apply.NewStream(p.tables.Apply, 1<<20)
	for n := 0; ; n = min(len(all), n+1000) {
		for row, ok := s.Next(all[:n]); ok; row, ok = s.Next(all[:n]) {
			if !stream.Add(s.Tables[row.Table], row) {
				return copied, false
			}
		}
		ops, err := stream.Operations(n == len(all))
		if err != nil {
			return copied, false
		}
		for _, o := range ops {
			tag, err := p.operate(&o)
			if err != nil || o.Check(tag.RowsAffected()) != nil {
				return copied, false
			}
			if o.Copy != nil {
				copied += o.Rows
			}
		}
		if n == len(all) {
			return copied, s.Done()
		}
	}
}

func (p *pair) operate(o *apply.Operation) (pgconn.CommandTag, error) {
	if o.Copy != nil {
		return p.b.PgConn().CopyFrom(ctx, bytes.NewReader(o.Copy), o.SQL)
	}
	return p.b.PgConn().ExecParams(ctx, o.SQL, o.Args, nil, []int16{int16(o.Format)}, nil).Close()
}

// open applies ws in a form in a transaction, which is rolled back if that fails, and tells whether this
// may be due to the form.
func (p *pair) open(ws []*writeset.Writeset, form apply.Form) (_ pgx.Tx, loose bool, _ error) {
	ops, err := apply.Plan(ws, p.tables.Apply, form)
	if err != nil {
		return nil, false, err
	}
	tx, err := p.b.Begin(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, o := range ops {
		r := p.b.PgConn().ExecParams(ctx, o.SQL, o.Args, nil, []int16{int16(o.Format)}, nil)
		tag, err := r.Close()
		var pg *pgconn.PgError
		loose := o.Loose && (err == nil || errors.As(err, &pg) && (pg.Code == "23505" || pg.Code == "23P01"))
		if err != nil {
			err = fmt.Errorf("%s: %s", o.SQL, explain(err))
		} else {
			err = o.Check(tag.RowsAffected())
		}
		if err != nil {
			return nil, loose, errors.Join(err, tx.Rollback(ctx))
		}
	}
	return tx, false, nil
}

// equal applies what is pending and fails unless the databases hold the same rows.
func (p *pair) equal() {
	p.t.Helper()
	p.sync()
	a, b := p.dump(p.a), p.dump(p.b)
	if a == b {
		return
	}
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	for _, l := range la {
		if !slices.Contains(lb, l) {
			p.t.Errorf("only in a: %.300s", l)
		}
	}
	for _, l := range lb {
		if !slices.Contains(la, l) {
			p.t.Errorf("only in b: %.300s", l)
		}
	}
	p.t.Fatal("the databases differ")
}

func (p *pair) dump(c *pgx.Conn) string {
	p.t.Helper()
	var out strings.Builder
	if c == p.a {
		p.exec(c, "SET search_path = pg_catalog; SET timezone = 'UTC'")
		defer p.exec(c, "RESET search_path; RESET timezone")
	}
	rows, err := c.Query(ctx,
		`SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE relkind = 'r' AND relpersistence = 'p' AND nspname NOT IN ('pg_catalog', 'information_schema', 'tutti') ORDER BY 1`)
	if err != nil {
		p.t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		p.t.Fatal(err)
	}
	for _, n := range names {
		rows, err := c.Query(ctx, `SELECT "~r"::text FROM ONLY `+n+` "~r" ORDER BY "~r"::text COLLATE "C"`)
		if err != nil {
			p.t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			p.t.Fatal(err)
		}
		for _, l := range lines {
			fmt.Fprintf(&out, "%s %s\n", n, l)
		}
	}
	return out.String()
}

func (p *pair) scan(c *pgx.Conn, sql string, dst ...any) {
	p.t.Helper()
	if err := c.QueryRow(ctx, sql).Scan(dst...); err != nil {
		p.t.Fatalf("%s: %s", sql, explain(err))
	}
}
