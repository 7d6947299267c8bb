package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestUnkeyed: statements that look for rows by columns of keys and by others, prepared or not, one after the other in
// transactions, change the same rows at all members. What is captured as a whole is chosen by a guess, which a client
// may also drive wrong: with a table of the same name in another schema, or a key that comes and goes.
func TestUnkeyed(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE unkeyed(id int PRIMARY KEY, a int, b text, u int UNIQUE)", "CREATE INDEX ON unkeyed(a)",
		"CREATE SCHEMA unkeyed_too", "CREATE TABLE unkeyed_too.unkeyed(id int, a int PRIMARY KEY, b text, u int)",
		"INSERT INTO unkeyed SELECT g, g % 50, g % 7, g FROM generate_series(1, 3000) g",
		"INSERT INTO unkeyed_too.unkeyed SELECT g % 50, g, g % 7, g FROM generate_series(1, 3000) g")
	r := rand.New(rand.NewPCG(1, 0))
	for i := range 60 {
		table := []string{"unkeyed", "unkeyed_too.unkeyed"}[r.IntN(2)]
		change := []string{"UPDATE %s SET b = b || '=' WHERE ", "UPDATE %s SET u = -u WHERE ",
			"UPDATE %s SET id = id + 10000, a = a + 10000 WHERE ", "DELETE FROM %s WHERE ",
			"UPDATE %s SET a = a WHERE "}[r.IntN(5)]
		where := []string{"id = %d", "a = %d", "b = '%d'", "id %% 50 = %d", "a %% 50 = %d", "u IN (%d, 7)",
			"id = %d OR b = '3'", "NOT b = '%d' AND a < 20", "(id, a) = (%[1]d, %[1]d)"}[r.IntN(9)]
		sql := fmt.Sprintf(change, table) + where
		if r.IntN(2) == 0 {
			s.Do("BEGIN", fmt.Sprintf(sql, r.IntN(50)),
				fmt.Sprintf("UPDATE %s SET b = 'x' WHERE id = %d", table, r.IntN(50)), fmt.Sprintf(sql, r.IntN(50)),
				"COMMIT")
			continue
		}
		for range 3 { // the second time it may be direct
			if _, err := s.Exec(s.ctx(), fmt.Sprintf("UPDATE %s SET b = $1 WHERE b = $2", table), fmt.Sprint(i),
				fmt.Sprint(r.IntN(7))); err != nil {
				t.Fatal(Explain(err))
			}
			s.Do(fmt.Sprintf(sql, r.IntN(50)))
		}
		if i%10 == 0 {
			s.Do(fmt.Sprintf("INSERT INTO unkeyed SELECT g + %d, g %% 50, g %% 7, g + %[1]d FROM generate_series(1, "+
				"500) g", (i/10+1)*300_000_000))
		}
		if i == 30 {
			s.Do("ALTER TABLE unkeyed DROP CONSTRAINT unkeyed_pkey", "UPDATE unkeyed SET b = 'y' WHERE a = 1",
				"ALTER TABLE unkeyed ADD PRIMARY KEY (id)", "UPDATE unkeyed SET b = 'z' WHERE a = 2")
		}
	}
	for _, table := range []string{"unkeyed", "unkeyed_too.unkeyed"} {
		q := fmt.Sprintf("SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM %s x", table)
		c.Everywhere(q, s.Get(q))
	}
}

// TestTriggersSeeTheClientsText: triggers that note who has said what, as those of audits do, are told the client's own
// text.
func TestTriggersSeeTheClientsText(t *testing.T) {
	c := use(t)
	s := c.Connect(2)
	s.Do("CREATE TABLE audited(id int PRIMARY KEY, v int)", "CREATE TABLE audit(id serial PRIMARY KEY, said text)",
		"CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit(said) VALUES "+
			"(current_query()); RETURN NULL; END $$",
		"CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON audited FOR EACH STATEMENT EXECUTE FUNCTION audit()")
	texts := []string{"INSERT INTO audited SELECT g, g FROM generate_series(1, 9) g",
		"UPDATE public.audited SET v = v + 1", "UPDATE audited SET v = 0 WHERE v = 3", "DELETE FROM audited",
		"MERGE INTO audited USING (VALUES (1)) x(a) ON id = a WHEN NOT MATCHED THEN INSERT VALUES (a)"}
	s.Do(texts...)
	c.Everywhere("SELECT string_agg(said, '; ' ORDER BY id) FROM audit", strings.Join(texts, "; "))
	c.Check()
	s.Do("DROP TABLE audited, audit", "DROP FUNCTION audit()")
}
