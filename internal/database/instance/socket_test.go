package instance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExplicitSocketDirTooLong(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	o.SocketDir = filepath.Join(dir, strings.Repeat("s", 100))
	i := initialized(t, o)
	fails(t, i.Start(timeout(t)), "socket path", "107", "shorter")
}

func TestLongestSocketPath(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	o.Port = 65535
	fill := maxSocketPath() - len(filepath.Join(dir, "x", ".s.PGSQL.65535"))
	o.SocketDir = filepath.Join(dir, strings.Repeat("x", fill+1))
	i := started(t, o)
	if n := len(i.SocketPath()); n != maxSocketPath() {
		t.Fatalf("%d bytes", n)
	}
	want(t, i, "SELECT 'hello'", "hello")
}

func TestLongDataDirFallsBack(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	o.DataDir = filepath.Join(dir, strings.Repeat("d", 100), "pg")
	i := started(t, o)
	want(t, i, "SELECT 'hello'", "hello")
	first := i.SocketDir()
	t.Cleanup(func() { must(t, os.RemoveAll(first)) })
	must(t, i.Stop(timeout(t)))

	// A later life finds the recorded directory.
	again := managed(t, o)
	if again.SocketDir() != first {
		t.Fatalf("before Start: %s, want %s", again.SocketDir(), first)
	}
	must(t, again.Start(timeout(t)))
	must(t, again.Stop(timeout(t)))

	// A recorded directory that others can write to is not used again.
	must(t, os.Chmod(first, 0o777))
	must(t, again.Start(timeout(t)))
	if again.SocketDir() == first {
		t.Fatal("uses a directory that is open to others")
	}
	t.Cleanup(func() { must(t, os.RemoveAll(again.SocketDir())) })
	want(t, again, "SELECT 'hello'", "hello")
}

// Quotes and blanks in a path survive the command line, the settings and the connection string.
func TestOddPath(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	o.DataDir = filepath.Join(dir, `it's a "da\ta" dir`)
	o.Settings["tutti.test"] = `it's a \ value`
	i := started(t, o)
	want(t, i, "SHOW tutti.test", `it's a \ value`)
	want(t, i, "SHOW data_directory", o.DataDir)
}

// A comma separates hosts in a connection string and cannot be quoted.
func TestComma(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	o.DataDir = filepath.Join(dir, "a,b")
	i := started(t, o)
	t.Cleanup(func() { must(t, os.RemoveAll(i.SocketDir())) })
	want(t, i, "SELECT 'hello'", "hello")
	must(t, i.Stop(timeout(t)))
	o.SocketDir = filepath.Join(dir, "c,d")
	fails(t, managed(t, o).Start(timeout(t)), "comma")
}
