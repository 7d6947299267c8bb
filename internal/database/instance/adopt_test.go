package instance

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestSettingsOfBefore: what PostgreSQL reads in a configuration file is read, and divided into what stays and what an
// operator is told of.
func TestSettingsOfBefore(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("postgresql.conf", "# a comment\n\n"+
		"TimeZone = 'Europe/Berlin'   # ours\nshared_buffers=1GB# more\nport 5433\n"+
		"search_path = '\"$user\", it''s \\'this\\''\nwork_mem = 5MB\ninclude_dir 'conf.d'\nfsync = on\n#jit = off\n")
	write("postgresql.auto.conf", "work_mem = '7MB'\n")
	all, err := ReadSettings(dir, "")
	must(t, err)
	want := map[string]string{"timezone": "Europe/Berlin", "shared_buffers": "1GB", "port": "5433",
		"search_path": `"$user", it's 'this'`, "work_mem": "7MB", "include_dir": "conf.d", "fsync": "on"}
	if !maps.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
	kept, left := Kept(all)
	if !maps.Equal(kept, map[string]string{"timezone": "Europe/Berlin"}) ||
		!slices.Equal(left, []string{"include_dir", "search_path", "shared_buffers", "work_mem"}) {
		t.Errorf("%v stay, %v is told of", kept, left)
	}
	elsewhere := filepath.Join(t.TempDir(), "postgresql.conf")
	if _, err := ReadSettings(dir, elsewhere); err == nil {
		t.Error("a file that is not there is read")
	}
	must(t, os.WriteFile(elsewhere, []byte("jit = off\n"), 0o600))
	if all, err := ReadSettings(dir, elsewhere); err != nil ||
		!maps.Equal(all, map[string]string{"jit": "off", "work_mem": "7MB"}) {
		t.Errorf("with a file elsewhere: %v, %v", all, err)
	}
	write("postgresql.conf"+beforeSuffix, "jit = on\n") // an adoption before was broken off
	want = map[string]string{"jit": "on", "work_mem": "7MB"}
	if all, err := ReadSettings(dir, ""); err != nil || !maps.Equal(all, want) {
		t.Errorf("after a broken adoption: %v, %v", all, err)
	}
}

// stopped is a server that was stopped, with a table and a configuration that no other server could use.
func stopped(t *testing.T, dir string) *Instance {
	t.Helper()
	i := New(options(t, dir))
	must(t, i.Init(timeout(t)))
	must(t, i.Start(timeout(t)))
	conn, err := pgx.Connect(timeout(t), i.ConnString("", ""))
	must(t, err)
	_, err = conn.Exec(timeout(t), "CREATE TABLE kept AS SELECT 7 AS v")
	must(t, errors.Join(err, conn.Close(timeout(t)), i.Stop(timeout(t))))
	must(t, os.Remove(filepath.Join(i.o.DataDir, confName)))
	must(t, os.WriteFile(filepath.Join(i.o.DataDir, "pg_hba.conf"), []byte("local all all reject\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(i.o.DataDir, "postgresql.conf"), []byte("hba_file = '/nowhere'\n"), 0o600))
	return i
}

// holds fails unless a server starts on an instance's directory, and has the table.
func holds(t *testing.T, i *Instance) {
	t.Helper()
	must(t, i.Start(timeout(t)))
	conn, err := pgx.Connect(timeout(t), i.ConnString("", ""))
	must(t, err)
	var v int
	err = conn.QueryRow(timeout(t), "SELECT v FROM kept").Scan(&v)
	if must(t, errors.Join(err, conn.Close(timeout(t)), i.Stop(timeout(t)))); v != 7 {
		t.Errorf("the table has %d", v)
	}
	if is, err := Adopted(i.o.DataDir); !is || err != nil {
		t.Errorf("%s is not adopted, %v", i.o.DataDir, err)
	}
}

// TestAdopt: a directory is copied, moved, or used where it is; the copy leaves everything as it was.
func TestAdopt(t *testing.T) {
	dir := serverDir(t)
	old := stopped(t, dir)
	from := old.o.DataDir
	must(t, MayAdopt(from))

	o := options(t, dir)
	o.DataDir = filepath.Join(dir, "copied", "pg")
	copied := New(o)
	var bytes int64
	must(t, Adopt(timeout(t), copied, Adoption{From: from, Settings: map[string]string{"timezone": "Asia/Tokyo"},
		Progress: func(n int64) { bytes = n }}))
	if bytes < 1<<20 {
		t.Errorf("%d bytes were copied", bytes)
	}
	if is, err := Adopted(from); is || err != nil {
		t.Errorf("what was copied says that it was adopted, %v", err)
	}
	if conf, err := os.ReadFile(filepath.Join(from, "postgresql.conf")); string(conf) != "hba_file = '/nowhere'\n" {
		t.Errorf("what was copied has other settings: %s, %v", conf, err)
	}
	conf, err := os.ReadFile(filepath.Join(o.DataDir, "postgresql.conf"))
	if must(t, err); !strings.Contains(string(conf), "timezone = 'Asia/Tokyo'") {
		t.Errorf("the copy has the settings %s", conf)
	}
	holds(t, copied)
	if err := Adopt(timeout(t), copied, Adoption{From: from}); !errors.Is(err, ErrInitialized) {
		t.Errorf("onto another database: %v", err)
	}
	if err := Adopt(timeout(t), copied, Adoption{From: from, Move: true}); !errors.Is(err, ErrInitialized) {
		t.Errorf("moved onto another database: %v", err)
	}

	o.DataDir = filepath.Join(dir, "moved", "pg")
	moved := New(o)
	must(t, Adopt(timeout(t), moved, Adoption{From: from, Move: true}))
	if _, err := os.Stat(from); err == nil {
		t.Error("what was moved is still there")
	}
	hba, err := os.ReadFile(filepath.Join(o.DataDir, "pg_hba.conf"+beforeSuffix))
	if must(t, err); string(hba) != "local all all reject\n" {
		t.Errorf("its pg_hba.conf of before is %s", hba)
	}
	holds(t, moved)
	must(t, os.Remove(filepath.Join(o.DataDir, adoptedName)))
	must(t, Adopt(timeout(t), moved, Adoption{From: o.DataDir}))
	holds(t, moved)
}

// TestCopiesOfAdopted: a clone says that it was adopted, too, and asks for passwords as its donor does.
func TestCopiesOfAdopted(t *testing.T) {
	dir := serverDir(t)
	old := stopped(t, dir)
	must(t, Adopt(timeout(t), old, Adoption{From: old.o.DataDir}))
	must(t, old.Start(timeout(t)))
	o := options(t, dir)
	o.DataDir = filepath.Join(dir, "clone")
	clone := New(o)
	must(t, clone.Clone(timeout(t), old.ConnString("", ""), nil))
	must(t, old.Stop(timeout(t)))
	hba, err := os.ReadFile(filepath.Join(o.DataDir, "pg_hba.conf"))
	if must(t, err); string(hba) != hbaWithPasswords {
		t.Errorf("its pg_hba.conf is %s", hba)
	}
	holds(t, clone)
}

// TestVisit: a server is only read, nothing of its directory's configuration counts or changes, and it can be adopted
// afterwards as before.
func TestVisit(t *testing.T) {
	dir := serverDir(t)
	old := stopped(t, dir)
	from := old.o.DataDir
	v, err := NewVisit(timeout(t), old.o.Build, from)
	must(t, err)
	conn, err := pgx.Connect(timeout(t), v.ConnString("postgres"))
	must(t, err)
	var n int
	if err := conn.QueryRow(timeout(t), "SELECT v FROM kept").Scan(&n); err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := conn.Exec(timeout(t), "DELETE FROM kept"); err == nil {
		t.Error("it can be written to")
	}
	err = MayAdopt(from)
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "pg_ctl stop -m fast -D "+from) {
		t.Errorf("while a server runs: %v", err)
	}
	must(t, conn.Close(timeout(t)))
	must(t, v.Close())
	if _, err := os.Stat(v.dir); err == nil {
		t.Errorf("%s is left", v.dir)
	}
	for name, want := range map[string]string{"pg_hba.conf": "local all all reject\n",
		"postgresql.conf": "hba_file = '/nowhere'\n"} {
		if text, err := os.ReadFile(filepath.Join(from, name)); string(text) != want {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
	must(t, MayAdopt(from))
}

// TestOwnVisit: the server of a node that was stopped, or killed, is looked at, and has not ended cleanly then.
func TestOwnVisit(t *testing.T) {
	for _, killed := range []bool{false, true} {
		o := options(t, serverDir(t))
		i := New(o)
		if _, err := NewOwnVisit(timeout(t), o.Build, o.DataDir); err == nil {
			t.Fatal("there is no server to look at")
		}
		must(t, i.Init(timeout(t)))
		must(t, i.Start(timeout(t)))
		conn, err := pgx.Connect(timeout(t), i.ConnString("", ""))
		must(t, err)
		if killed {
			must(t, syscall.Kill(i.Pid(), syscall.SIGKILL))
		} else {
			must(t, errors.Join(conn.Close(timeout(t)), i.Stop(timeout(t))))
		}
		v, err := NewOwnVisit(timeout(t), o.Build, o.DataDir)
		must(t, err)
		conn, err = pgx.Connect(timeout(t), v.ConnString("postgres"))
		must(t, err)
		must(t, errors.Join(conn.Ping(timeout(t)), v.Close()))
		i = New(o)
		must(t, i.Start(timeout(t)))
		if i.CleanShutdownBefore() {
			t.Errorf("killed %v: what was looked at counts as shut down cleanly", killed)
		}
		must(t, i.Stop(timeout(t)))
	}
}

// TestMayNotAdopt: what is no data directory, or not one of a server that was shut down cleanly.
func TestMayNotAdopt(t *testing.T) {
	refused := func(dir, want string) {
		t.Helper()
		if err := MayAdopt(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
	dir := serverDir(t)
	refused(dir, "is no data directory")
	refused(filepath.Join(dir, "none"), "is no data directory")
	must(t, os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("9.6\n"), 0o600))
	refused(dir, "which is no version that Tutti can run")

	i := New(options(t, dir))
	must(t, i.Init(timeout(t)))
	must(t, i.Start(timeout(t)))
	refused(i.o.DataDir, "already running: stop the node to which it belongs")
	must(t, i.Kill())
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if pids, err := serversOn(i.o.DataDir); err == nil && len(pids) == 0 {
			break
		}
	}
	refused(i.o.DataDir, "was not shut down cleanly")
	must(t, i.Start(timeout(t)))
	must(t, i.Stop(timeout(t)))
	must(t, MayAdopt(i.o.DataDir))
	for _, name := range []string{"standby.signal", "backup_label"} {
		path := filepath.Join(i.o.DataDir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		refused(i.o.DataDir, "has a file "+name)
		must(t, os.Remove(path))
	}
	if names, err := Prepared(i.o.DataDir); err != nil || len(names) > 0 {
		t.Errorf("prepared: %v, %v", names, err)
	}
	fifo := filepath.Join(i.o.DataDir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	o := options(t, dir)
	o.DataDir = filepath.Join(dir, "copy")
	if err := Adopt(timeout(t), New(o), Adoption{From: i.o.DataDir}); err == nil ||
		!strings.Contains(err.Error(), "is neither a file nor a directory") {
		t.Errorf("what cannot be copied: %v", err)
	}
	if left, err := filepath.Glob(o.DataDir + "*"); err != nil || len(left) > 1 { // its lock
		t.Errorf("%v is left", left)
	}
}
