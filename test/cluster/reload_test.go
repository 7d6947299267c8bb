package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// logs waits until node k's log has a line with all of the words behind the first so many bytes of it, and returns
// its length.
func (c *Cluster) logs(k, from int, words ...string) int {
	c.tb.Helper()
	var log string
	c.soon(func() bool {
		b, err := os.ReadFile(c.Node(k).LogFile)
		if err != nil {
			c.tb.Fatal(err)
		}
		log = string(b)
		for line := range strings.Lines(log[from:]) {
			all := true
			for _, w := range words {
				all = all && strings.Contains(line, w)
			}
			if all {
				return true
			}
		}
		return false
	}, func() string { return strings.Join(words, ", ") + " was not logged:\n" + log[from:] })
	return len(log)
}

// TestSignals: no signal but those that mean to stop ends a node, and SIGHUP has it read its configuration again.
func TestSignals(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 1, func(_ int, n *config.Config) { n.DrainTimeout, n.Postgres.Settings["work_mem"] = "30s", "5MB" })
	n := c.Node(1)
	s := c.Connect(1)
	s.Do("CREATE TABLE signals(k int PRIMARY KEY)", "BEGIN", "INSERT INTO signals VALUES (1)")
	for _, ignored := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGHUP} {
		n.proc.Signal(ignored)
	}
	at := c.logs(1, 0, "the configuration was read again", "changed=[]")
	s.Do("INSERT INTO signals VALUES (2)", "COMMIT")

	// What can be changed, and what cannot.
	cert, key := certificate(t, t.TempDir())
	old := n.Config
	n.Config.LogLevel, n.Config.DrainTimeout, n.Config.SequenceStep = "debug", "3s", 17
	n.Config.Limits.Sessions, n.Config.Limits.CommitTimeoutMs, n.Config.Limits.BatchItems = 1, 20_000, 100
	n.Config.ClientTLS = config.TLS{Cert: cert, Key: key}
	n.Config.Postgres.Settings = map[string]string{"shared_buffers": "40MB", "work_mem": "7MB",
		"log_min_messages": "warning"}
	c.reload(1)
	at = c.logs(1, at, "the configuration was read again", "client_tls.cert", "client_tls.key", "drain_timeout",
		"limits.commit_timeout_ms", "limits.sessions", "log_level",
		"postgres.settings.shared_buffers", "postgres.settings.work_mem")
	c.logs(1, at-1000, "used from the next start on",
		`keys="[limits.batch_items sequence_step postgres.settings.shared_buffers]"`)
	c.soon(func() bool { return s.Get("SHOW work_mem") == "7MB" },
		func() string { return "work_mem was not taken over" })
	if got := s.Get("SHOW shared_buffers"); got != "32MB" {
		t.Error(got)
	}
	if err := probe(s.ctx(), c.URL(1), "SELECT 1"); Code(err) != "53300" {
		t.Errorf("a second session: %v", Explain(err))
	}
	if limits := s.Get("SHOW tutti.limits"); !strings.Contains(limits, "sessions|1|") ||
		!strings.Contains(limits, "commit_timeout_ms|20000|") {
		t.Error(limits)
	}

	// What is wrong changes nothing at all.
	good := n.Config
	for want, wrong := range map[string]func(*config.Config){
		"work_mem": func(c *config.Config) {
			c.Postgres.Settings = map[string]string{"work_mem": "plenty", "maintenance_work_mem": "33MB"}
		},
		"unrecognized": func(c *config.Config) {
			c.Postgres.Settings = map[string]string{"no_such_setting": "1"}
		},
		"cannot be given":      func(c *config.Config) { c.Postgres.Settings = map[string]string{"port": "1"} },
		"client_tls":           func(c *config.Config) { c.ClientTLS.Key = "/nowhere" },
		"sessions is -1":       func(c *config.Config) { c.Limits.Sessions = -1 },
		"drain_timeout is":     func(c *config.Config) { c.DrainTimeout = "soon" },
		"shorter than 16":      func(c *config.Config) { c.Secret = "short" },
		"use debug, info":      func(c *config.Config) { c.LogLevel = "loud" },
		"member is missing: n": func(c *config.Config) { c.Member = 0 },
	} {
		n.Config = good
		n.Config.Limits.TurnsPercent = 7 // which would do
		wrong(&n.Config)
		c.reload(1)
		at = c.logs(1, at, "level=ERROR", "the configuration stays as it was", want)
	}
	if got := s.Get("SELECT current_setting('work_mem'), current_setting('maintenance_work_mem')"); got != "7MB|64MB" {
		t.Error(got)
	}
	if limits := s.Get("SHOW tutti.limits"); !strings.Contains(limits, "turns_percent|40|") {
		t.Error(limits)
	}
	conf, err := os.ReadFile(filepath.Join(n.Config.DataDir, "postgres", "tutti.conf"))
	if err != nil || !strings.Contains(string(conf), "work_mem = '7MB'") ||
		strings.Contains(string(conf), "no_such_setting") {
		t.Errorf("%v\n%s", err, conf)
	}

	// SIGQUIT, and SIGINT, do not wait for transactions; what waited for a start is used now.
	n.Config = old
	n.Config.Postgres.Settings = map[string]string{"shared_buffers": "40MB", "log_min_messages": "warning"}
	for _, quick := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGINT} {
		if err := n.WriteConfig(); err != nil {
			t.Fatal(err)
		}
		s.Do("BEGIN", "INSERT INTO signals VALUES (3)")
		began := time.Now()
		n.proc.Signal(quick)
		if err := waitLast(s); worded(err) != dismissed || time.Since(began) > 5*time.Second {
			t.Errorf("%s: the session was told after %s: %s", quick, time.Since(began), worded(err))
		}
		if err := n.proc.Wait(10 * time.Second); err != nil || n.proc.Err() != nil {
			t.Fatalf("%s: %v, %v", quick, err, n.proc.Err())
		}
		if quick == syscall.SIGQUIT {
			at = c.logs(1, at, "what every goroutine does", "goroutine 1 [")
		}
		c.Run(1)
		c.WaitReady()
		s = c.Connect(1)
	}
	if got := s.Get("SELECT current_setting('shared_buffers'), current_setting('work_mem'), (SELECT " +
		"string_agg(k::text, ' ') FROM signals)"); got != "40MB|4MB|1 2" {
		t.Error(got)
	}
}

// reload writes node k's configuration and has it read again.
func (c *Cluster) reload(k int) {
	c.tb.Helper()
	if err := c.Node(k).WriteConfig(); err != nil {
		c.tb.Fatal(err)
	}
	c.Node(k).proc.Signal(syscall.SIGHUP)
}
