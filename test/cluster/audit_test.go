package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
)

// TestAudit: what makes one copy differ, behind Tutti's back, is found by the cluster itself and told at every node, by
// table and member, and told no more when it is mended. What goes on beside it is no difference.
func TestAudit(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, func(_ int, cfg *config.Config) { cfg.Limits.AuditIntervalS = 1; cfg.Limits.AuditPercent = 50 })
	s := c.Connect(1)
	s.Do("CREATE DATABASE aside", "CREATE TABLE walked(a int, b text, v int, PRIMARY KEY (a, b))",
		"INSERT INTO walked SELECT i % 7, 'it''s ' || i, i FROM generate_series(1, 4000) i",
		"CREATE TABLE scanned(v int)", "INSERT INTO scanned SELECT generate_series(1, 3000)",
		"CREATE MATERIALIZED VIEW viewed AS SELECT v FROM walked WHERE v < 100",
		"CREATE TABLE parent(id int PRIMARY KEY) PARTITION BY RANGE (id)",
		"CREATE TABLE child PARTITION OF parent FOR VALUES FROM (0) TO (10)",
		"INSERT INTO parent SELECT generate_series(0, 9)",
		`CREATE TABLE "Odd ' name"("K" numeric PRIMARY KEY)`, `INSERT INTO "Odd ' name" VALUES (1.50), (-2)`)
	c.In("aside").Connect(3).Do("CREATE TABLE walked(a int PRIMARY KEY)",
		"INSERT INTO walked SELECT generate_series(1, 10)")
	nodes := []*Conn{s, c.Connect(2), c.Connect(3)}
	passes := func() (n uint64) {
		for _, s := range nodes {
			n += s.counters()["audit_passes"]
		}
		return n
	}
	differs := func(k, member int) string {
		r, err := nodes[k-1].PgConn().Exec(t.Context(), "SHOW tutti.status").ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(r[0].FieldDescriptions,
			func(f pgconn.FieldDescription) bool { return f.Name == "differs" })
		return string(r[0].Rows[member-1][at])
	}
	writer := c.Connect(2)
	from := passes()
	for n := 0; passes() < from+2; n++ {
		time.Sleep(pollInterval)
		if err := writer.Try(fmt.Sprintf("UPDATE walked SET v = v + 1 WHERE a = 1; DELETE FROM scanned WHERE v = %d; "+
			"INSERT INTO walked VALUES (3, 'new %[1]d', 0)", n)); err != nil && Code(err) != "40001" {
			t.Fatal(err)
		}
	}
	for _, k := range c.All() {
		if got := differs(1, k); got != "" {
			t.Fatalf("node %d is said to differ in %s, and nobody has damaged it", k, got)
		}
	}
	tell := func(member int, want string) {
		t.Helper()
		for _, k := range c.All() {
			got := ""
			c.soon(func() bool {
				got = differs(k, member)
				return got == want || want != "" && strings.HasPrefix(got, want+" at ordinal ")
			},
				func() string {
					return fmt.Sprintf("node %d says of node %d that it differs in %q, not in %q", k, member, got, want)
				})
		}
	}
	for _, damage := range []struct {
		node                        int
		database, do, undo, differs string
	}{
		{2, "postgres", "UPDATE walked SET v = -1 WHERE a = 3 AND b = 'it''s 10'",
			"UPDATE walked SET v = 10 WHERE a = 3 AND b = 'it''s 10'", "public.walked"},
		{1, "postgres", "INSERT INTO scanned VALUES (7777)", "DELETE FROM scanned WHERE v = 7777", "public.scanned"},
		{2, "postgres", `UPDATE "Odd ' name" SET "K" = 2 WHERE "K" = -2`,
			`UPDATE "Odd ' name" SET "K" = -2 WHERE "K" = 2`, `public."Odd ' name"`},
		{3, "aside", "DELETE FROM walked WHERE a = 10", "INSERT INTO walked VALUES (10)", "aside: public.walked"},
	} {
		t.Run(damage.differs, func(t *testing.T) {
			conn := c.alone(damage.node, damage.database)
			exec := func(sql string) {
				t.Helper()
				if _, err := conn.Exec(t.Context(),
					"SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica"); err != nil {
					t.Fatal(err)
				}
				if tag, err := conn.Exec(t.Context(), sql); err != nil || tag.RowsAffected() != 1 {
					t.Fatalf("%s: %v %v", sql, tag, err)
				}
			}
			exec(damage.do)
			tell(damage.node, damage.differs)
			exec(damage.undo)
			tell(damage.node, "")
		})
	}
	c.Check()
}
