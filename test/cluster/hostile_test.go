package cluster

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
)

// undisturbed commits at the given nodes while f runs; not one commit may fail, or take
// longer than a client would bear.
func undisturbed(c *Cluster, table string, nodes []int, f func()) {
	c.tb.Helper()
	const patience = 20 * time.Second
	c.Connect(nodes[0]).Do("CREATE TABLE " + table + "(k bigint PRIMARY KEY)")
	for _, k := range nodes {
		c.Eventually(k, "SELECT count(*) FROM "+table, "0")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	counts := make([]int, len(nodes))
	for i, k := range nodes {
		s := c.Connect(k)
		wg.Go(func() {
			for ; !closed(stop); counts[i]++ {
				began := time.Now()
				if err := s.Try(fmt.Sprintf("INSERT INTO %s VALUES (%d)", table, k<<20|counts[i])); err != nil {
					c.tb.Errorf("node %d is disturbed: %s", k, Explain(err))
					return
				}
				if d := time.Since(began); d > patience {
					c.tb.Errorf("node %d is disturbed: a commit took %s", k, d)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	f()
	time.Sleep(300 * time.Millisecond)
	close(stop)
	wg.Wait()
	total := 0
	for i, n := range counts {
		if n == 0 {
			c.tb.Errorf("nothing was committed at node %d", nodes[i])
		}
		total += n
	}
	for _, k := range nodes {
		c.Eventually(k, "SELECT count(*) FROM "+table, fmt.Sprint(total))
	}
}

// dial opens a connection that ends with the test.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// startup is a start-up packet of protocol 3.0.
func startup(params ...string) []byte {
	b := []byte{0, 0, 0, 0, 0, 3, 0, 0}
	for _, p := range params {
		b = append(append(b, p...), 0)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

func garbage() map[string][]byte {
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	return map[string][]byte{
		"zeros": make([]byte, 1<<16), "noise": noise, "http": []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS hello":            append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, noise[:600]...),
		"length of 2 GiB":      {0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0, 'u'},
		"negative length":      {0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0},
		"cancel of nobody":     {0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 2},
		"TLS asked, then mute": {0, 0, 0, 8, 4, 210, 22, 47},
		"endless parameters":   append(startup("user", "postgres")[:8], noise...),
		"oversized query": append(startup("user", "postgres", "database", "postgres"), 'Q', 0x7f, 0xff, 0xff, 0xff,
			'S'),
		"unknown frame": append(startup("user", "postgres", "database", "postgres"), 0x01, 0, 0, 0, 4),
		"half a frame":  append(startup("user", "postgres", "database", "postgres"), 'Q', 0, 0, 1, 0, 'S', 'E'),
	}
}

func TestGarbageDisturbsNobody(t *testing.T) {
	c := use(t)
	undisturbed(c, "garbage", c.All(), func() {
		for _, k := range c.All() {
			for _, address := range []string{c.Node(k).Config.Listen, c.Node(k).Config.MemberListen} {
				for what, data := range garbage() {
					conn := dial(t, address)
					// The node may hang up before it has read all of it.
					_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
					_, _ = conn.Write(data)
					answer := make([]byte, 4096)
					_, _ = conn.Read(answer)
					if !c.Running(k) {
						t.Fatalf("node %d died of %s", k, what)
					}
				}
			}
		}
	})
	c.Check()
}

// TestHalfOpenConnections leaves many connections at the ports without saying anything.
func TestHalfOpenConnections(t *testing.T) {
	c := use(t)
	undisturbed(c, "halfopen", c.All(), func() {
		var idle []net.Conn
		for range 100 {
			idle = append(idle, dial(t, c.Node(2).Config.Listen), dial(t, c.Node(2).Config.MemberListen))
		}
		c.Connect(2).Do("INSERT INTO halfopen SELECT -1", "DELETE FROM halfopen WHERE k = -1")
		for range 200 {
			idle = append(idle, dial(t, c.Node(2).Config.Listen))
		}
		// More than the node keeps: it may turn clients away, until it gives the silent ones up.
		c.WaitReady(2)
		for _, conn := range idle {
			conn.Close()
		}
	})
	c.Check()
}

// TestWrongNodes starts node 3 with configurations that cannot work. The others go on, the
// log says what is wrong, and with the right configuration it catches up.
func TestWrongNodes(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	right := c.Node(3).Config
	tests := []struct {
		name string
		set  func(*config.Config)
		ends bool // the process ends, with a message; otherwise it keeps trying
		log  string
		peer string // what the others log
	}{
		{"wrong secret", func(n *config.Config) { n.Secret = "not the secret of the cluster" }, false, "secret",
			"secret"},
		{"another setting", func(n *config.Config) { n.Limits.LockLeaseMs = 20_000 }, false,
			"lock_lease_ms is 20000 at node3 and 10000 at node", "lock_lease_ms is"},
		{"a setting that is fixed", func(n *config.Config) { n.Limits.CertifyKeys = 2 << 20 }, true,
			"certify_keys is 2097152 in the configuration, and was 1048576", ""},
		{"another list of members", func(n *config.Config) {
			n.Members = slices.Clone(n.Members)
			n.Members[1].Name = "other"
		}, false,
			"the list of members is", "2=other"},
		{"wrong cluster", func(n *config.Config) { n.Cluster = "elsewhere" }, true, "belongs to member 3 of cluster",
			""},
		{"another's number", func(n *config.Config) { n.Member = 2 }, true, "belongs to member 3", ""},
		{"no number", func(n *config.Config) { n.Member = 9 }, true, "no entry for this member (9)", ""},
		{"short secret", func(n *config.Config) { n.Secret = "short" }, true, "shorter than 16", ""},
		{"taken client port", func(n *config.Config) { n.Listen = c.Node(1).Config.Listen }, true, "cannot be opened",
			""},
		{"no such binaries", func(n *config.Config) { n.Postgres.BinDir = "/nonexistent" }, true, "/nonexistent", ""},
	}
	c.Stop(3)
	undisturbed(c, "wrong", []int{1, 2}, func() {
		for _, test := range tests {
			n := c.Node(3)
			n.Config = right
			test.set(&n.Config)
			if err := n.WriteConfig(); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(n.LogFile, 0); err != nil {
				t.Fatal(err)
			}
			peer := len(process.Tail(c.Node(1).LogFile, 1<<20))
			c.Run(3)
			if test.ends {
				if err := n.proc.Wait(stopTimeout); err != nil || n.proc.Err() == nil {
					t.Errorf("%s: %v, ended with %v", test.name, err, n.proc.Err())
				}
			} else {
				time.Sleep(3 * time.Second)
				var err error
				c.soon(func() bool { err = probe(t.Context(), c.URL(3), "SELECT 1"); return Code(err) == "57P03" },
					func() string { return fmt.Sprintf("%s: a client is told %v, want 57P03", test.name, err) })
				c.soon(func() bool { return strings.Contains(process.Tail(n.LogFile, 1<<20), test.log) },
					func() string { return test.name + ": the log does not say " + test.log })
			}
			if log := process.Tail(n.LogFile, 1<<20); !strings.Contains(log, test.log) {
				t.Errorf("%s: the log does not say %q:\n%s", test.name, test.log, log)
			}
			others := ""
			c.soon(func() bool {
				others = process.Tail(c.Node(1).LogFile, 1<<20)
				others = others[min(peer, len(others)):]
				return strings.Contains(others, test.peer)
			}, func() string {
				return fmt.Sprintf("%s: node 1's log does not say %q:\n%s", test.name, test.peer, others)
			})
			if !test.ends {
				c.Stop(3)
			}
		}
	})
	c.Node(3).Config = right
	if err := c.Node(3).WriteConfig(); err != nil {
		t.Fatal(err)
	}
	c.Run(3)
	c.WaitReady()
	c.Check()
}
