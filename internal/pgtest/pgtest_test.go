package pgtest

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

func one(t *testing.T, s *Server, db, sql string) (v string) {
	t.Helper()
	if err := s.Connect(t, db).QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestStart(t *testing.T) {
	var dir, socket string
	t.Run("two servers", func(t *testing.T) {
		began := time.Now()
		s := Start(t, Setting("work_mem", "5MB"))
		t.Logf("started in %v", time.Since(began))
		began = time.Now()
		other := Start(t, Durable())
		t.Logf("started in %v", time.Since(began))
		dir, socket = s.dir, s.SocketPath()
		if v := one(t, s, "", "SHOW work_mem"); v != "5MB" {
			t.Errorf("work_mem %s", v)
		}
		if a, b := one(t, s, "", "SHOW fsync"), one(t, other, "", "SHOW fsync"); a != "off" || b != "on" {
			t.Errorf("fsync %s, Durable %s", a, b)
		}
		s.Exec(t, "", "CREATE TABLE a(i int)")
		if v := one(t, other, "", "SELECT count(*)::text FROM pg_class WHERE relname='a'"); v != "0" {
			t.Error("the servers share a database")
		}
	})
	for _, p := range []string{dir, socket} {
		if _, err := os.Stat(p); err == nil {
			t.Errorf("%s is left", p)
		}
	}
}

func TestKillAndRestart(t *testing.T) {
	s := Start(t)
	db := s.NewDatabase(t)
	s.Exec(t, db, "CREATE TABLE a(i int)", "SET synchronous_commit=on", "INSERT INTO a VALUES (1)")
	s.Kill(t)
	if s.Instance().Pid() != 0 {
		t.Fatal("still runs")
	}
	s.Restart(t)
	if v := one(t, s, db, "SELECT count(*)::text FROM a"); v != "1" {
		t.Fatalf("%s rows", v)
	}
	s.Restart(t)
	if !s.Instance().CleanShutdownBefore() {
		t.Error("Restart did not stop cleanly")
	}
}

func TestShared(t *testing.T) {
	s := Shared(t)
	if Shared(t) != s {
		t.Fatal("two shared servers")
	}
	var first string
	t.Run("a", func(t *testing.T) {
		first = s.NewDatabase(t)
		s.Exec(t, first, "CREATE TABLE only_in_first()")
	})
	second := s.NewDatabase(t)
	if second == first {
		t.Fatal("the same database twice")
	}
	if v := one(t, s, "", "SELECT count(*)::text FROM pg_database WHERE datname='"+first+"'"); v != "0" {
		t.Error("the first database was not dropped")
	}
}

func TestMainStopsTheSharedServer(t *testing.T) {
	shared.Lock()
	before := shared.server
	shared.server = nil
	shared.Unlock()
	var s *Server
	code := run(func() int { s = Shared(t); return 3 })
	if code != 3 || s.Instance().Pid() != 0 {
		t.Errorf("exit code %d, process %d", code, s.Instance().Pid())
	}
	if _, err := os.Stat(s.dir); err == nil {
		t.Errorf("%s is left", s.dir)
	}
	shared.Lock()
	shared.server = before
	shared.Unlock()
}

func TestTempDir(t *testing.T) {
	s := Start(t)
	if err := s.Connect(t, "").Ping(context.Background()); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(TempDir(t))
	if err != nil || fi.Mode().Perm() != 0o755 {
		t.Fatalf("%v %v", fi, err)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := start(nil)
		if err == nil {
			err = s.close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
