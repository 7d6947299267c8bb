package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/writeset"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// blindTables have the columns id, n, v and b.
var blindTables = []string{"one", "other"}

const blindRows = 5

// blindRecord is a row's record, with NULL for what is nil.
func blindRecord(id int, n any, v any, b any) []writeset.Field {
	f := []writeset.Field{{OID: 23, Value: binary.BigEndian.AppendUint32(nil, uint32(id))}, {OID: 23}, {OID: 25},
		{OID: 20}}
	if n, ok := n.(int); ok {
		f[1].Value = binary.BigEndian.AppendUint32(nil, uint32(n))
	}
	if v, ok := v.(string); ok {
		f[2].Value = []byte(v)
	}
	if b, ok := b.(int); ok {
		f[3].Value = binary.BigEndian.AppendUint64(nil, uint64(b))
	}
	return f
}

// blindRun is an applier, and what its database holds.
type blindRun struct {
	t       *testing.T
	conn    *pgx.Conn
	applier *Applier
	ordinal uint64
}

func newBlindRun(t *testing.T) *blindRun {
	ctx := context.Background()
	s := pgtest.Shared(t)
	database := s.NewDatabase(t)
	conn := s.Connect(t, database)
	tx, err := conn.Begin(ctx)
	for _, table := range blindTables {
		if err == nil {
			_, err = tx.Exec(ctx, "CREATE TABLE "+table+" (id int PRIMARY KEY, n int, v text, b bigint)")
		}
	}
	if err == nil {
		err = catalog.Install(ctx, tx)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewApplier(ctx, conn.Config().ConnString(), &config.Config{}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	r := &blindRun{t: t, conn: conn, applier: a}
	r.exec("SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica")
	return r
}

func (r *blindRun) exec(sql string) {
	r.t.Helper()
	if _, err := r.conn.Exec(context.Background(), sql); err != nil {
		r.t.Fatal(err)
	}
}

// reset makes all rows what they were, but the first, which is not there.
func (r *blindRun) reset() {
	for _, table := range blindTables {
		r.exec(fmt.Sprintf("DELETE FROM %s; INSERT INTO %s SELECT i, 2147483647 - i * 3, 'x', 0 FROM "+
			"generate_series(2, %d) i", table, table, blindRows))
	}
}

func (r *blindRun) get(sql string) (s string) {
	r.t.Helper()
	if err := r.conn.QueryRow(context.Background(), sql).Scan(&s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *blindRun) dump() string {
	return r.get("SELECT concat((SELECT string_agg(t::text, ' ' ORDER BY id) FROM one t), ' / ', (SELECT " +
		"string_agg(t::text, ' ' ORDER BY id) FROM other t))")
}

// apply applies transactions as one group. It gives which of them are void.
func (r *blindRun) apply(sets []*writeset.Writeset) (void []*writeset.Writeset) {
	r.t.Helper()
	var tasks []engine.Task
	for _, w := range sets {
		r.ordinal++
		tasks = append(tasks, engine.Task{Ordinal: r.ordinal, Writeset: w})
	}
	if err := r.applier.Apply(context.Background(), r.ordinal, tasks); err != nil {
		r.t.Fatal(err)
	}
	for _, w := range sets {
		missed := false
		for i := range w.Rows {
			missed = missed || r.applier.Missed[&w.Rows[i]]
		}
		if r.applier.Void[w] != (missed && len(w.Rows) > 1) {
			r.t.Errorf("a transaction of %d rows is void: %v, and has missed one: %v", len(w.Rows), r.applier.Void[w],
				missed)
		}
		if missed {
			void = append(void, w)
		}
	}
	if n := r.get("SELECT ordinal::text FROM tutti.progress"); n != fmt.Sprint(r.ordinal) {
		r.t.Errorf("the progress is %s after %d", n, r.ordinal)
	}
	return void
}

// tables are those of a transaction.
func (r *blindRun) tables() (out []writeset.Table) {
	for _, name := range blindTables {
		out = append(out, writeset.Table{Schema: "public", Name: name, Format: writeset.FormatBinary,
			Key: capture.TableKey("public", name)})
	}
	return out
}

// blind draws a blind transaction.
func (r *blindRun) blind(rnd *rand.Rand) *writeset.Writeset {
	w := &writeset.Writeset{Tables: r.tables()}
	for range 1 + rnd.IntN(3) {
		table, id := rnd.IntN(2), 1+rnd.IntN(blindRows)
		row := writeset.Row{Table: uint32(table), Op: writeset.OpSet, Identity: uint64(10*(table+1) + id)}
		n := rnd.IntN(9)
		switch rnd.IntN(4) {
		case 0:
			row.Image = writeset.AppendSet(nil, []writeset.Setting{{Column: 1}}, blindRecord(id, n, nil, nil))
		case 1:
			row.Image = writeset.AppendSet(nil, []writeset.Setting{{Column: 1, Add: true}},
				blindRecord(id, n, nil, nil))
		case 2:
			row.Image = writeset.AppendSet(nil, []writeset.Setting{{Column: 2}, {Column: 3, Add: true}},
				blindRecord(id, nil, fmt.Sprint("v", n), -n))
		default:
			row.Op, row.Image = writeset.OpDrop, writeset.AppendRecord(nil, blindRecord(id, nil, nil, nil))
		}
		if !slices.ContainsFunc(w.Rows, func(x writeset.Row) bool { return x.Identity == row.Identity }) {
			w.Rows = append(w.Rows, row)
		}
	}
	return w
}

// seen draws a transaction that has seen a row, or that there is none, or empties a table.
func (r *blindRun) seen(rnd *rand.Rand) *writeset.Writeset {
	table, id := rnd.IntN(2), 1+rnd.IntN(blindRows)
	w := &writeset.Writeset{Tables: r.tables()}
	if rnd.IntN(8) == 0 {
		w.Rows = []writeset.Row{{Table: uint32(table), Op: writeset.OpTruncate}}
		return w
	}
	row := writeset.Row{Table: uint32(table), Identity: uint64(10*(table+1) + id),
		Image: writeset.AppendRecord(nil, blindRecord(id, 2147483647-rnd.IntN(20), "seen", 0))}
	switch there := r.get(fmt.Sprintf("SELECT count(*)::text FROM %s WHERE id = %d", blindTables[table], id)); {
	case there == "0":
		row.Op = writeset.OpInsert
	case rnd.IntN(2) == 0:
		row.Op = writeset.OpDelete
	default:
		row.Op = writeset.OpUpdate
	}
	w.Rows = []writeset.Row{row}
	return w
}

// TestBlindInAnyPortions: in whatever groups transactions come, blind ones and others, the same of them are void, and
// the rows end as if they had come one by one.
func TestBlindInAnyPortions(t *testing.T) {
	r := newBlindRun(t)
	rnd := rand.New(rand.NewPCG(10, 10))
	void, whole, groups := 0, 0, 0
	for i := range 150 {
		r.applier.Alone = func() bool { return i%2 == 0 }
		r.reset()
		var all, missed []*writeset.Writeset
		for range 2 + rnd.IntN(12) {
			w := r.blind(rnd)
			if rnd.IntN(3) == 0 {
				w = r.seen(rnd)
			}
			all = append(all, w)
			missed = append(missed, r.apply([]*writeset.Writeset{w})...)
		}
		want := r.dump()
		for range 3 {
			r.reset()
			var again []*writeset.Writeset
			for rest := all; len(rest) > 0; groups++ {
				n := 1 + rnd.IntN(len(rest))
				again = append(again, r.apply(rest[:n])...)
				rest = rest[n:]
			}
			// who is one row may miss it because it is gone by the end of the group
			several := func(list []*writeset.Writeset) (out []*writeset.Writeset) {
				for _, w := range list {
					if len(w.Rows) > 1 {
						out = append(out, w)
					}
				}
				return out
			}
			if got := r.dump(); got != want || !slices.Equal(several(again), several(missed)) {
				t.Fatalf("%d transactions, %d void: the rows are\n%s, want\n%s, and %d are void", len(all), len(missed),
					got, want, len(again))
			}
		}
		void += len(missed)
		whole += len(all) - len(missed)
	}
	if t.Logf("%d transactions were carried out, %d were void; in %d groups", whole, void, groups); void < 100 ||
		whole < 200 {
		t.Error("there are too few of one kind")
	}
}

// TestProgressByItsPlace: the progress row is found at its place, so that its versions, which a snapshot may keep for
// hours, cost nothing; and somewhere else if it has moved.
func TestProgressByItsPlace(t *testing.T) {
	r, ctx := newBlindRun(t), context.Background()
	note := func(last uint64) {
		t.Helper()
		if err := r.applier.NoteProgress(ctx, last); err != nil {
			t.Fatal(err)
		}
		if n := r.get("SELECT ordinal::text FROM tutti.progress"); n != fmt.Sprint(last) {
			t.Fatalf("the progress is %s, and was to be %d", n, last)
		}
	}
	for last := uint64(1); last < 4; last++ {
		note(last)
	}
	if at := string(r.applier.progress(9)[1]); at != r.get("SELECT ctid::text FROM tutti.progress") {
		t.Errorf("it is not at %s", at)
	}
	explain := "EXPLAIN (ANALYZE, COSTS off, TIMING off) " + strings.NewReplacer("$1", "9", "$2",
		"(SELECT ctid FROM tutti.progress)").Replace(progressStatement)
	rows, err := r.conn.Query(ctx, explain)
	plan, err2 := pgx.CollectRows(rows, pgx.RowTo[string])
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(plan, "\n"); !strings.Contains(all, "Tid Scan") ||
		!strings.Contains(all, "(never executed)") {
		t.Errorf("it is looked for:\n%s", all)
	}
	r.exec("UPDATE tutti.progress SET ordinal = 7")
	note(10)
	r.exec("VACUUM FULL tutti.progress")
	note(11)
}
