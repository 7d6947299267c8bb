package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// build is the PostgreSQL all tests use.
var build = sync.OnceValues(func() (embedded.Build, error) { return embedded.Find(embedded.Options{}) })

// serverDir is a temporary directory that the server's user can enter, unlike t.TempDir.
func serverDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ti")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// options are those of a small server in dir/pg.
func options(t testing.TB, dir string) Options {
	t.Helper()
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Build: b, DataDir: filepath.Join(dir, "pg"), NoSync: true,
		Settings: map[string]string{"shared_buffers": "16MB", "max_connections": "20"},
	}
}

func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// managed is New, with the server stopped at the end of the test.
func managed(t testing.TB, o Options) *Instance {
	t.Helper()
	i := New(o)
	t.Cleanup(func() {
		if err := i.Stop(timeout(t)); err != nil && !errors.Is(err, ErrUnclean) {
			t.Error(err)
		}
	})
	return i
}

// initialized copies what Init makes, which takes a second, from a directory made once.
func initialized(t testing.TB, o Options) *Instance {
	t.Helper()
	dir, err := template()
	must(t, err)
	i := managed(t, o)
	must(t, os.MkdirAll(filepath.Dir(o.DataDir), 0o755))
	must(t, os.CopyFS(o.DataDir, os.DirFS(dir)))
	must(t, os.Chmod(o.DataDir, 0o700))
	return i
}

var templateParent string // removed by TestMain

var template = sync.OnceValues(func() (string, error) {
	b, err := build()
	if err != nil {
		return "", err
	}
	if templateParent, err = os.MkdirTemp("", "ti"); err != nil {
		return "", err
	}
	if err := os.Chmod(templateParent, 0o755); err != nil {
		return "", err
	}
	dir := filepath.Join(templateParent, "pg")
	return dir, New(Options{Build: b, DataDir: dir, NoSync: true}).Init(context.Background())
})

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(childMain(dir))
	}
	code := m.Run()
	if err := os.RemoveAll(templateParent); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func started(t testing.TB, o Options) *Instance {
	t.Helper()
	i := initialized(t, o)
	must(t, i.Start(timeout(t)))
	return i
}

func connect(t testing.TB, i *Instance) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(timeout(t), i.ConnString("", ""))
	must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func execSQL(t testing.TB, i *Instance, sql ...string) {
	t.Helper()
	c := connect(t, i)
	for _, s := range sql {
		if _, err := c.Exec(timeout(t), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	must(t, c.Close(timeout(t)))
}

func value(t testing.TB, i *Instance, sql string) (v string) {
	t.Helper()
	c := connect(t, i)
	if err := c.QueryRow(timeout(t), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	must(t, c.Close(timeout(t)))
	return v
}

func want(t testing.TB, i *Instance, sql, expected string) {
	t.Helper()
	if v := value(t, i, sql); v != expected {
		t.Fatalf("%s: got %q, want %q", sql, v, expected)
	}
}

func fails(t testing.TB, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", says)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Fatalf("the error does not say %q: %v", s, err)
		}
	}
}

// noneLeft fails if a server process lives on the data directory.
func noneLeft(t testing.TB, i *Instance) {
	t.Helper()
	gone, err := i.awaitGone(timeout(t), 30*time.Second)
	if err != nil || !gone {
		t.Fatalf("processes are left on %s (%v)", i.o.DataDir, err)
	}
}
