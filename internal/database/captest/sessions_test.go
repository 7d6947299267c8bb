package captest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/pgtest"
)

// TestSessionsView: tutti.sessions shows the address of a session to whom pg_stat_activity shows anything of it, and
// to nobody else.
func TestSessionsView(t *testing.T) {
	p := newPair(t)
	s := pgtest.Shared(t)
	role := func(name string) string { return p.dbA + "_" + name }
	p.exec(p.a, "SET backtrace_functions = 'tutti_on'")
	for _, name := range []string{"ann", "bob", "watch", "group"} {
		p.exec(p.a, "CREATE ROLE "+role(name)+" LOGIN")
		defer p.exec(p.a, "DROP ROLE "+role(name))
	}
	p.exec(p.a, "GRANT pg_monitor TO "+role("watch"))
	p.exec(p.a, "GRANT "+role("group")+" TO "+role("bob"))
	p.exec(p.a, "RESET backtrace_functions")
	f, err := s.Instance().Share(capture.SessionsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer func() { _ = f.Truncate(0) }() // the server is shared
	as := map[string]*pgx.Conn{"postgres": p.a}
	for _, name := range []string{"ann", "bob", "watch", "group"} {
		c, err := pgx.Connect(ctx, s.Instance().ConnString(role(name), p.dbA))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(ctx)
		as[name] = c
	}
	now := time.Now()
	record := func(c *pgx.Conn, at time.Time, address, tls string) {
		t.Helper()
		if _, err := f.Write(capture.SessionRecord(c.PgConn().PID(), at.UnixMicro(), address, 4711, tls)); err != nil {
			t.Fatal(err)
		}
	}
	record(as["ann"], now, "10.0.0.1", "TLSv1.3")
	record(as["bob"], now, "fd00::2", "")
	record(as["watch"], now.Add(-time.Hour), "10.9.9.9", "") // of another that had this pid
	torn := capture.SessionRecord(as["group"].PgConn().PID(), now.UnixMicro(), "10.9.9.8", 1, "")
	if _, err := f.Write([]byte(strings.TrimRight(string(torn), " \n0123456789") + " 7" + strings.Repeat(" ",
		20) + "\n")); err != nil {
		t.Fatal(err)
	}
	record(as["group"], now, "10.0.0.4", "")
	const sessions = `SELECT coalesce(string_agg(format('%s %s %s %s', replace(usename, current_database() || '_', ` +
		`''), client_addr, client_port, tls), ', ' ORDER BY usename), '') FROM tutti.sessions`
	const all = "ann 10.0.0.1 4711 TLSv1.3, bob fd00::2 4711 , group 10.0.0.4 4711 "
	for who, want := range map[string]string{
		"postgres": all, "watch": all,
		"ann":   "ann 10.0.0.1 4711 TLSv1.3, bob   , group   , watch   ", // since when watch is there they do not see
		"bob":   "ann   , bob fd00::2 4711 , group 10.0.0.4 4711 , watch   ",
		"group": "ann   , bob   , group 10.0.0.4 4711 , watch   ",
	} {
		var got, differ string
		p.scan(as[who], sessions, &got)
		p.scan(as[who],
			"SELECT count(*)::text FROM tutti.sessions s JOIN pg_stat_activity a USING (pid) WHERE (a.backend_start "+
				"IS NULL) <> (s.client_addr IS NULL)", &differ)
		if got != want || differ != "0" {
			t.Errorf("%s is shown %q, want %q; %s differ from pg_stat_activity", who, got, want, differ)
		}
	}
	var elsewhere string
	if p.scan(p.b, strings.ReplaceAll(sessions, "current_database()", "'"+p.dbA+"'"), &elsewhere); elsewhere != all {
		t.Errorf("in another database %q", elsewhere)
	}
	p.exec(as["postgres"], "SET ROLE "+role("ann"))
	var got string
	if p.scan(as["postgres"], sessions, &got); !strings.HasPrefix(got, "ann 10.0.0.1 4711 TLSv1.3, bob   ,") {
		t.Errorf("a superuser who has become ann is shown %q", got)
	}
	p.exec(as["postgres"], "RESET ROLE")
	sessionsNotForged(p, as["ann"])
	for range 3 { // reinstalled as at each start, although somebody has a view of it
		p.exec(p.a, "SET backtrace_functions = 'tutti_on'; CREATE OR REPLACE VIEW public.mine AS SELECT * FROM "+
			"tutti.sessions; RESET backtrace_functions")
		p.install(p.a)
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if p.scan(p.a, sessions, &got); got != "" {
		t.Errorf("without records %q", got)
	}
}

// sessionsNotForged: a client gets at the records neither by the function, nor by what it puts in front of the view's.
func sessionsNotForged(p *pair, c *pgx.Conn) {
	p.t.Helper()
	for _, q := range []string{
		"SELECT * FROM tutti.session_records('wrong')", "SELECT * FROM tutti.session_records(NULL)",
		"SELECT secret FROM tutti.token", "INSERT INTO tutti.sessions (pid) VALUES (1)",
		"SELECT r.* FROM tutti.token k, tutti.session_records(k.secret) r", fmt.Sprintf("SELECT pg_read_file('%s')",
			capture.SessionsFile),
	} {
		if _, err := c.Exec(ctx, q); err == nil {
			p.t.Errorf("%s is carried out", q)
		}
	}
	p.exec(c, `CREATE FUNCTION pg_temp.tell(inet) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN IF host($1) `+
		`<> '10.0.0.1' THEN RAISE EXCEPTION 'told %', $1; END IF; RETURN true; END $$`)
	p.exec(c, "SELECT * FROM tutti.sessions WHERE client_addr IS NULL OR pg_temp.tell(client_addr)")
	p.exec(c, "CREATE TEMP TABLE pg_stat_activity (pid int)")
	var n int
	if p.scan(c, "SELECT count(*) FROM tutti.sessions WHERE client_addr IS NOT NULL", &n); n != 1 {
		p.t.Errorf("%d addresses are shown beside a table of the client's that is named pg_stat_activity", n)
	}
	p.exec(c, "DISCARD TEMP") // a server is not done with it when its session has been closed, and the role owns it
}

// TestSessionRecords: all have one length, whatever is in them.
func TestSessionRecords(t *testing.T) {
	for _, r := range [][]byte{
		capture.SessionRecord(1, 2, "10.0.0.1", 3, ""), capture.SessionRecord(4294967295, 9223372036854775807,
			strings.Repeat("ffff:", 7)+"255.255.255.255", 65535, "TLSv1.3"),
		capture.SessionRecord(1, 2, strings.Repeat("x", 500), 3, ""),
	} {
		if len(r) != capture.SessionRecordBytes || strings.Count(string(r), "\n") != 1 || r[len(r)-1] != '\n' {
			t.Errorf("%q", r)
		}
	}
}
