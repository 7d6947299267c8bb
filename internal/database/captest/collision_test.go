package captest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/capture"
)

// collide has the first database hash numerics without their signs, as PostgreSQL does: identities collide.
func (p *pair) collide() {
	p.t.Helper()
	p.exec(p.a, `BEGIN; SET LOCAL backtrace_functions = 'tutti_on';
		CREATE FUNCTION signless(n numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT trim_scale(abs(n))';
		DO $$ DECLARE f regprocedure; BEGIN
			FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'tutti'::regnamespace AND strpos(prosrc, 'pg_catalog.trim_scale') > 0 AND prosrc !~ 'key_form' LOOP
				EXECUTE replace(pg_get_functiondef(f), 'pg_catalog.trim_scale', 'public.signless');
			END LOOP;
		END $$; COMMIT`)
}

// Whatever way two rows of one identity are changed in a transaction, it fails; and a row whose key is only written
// otherwise is one.
func TestCollisions(t *testing.T) {
	schema := []string{"CREATE TABLE nk(k numeric PRIMARY KEY, v int)",
		"CREATE TABLE nt(k numeric PRIMARY KEY, r regclass, v int)",
		"CREATE TABLE np(a text, k numeric, b text, v int, PRIMARY KEY (k, a))",
		"CREATE TABLE other(id int PRIMARY KEY)"}
	collisions := []struct {
		name string
		sql  []string
		keys [2]string
	}{
		{"updates", []string{"UPDATE nk SET v = 10 WHERE k = 1", "UPDATE nk SET v = 20 WHERE k = -1"},
			[2]string{"1", "-1"}},
		{"one update of both", []string{"UPDATE nk SET v = v + 1 WHERE abs(k) = 1"}, [2]string{"1", "-1"}},
		{"a changed sign", []string{"UPDATE nk SET k = -k WHERE k = 2"}, [2]string{"2", "-2"}},
		{"insertions", []string{"INSERT INTO nk VALUES (3, 0), (-3.0, 0)"}, [2]string{"3", "-3.0"}},
		{"deletions", []string{"DELETE FROM nk WHERE k = 1", "DELETE FROM nk WHERE k = -1"}, [2]string{"1", "-1"}},
		{"a deletion and an update", []string{"DELETE FROM nk WHERE k = 1", "UPDATE nk SET v = 9 WHERE k = -1"},
			[2]string{"1", "-1"}},
		{"a deletion and an insertion", []string{"DELETE FROM nk WHERE k = 2", "INSERT INTO nk VALUES (-2, 0)"},
			[2]string{"2", "-2"}},
		{"gone again", []string{"INSERT INTO nk VALUES (-2, 0)", "DELETE FROM nk WHERE k = -2",
			"UPDATE nk SET v = 3 WHERE k = 2"}, [2]string{"-2", "2"}},
		{"in text", []string{"UPDATE nt SET v = 10 WHERE k = 1", "UPDATE nt SET v = 20 WHERE k = -1"},
			[2]string{"1", "-1"}},
		{"in text, a changed sign", []string{"UPDATE nt SET k = -k WHERE k = 2"}, [2]string{"2", "-2"}},
		{"of two columns", []string{"UPDATE np SET v = 10 WHERE k = 1", "UPDATE np SET v = 20 WHERE k = -1"},
			[2]string{"1, a", "-1, a"}},
	}
	for _, bulk := range []bool{false, true} {
		t.Run(fmt.Sprintf("bulk %t", bulk), func(t *testing.T) {
			p := newPair(t, schema...)
			p.bulk = bulk
			p.tx("INSERT INTO nk VALUES (1, 0), (-1, 0), (2, 0)",
				"INSERT INTO nt VALUES (1, 'nk', 0), (-1, 'nk', 0), (2, 'nk', 0)",
				"INSERT INTO np VALUES ('a', 1, 'x', 0), ('a', -1, 'x', 0)")
			for _, c := range collisions { // which are none
				p.tx(append([]string{"INSERT INTO other VALUES (1)", "DELETE FROM other"}, c.sql...)...)
				p.equal()
				p.tx("TRUNCATE nk, nt", "INSERT INTO nk VALUES (1, 0), (-1, 0), (2, 0)",
					"INSERT INTO nt VALUES (1, 'nk', 0), (-1, 'nk', 0), (2, 'nk', 0)")
			}
			p.equal()
			p.collide()
			for _, c := range collisions {
				_, err := p.try("read committed", c.sql...)
				var e *capture.Collision
				if !errors.As(err, &e) || e.Keys != c.keys && e.Keys != [2]string{c.keys[1], c.keys[0]} ||
					!strings.Contains(c.sql[0], " "+e.Table.Name+" ") {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			// One row, whose key is written in other ways.
			rereads := p.rereads
			p.tx("UPDATE nk SET k = 1.0, v = 1 WHERE k = 1", "UPDATE nk SET k = 1.00, v = v + 1 WHERE k = 1",
				"UPDATE nk SET v = v + 1 WHERE k = 1")
			p.tx("DELETE FROM nk WHERE k = -1", "INSERT INTO nk VALUES (-1.000, 7)",
				"UPDATE nt SET k = 2.0 WHERE k = 2", "UPDATE nt SET v = 5 WHERE k = 2",
				"UPDATE np SET k = -1.0 WHERE k = -1", "UPDATE np SET v = 8 WHERE k = -1")
			p.equal()
			if rereads == p.rereads {
				t.Error("the database was not asked")
			}
		})
	}
}

// Rows that direct statements return are compared, too.
func TestCollisionsOfDirectStatements(t *testing.T) {
	p := newPair(t, "CREATE TABLE nk(k numeric PRIMARY KEY, v int)")
	p.tx("INSERT INTO nk VALUES (1, 0), (-1, 0)")
	for _, planted := range []bool{false, true} {
		if planted {
			p.collide()
		}
		for _, sql := range [][]string{
			{"UPDATE nk SET v = 10 WHERE k = 1", "UPDATE nk SET v = 20 WHERE k = -1"},
			{"INSERT INTO nk VALUES (2.0, 3)", "INSERT INTO nk VALUES (-2, 3)"},
			{"DELETE FROM nk WHERE k = -1", "UPDATE nk SET v = 3 WHERE k = 1"},
			{"UPDATE nk SET v = v + 1"},
			{"DELETE FROM nk WHERE k = 1", "INSERT INTO nk VALUES (1.00, 3)"}, // one row
		} {
			var got capture.Collector
			var hows []*capture.Direct
			var texts []string
			for _, s := range sql {
				how, direct, ok := p.rewrite(s)
				if !ok {
					t.Fatalf("%s is not direct", s)
				}
				if planted {
					direct = strings.ReplaceAll(direct, "pg_catalog.trim_scale", "public.signless")
				}
				hows, texts = append(hows, how), append(texts, direct)
			}
			p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = quiet_direct")
			for i, how := range hows {
				direct := texts[i]
				if err := p.direct(how, direct, func(r capture.Returned) error { return got.AddReturned(&r) }); err !=
					nil {
					t.Fatal(explain(err))
				}
			}
			one := len(sql) == 2 && strings.Contains(sql[1], "1.00")
			rereads, err := got.Rereads()
			for i, q := range rereads {
				r := p.a.PgConn().ExecParams(ctx, q.SQL, [][]byte{q.Parameter}, []uint32{q.ParameterOID},
					[]int16{int16(q.Format)}, []int16{1})
				err = errors.Join(err, each(r, func(cols [][]byte) error { return got.AddFinal(i, cols) }))
			}
			w, err2 := got.Writeset()
			var e *capture.Collision
			if collides := errors.As(errors.Join(err, err2), &e); collides != (planted && !one) {
				t.Errorf("planted %t, %q: %v, %v, %v", planted, sql, w, err, err2)
			}
			if one && err2 == nil && (len(w.Rows) != 1 || len(rereads) != 1) {
				t.Errorf("one row is %+v, after %d questions", w, len(rereads))
			}
			p.exec(p.a, "ROLLBACK")
		}
	}
}
