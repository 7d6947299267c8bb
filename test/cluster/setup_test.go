package cluster

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
)

// exitConfig is how a node ends whose configuration must be changed.
const exitConfig = 78

// refused starts node k, which is to end by itself, with exit 78 and a last line that has want in it, within some time.
func (c *Cluster) refused(k int, want string, least, most time.Duration) {
	c.tb.Helper()
	n := c.Node(k)
	if err := n.WriteConfig(); err != nil {
		c.tb.Error(err)
		return
	}
	began := time.Now()
	c.Run(k)
	if err := n.proc.Wait(most); err != nil {
		c.tb.Errorf("%s: %v\n%s", want, err, process.Tail(n.LogFile, 5))
		n.proc.Signal(9)
		<-n.proc.Done()
		return
	}
	took := time.Since(began)
	var exit *exec.ExitError
	last := process.Tail(n.LogFile, 12)
	if at := strings.LastIndex(last, "tutti: "); at >= 0 {
		last = last[at:]
	}
	if !errors.As(n.proc.Err(), &exit) || exit.ExitCode() != exitConfig || !strings.HasPrefix(last, "tutti: ") ||
		!strings.Contains(last, want) {
		c.tb.Errorf("%v, want exit %d and %q:\n%s", n.proc.Err(), exitConfig, want, last)
	}
	if took < least {
		c.tb.Errorf("%s: after %s only", want, took)
	}
}

// fakePostgres makes a directory with programs that say they are of another version.
func fakePostgres(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho 'postgres (PostgreSQL) 18.1'\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSetup: what must be changed in the configuration, or on the machine, ends the node with exit 78 and a message,
// instead of being tried for ever; what may go by itself is waited for, for some seconds.
func TestSetup(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 1)
	c.Connect(1).Do("CREATE TABLE setups(k int PRIMARY KEY)")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	brief, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c2 := New(t, 4, func(k int, n *config.Config) {
		n.Members = n.Members[k-1 : k]
		n.Postgres.CloneFrom = ""
	})
	others := func(k int, change func(*config.Config)) *Cluster {
		change(&c2.Node(k).Config)
		return c2
	}
	var busy sync.WaitGroup
	busy.Go(func() {
		others(1, func(n *config.Config) { n.Listen = taken.Addr().String() }).refused(1,
			"client port "+taken.Addr().String()+" cannot be opened", 4*time.Second, 20*time.Second)
	})
	busy.Go(func() {
		others(2, func(n *config.Config) { n.MemberListen = taken.Addr().String() }).refused(2,
			"member port "+taken.Addr().String()+" cannot be opened", 4*time.Second, 20*time.Second)
	})
	busy.Go(func() { // another process has the directory
		others(3, func(n *config.Config) {
			n.Member, n.DataDir, n.Members = 1, c.Node(1).Config.DataDir, c.Node(1).Config.Members
		}).refused(3, "already running", 4*time.Second, 30*time.Second)
	})
	busy.Go(func() { // the port is free soon
		n := others(4, func(n *config.Config) { n.MemberListen = brief.Addr().String() }).Node(4)
		if err := n.WriteConfig(); err != nil {
			t.Error(err)
		}
		c2.Run(4)
		time.Sleep(time.Second)
		_ = brief.Close()
		c2.logs(4, 0, "waiting for a port")
		c2.logs(4, 0, "msg=ready")
	})
	busy.Wait()
	c.WaitReady() // it was not disturbed
	c.Stop(1)

	n := c.Node(1)
	good, postgres := n.Config, filepath.Join(n.Config.DataDir, "postgres")
	with := func(name, value string) func() {
		return func() { n.Config.Postgres.Settings = map[string]string{name: value} }
	}
	version := filepath.Join(postgres, "PG_VERSION")
	was, err := os.ReadFile(version)
	if err != nil {
		t.Fatal(err)
	}
	writes := func(text string) func() {
		return func() {
			if err := os.WriteFile(version, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, x := range []struct {
		want  string
		wrong func()
	}{
		{"the setting port of PostgreSQL cannot be given", with("port", "5433")},
		{`unrecognized configuration parameter "no_such_setting"`, with("no_such_setting", "1")},
		{`invalid value for parameter "work_mem"`, with("work_mem", "plenty")},
		{`could not access file "no_such_library"`, with("shared_preload_libraries", "no_such_library")},
		{"must be less than max_connections", with("superuser_reserved_connections", "10000")},
		{"is of PostgreSQL " + strings.TrimSpace(string(was)) + ", and this machine has no binaries",
			func() { n.Config.Postgres.BinDir = fakePostgres(t) }},
		{"no usable initdb", func() { n.Config.Postgres.BinDir = t.TempDir() }},
		{"is of PostgreSQL 14: Tutti needs", writes("14\n")},
		{"is of PostgreSQL 99, and this machine has no binaries", writes("99\n")},
		{"which is no version", writes("fifteen\n")},
		{"has no file PG_VERSION", func() { _ = os.Remove(version) }},
		{`of cluster "test", the configuration says`, func() { n.Config.Cluster = "another" }},
		{"use debug, info", func() { n.Config.LogLevel = "loud" }},
		{"client_tls", func() { n.Config.ClientTLS = config.TLS{Cert: "/nowhere", Key: "/nowhere"} }},
		{"client port no.such.host.invalid:1 cannot be opened", func() { n.Config.Listen = "no.such.host.invalid:1" }},
	} {
		n.Config = good
		x.wrong()
		c.refused(1, x.want, 0, 30*time.Second)
		writes(string(was))()
	}
	n.Config = good
	if err := n.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	c.Run(1)
	c.WaitReady()
	c.Eventually(1, "SELECT count(*) FROM setups", "0")
}
