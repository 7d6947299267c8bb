package instance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func init() { rotateInterval = 10 * time.Millisecond }

// TestLogRotates: while several sessions log, the log is moved aside many times, and no line is lost, or twice there.
func TestLogRotates(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	o.LogFile = filepath.Join(dir, "my%d.log")
	o.LogBytesMax, o.LogFilesMax = 200_000, 1000
	i := initialized(t, o)
	must(t, i.Start(timeout(t)))
	want(t, i, "SELECT current_setting('logging_collector')", "on")
	const sessions, lines = 3, 6000
	var wg sync.WaitGroup
	for s := range sessions {
		wg.Go(func() {
			c, err := pgx.Connect(t.Context(), i.ConnString("", ""))
			if err == nil {
				_, err = c.Exec(t.Context(),
					fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP RAISE LOG 'numbered %% %% .', %d, i; END LOOP; END $$",
						lines, s))
				_ = c.Close(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, i.Stop(timeout(t)))
	files := logFiles(t, o.LogFile)
	if len(files) < 2 { // how often it is looked at depends on the machine
		t.Errorf("only %d files", len(files))
	}
	numbered := regexp.MustCompile(`(?m)LOG:  numbered (\d+) (\d+) \.$`)
	next := [sessions]int{}
	var last []byte // that has something: the log may have been moved aside at the last moment
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 0 {
			last = b
		}
		for _, m := range numbered.FindAllStringSubmatch(string(b), -1) {
			s, _ := strconv.Atoi(m[1])
			n, _ := strconv.Atoi(m[2])
			if next[s]++; n != next[s] {
				t.Fatalf("%s: session %d: line %d where %d should be", f, s, n, next[s])
			}
		}
	}
	for s, n := range next {
		if n != lines {
			t.Errorf("session %d: %d lines of %d", s, n, lines)
		}
	}
	if !strings.Contains(string(last), "database system is shut down") {
		t.Errorf("the last file that has something does not have the end:\n%s", last)
	}
}

// logFiles lists the files of a log, the oldest first.
func logFiles(t *testing.T, path string) (out []string) {
	t.Helper()
	for n := 1; ; n++ {
		f := fmt.Sprintf("%s.%d", path, n)
		if _, err := os.Stat(f); err != nil {
			return append(out, path)
		}
		out = append([]string{f}, out...)
	}
}

// TestLogIsBounded: there are never more files than LogFilesMax; settings of the user's own leave the log alone.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	o.LogBytesMax, o.LogFilesMax = 20_000, 3
	i := initialized(t, o)
	must(t, i.Start(timeout(t)))
	for range 12 {
		execSQL(t, i,
			"DO $$ BEGIN FOR i IN 1..300 LOOP RAISE LOG 'another line, of which there are too many'; END LOOP; END $$")
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if fi, err := os.Stat(i.o.LogFile); err == nil && fi.Size() < o.LogBytesMax {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the log is not moved aside")
		}
	}
	if n := len(logFiles(t, i.o.LogFile)); n != 3 {
		t.Errorf("%d files", n)
	}
	must(t, i.Stop(timeout(t)))
	o.Settings["logging_collector"] = "off"
	i = managed(t, o)
	must(t, i.Start(timeout(t)))
	before, err := os.Stat(i.o.LogFile)
	must(t, err)
	execSQL(t, i,
		"DO $$ BEGIN FOR i IN 1..1000 LOOP RAISE LOG 'another line, of which there are too many'; END LOOP; END $$")
	time.Sleep(20 * rotateInterval)
	if after, err := os.Stat(i.o.LogFile); err != nil || !os.SameFile(before, after) {
		t.Errorf("without a collector the log was moved aside under the server: %v", err)
	}
}

// TestLogTellsWhy: what the server says before it fails to start is in the error, although the collector writes it.
func TestLogTellsWhy(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	o.LogBytesMax = 1 << 20
	i := initialized(t, o)
	must(t, os.WriteFile(filepath.Join(o.DataDir, "recovery.signal"), nil, 0o644))
	fails(t, i.Start(timeout(t)), "must specify restore_command")
}

// TestShare: a shared file is made anew, and a link in its place is not followed.
func TestShare(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	i := initialized(t, o)
	outside := filepath.Join(dir, "outside")
	must(t, os.WriteFile(outside, []byte("precious"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(o.DataDir, "pg_stat_tmp", "f")))
	for range 2 {
		f, err := i.Share("pg_stat_tmp/f")
		must(t, err)
		_, err = f.WriteString("hello")
		must(t, err)
		must(t, f.Close())
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "precious" {
		t.Errorf("outside the data directory: %q, %v", b, err)
	}
	must(t, i.Start(timeout(t)))
	want(t, i, "SELECT pg_read_file('pg_stat_tmp/f')", "hello")
	for _, contents := range []string{"one", "another"} {
		must(t, Replace(i, "pg_stat_tmp/f", []byte(contents)))
		want(t, i, "SELECT pg_read_file('pg_stat_tmp/f')", contents)
	}
	if _, err := i.Share("../outside"); err == nil {
		t.Error("a file outside the data directory is shared")
	}
}
