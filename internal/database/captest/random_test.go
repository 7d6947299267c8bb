package captest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/writeset"
)

var randomSchema = []string{
	"CREATE EXTENSION btree_gist",
	"CREATE TABLE acc(id int PRIMARY KEY, n numeric, x text)",
	"CREATE TABLE uq(id numeric PRIMARY KEY, u int UNIQUE, v int, w text, UNIQUE (v, w))",
	"CREATE TABLE par(id int PRIMARY KEY, code int UNIQUE)",
	"CREATE TABLE chi(id int PRIMARY KEY, p int REFERENCES par ON DELETE CASCADE ON UPDATE CASCADE, c int REFERENCES " +
		"par(code) ON DELETE SET NULL ON UPDATE CASCADE DEFERRABLE)",
	"CREATE TABLE log(x int, y text)",
	"CREATE TABLE pt(id int, k int, x text, PRIMARY KEY (id, k)) PARTITION BY HASH (k)",
	"CREATE TABLE pt0 PARTITION OF pt FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
	"CREATE TABLE pt1 PARTITION OF pt FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
	"CREATE TABLE px(id int PRIMARY KEY, x int, live bool)", "CREATE UNIQUE INDEX ON px((x % 7)) WHERE live",
	"CREATE TABLE ex(id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&))",
	"CREATE TABLE reg(id int PRIMARY KEY, t regtype, f float8)",
	"CREATE TABLE gen(id int GENERATED ALWAYS AS IDENTITY, k int PRIMARY KEY, d int GENERATED ALWAYS AS (k * 2) " +
		"STORED, x int)",
	`CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF pg_trigger_depth() = 1 THEN UPDATE public.acc SET n = n + 1 WHERE id = NEW.id OR id = NEW.id + 1; END IF; RETURN NULL; END $$`,
	"CREATE TRIGGER again AFTER INSERT OR UPDATE ON acc FOR EACH ROW EXECUTE FUNCTION again()",
}

func randomStatement(r *rand.Rand) string {
	id, a, b := r.IntN(12), r.IntN(10), r.IntN(5)
	list := []string{
		"INSERT INTO acc VALUES (%[1]d, %[2]d, 'a') ON CONFLICT (id) DO UPDATE SET n = acc.n + 1",
		"UPDATE acc SET n = n * 2, x = repeat('x', %[2]d) WHERE id < %[1]d", "DELETE FROM acc WHERE id = %[1]d",
		"UPDATE acc SET id = id + 100 WHERE id = %[1]d", "DELETE FROM acc WHERE id > 99",
		"INSERT INTO uq VALUES (%[1]d, %[2]d, %[3]d, 'w%[2]d')", "UPDATE uq SET u = %[2]d WHERE id = %[1]d",
		"UPDATE uq SET u = NULL WHERE id = %[1]d", "DELETE FROM uq WHERE u = %[2]d",
		"UPDATE uq SET v = v + 1, id = id + 0.00 WHERE id = %[1]d", "UPDATE uq SET w = w WHERE v = %[3]d",
		"UPDATE uq SET id = %[2]d WHERE id = %[1]d",
		"INSERT INTO par VALUES (%[1]d, %[2]d) ON CONFLICT DO NOTHING", "DELETE FROM par WHERE id = %[1]d",
		"UPDATE par SET id = %[2]d WHERE id = %[1]d", "UPDATE par SET code = %[3]d + 20 WHERE id = %[1]d",
		"INSERT INTO chi SELECT %[1]d, max(id), min(code) FROM par ON CONFLICT DO NOTHING",
		"UPDATE chi SET p = (SELECT min(id) FROM par) WHERE id = %[1]d", "DELETE FROM chi WHERE id = %[1]d",
		"INSERT INTO log VALUES (%[1]d, 'y'), (%[1]d, NULL)", "UPDATE log SET y = 'z%[2]d' WHERE x = %[1]d",
		"DELETE FROM log WHERE x = %[1]d AND y IS NULL", "DELETE FROM log WHERE x > %[3]d + 6",
		"INSERT INTO pt VALUES (%[1]d, %[2]d, 'p') ON CONFLICT DO NOTHING", "UPDATE pt SET k = %[2]d WHERE id = %[1]d",
		"UPDATE pt SET x = x || 'q' WHERE k = %[2]d", "DELETE FROM pt WHERE id = %[1]d",
		"INSERT INTO px VALUES (%[1]d, %[2]d, %[3]d > 2)", "UPDATE px SET live = NOT live WHERE id = %[1]d",
		"UPDATE px SET x = x + 1", "DELETE FROM px WHERE id = %[1]d",
		"INSERT INTO ex VALUES (%[1]d, int4range(%[2]d, %[2]d + 2))",
		"UPDATE ex SET r = int4range(%[2]d * 3, %[2]d * 3 + 2) WHERE id = %[1]d", "DELETE FROM ex WHERE id = %[1]d",
		"INSERT INTO reg VALUES (%[1]d, 'int4', %[2]d / 3.0) ON CONFLICT (id) DO UPDATE SET t = 'acc', f = reg.f / 7",
		"INSERT INTO gen(k, x) VALUES (%[1]d, %[2]d) ON CONFLICT (k) DO UPDATE SET x = gen.x + 1",
		"UPDATE gen SET id = DEFAULT WHERE k = %[1]d", "DELETE FROM gen WHERE k = %[1]d",
		"MERGE INTO acc USING generate_series(%[2]d, %[1]d) g ON id = g WHEN MATCHED AND g %% 2 = 0 THEN DELETE WHEN " +
			"MATCHED THEN UPDATE SET n = 0 WHEN NOT MATCHED THEN INSERT VALUES (g, g, 'm')",
	}
	if r.IntN(60) == 0 {
		list = []string{"TRUNCATE par CASCADE", "TRUNCATE pt", "TRUNCATE log, uq", "TRUNCATE acc", "TRUNCATE px"}
	}
	s := list[r.IntN(len(list))]
	return fmt.Sprintf(s+" -- %[1]d %[2]d %[3]d", id, a, b)
}

// Random transactions with savepoints and failing statements, collected, encoded, decoded and
// applied in random batches, leave the databases equal.
func TestRandomWorkload(t *testing.T) {
	p := newPair(t, randomSchema...)
	for _, seed := range []uint64{1, 2, 3} {
		r := rand.New(rand.NewPCG(seed, 0))
		for range 150 {
			p.randomTransaction(r)
			if r.IntN(6) == 0 {
				rows := 1 + r.IntN(40)
				for _, batch := range apply.Batches(p.pending, rows, 1<<20) {
					if err := p.apply(batch); err != nil {
						t.Fatalf("seed %d: %s", seed, explain(err))
					}
				}
				p.pending = nil
			}
		}
		p.equal()
	}
	var n int
	p.scan(p.b, "SELECT count(*) FROM public.acc", &n)
	if n == 0 || p.rereads < 10 {
		t.Fatalf("the workload did too little: %d rows, %d re-reads", n, p.rereads)
	}
}

func (p *pair) randomTransaction(r *rand.Rand) {
	p.t.Helper()
	level := []string{"read committed", "repeatable read", "serializable"}[r.IntN(3)]
	p.exec(p.a, "BEGIN ISOLATION LEVEL "+level+"; SET LOCAL tutti.tx = on")
	var done []string
	for range 1 + r.IntN(8) {
		s := randomStatement(r)
		done = append(done, s)
		whole := p.bulk && r.IntN(2) == 0
		if whole {
			p.exec(p.a, "SET LOCAL tutti.tx = quiet_bulk")
			s = p.mark() + s
		}
		p.exec(p.a, "SAVEPOINT s")
		_, err := p.a.Exec(ctx, s)
		var pg *pgconn.PgError
		switch {
		case err != nil && (!errors.As(err, &pg) || pg.Code[:2] != "23" && pg.Code[:2] != "22" && pg.Code != "55006"):
			p.t.Fatalf("%s: %s", s, explain(err))
		case err != nil || r.IntN(8) == 0:
			p.exec(p.a, "ROLLBACK TO s")
		case r.IntN(2) == 0:
			p.exec(p.a, "RELEASE s")
		}
	}
	w, err := p.run(nil)
	if err != nil {
		p.t.Fatalf("%q: %s", done, explain(err))
	}
	if r.IntN(10) == 0 {
		p.exec(p.a, "ROLLBACK")
		return
	}
	p.exec(p.a, "COMMIT")
	p.pending = append(p.pending, w)
	seen := make(map[[2]uint64]bool)
	for _, row := range w.Rows {
		k := [2]uint64{uint64(row.Table), row.Identity}
		if row.Identity != 0 && row.Op != writeset.OpTruncate && seen[k] {
			p.t.Fatalf("an identity occurs twice in %+v", w)
		}
		seen[k] = true
	}
}
