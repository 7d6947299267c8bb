package cluster

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/authority"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
)

// write replaces a file.
func write(t testing.TB, path string, parts ...[]byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", bytes.Join(parts, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestMemberTLS has a proxy between all members. What it sees it cannot read. Secret, certificates and authority are
// exchanged as the README says, node by node, without a restart, and all connections are made anew at every step. A
// node with a certificate that has expired is refused by the others, and all of them say why; it comes back when it is
// given a good one. Then two nodes are killed, one after the other, and the tools say so.
func TestMemberTLS(t *testing.T) {
	t.Parallel() // mostly it waits
	all, through := links(t, 3)
	c := Start(t, 3, through, func(_ int, n *config.Config) {
		n.SecretFile, n.Secret = filepath.Join(n.DataDir+".tls", "secret"), ""
		write(t, n.SecretFile, []byte("the first secret of all\n"))
	})
	s := c.Connect(1)
	s.Do("CREATE TABLE whispered(i int PRIMARY KEY, t text)")
	c.unreadable(all)
	c.expired(all, c.rotate(all))
	c.withoutMembers()
}

// unreadable writes what is easily recognised and looks for it, and for what members say of themselves, in what has
// passed.
func (c *Cluster) unreadable(all []*link) {
	c.tb.Helper()
	marker := make([]byte, 16)
	if _, err := rand.Read(marker); err != nil {
		c.tb.Fatal(err)
	}
	text := hex.EncodeToString(marker)
	for k := 1; k <= 3; k++ {
		c.Eventually(k, "SELECT to_regclass('whispered')", "whispered")
		c.Connect(k).Do(fmt.Sprintf("INSERT INTO whispered SELECT -%d000 - i, '%s' FROM generate_series(1, 500) i", k,
			text))
	}
	c.Everywhere("SELECT count(*) FROM whispered", "1500")
	for k, l := range all {
		seen := l.passed()
		if len(seen) < 20<<10 {
			c.tb.Errorf("only %d bytes have passed to node %d: they go another way", len(seen), k+1)
		}
		for _, word := range []string{text, "whispered", "TUTTIm", "CREATE TABLE", "node1", "node2", "node3",
			`"applied"`, "the first secret"} {
			if i := bytes.Index(seen, []byte(word)); i >= 0 {
				c.tb.Errorf("%q is readable on the way to node %d: %q", word, k+1,
					seen[max(0, i-20):min(len(seen), i+40)])
			}
		}
	}
}

// renewed breaks all connections, waits until new ones were made and writes at every node.
func (c *Cluster) renewed(all []*link, id int, step string) {
	c.tb.Helper()
	var before []int
	for _, l := range all {
		before = append(before, l.connections())
	}
	for _, l := range all {
		l.cut()
	}
	c.soon(func() bool {
		return !slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool { return all[i].connections() < before[i]+2 })
	}, func() string { return step + ": there are no new connections" })
	for k := 1; k <= 3; k++ {
		if err := c.Connect(k).Try(fmt.Sprintf("INSERT INTO whispered VALUES (%d, '')", 10*id+k)); err != nil {
			c.tb.Fatalf("%s: node %d: %s", step, k, Explain(err))
		}
	}
}

// rotate exchanges secret and authority, and returns the new one.
func (c *Cluster) rotate(all []*link) *authority.Authority {
	c.tb.Helper()
	old, err := memberAuthority()
	if err != nil {
		c.tb.Fatal(err)
	}
	young, err := authority.New("the next one")
	if err != nil {
		c.tb.Fatal(err)
	}
	id := 0
	for _, step := range []struct {
		name string
		do   func(n *config.Config)
	}{
		{"both secrets and authorities", func(n *config.Config) {
			write(c.tb, n.SecretFile, []byte("the second secret of all\nthe first secret of all\n"))
			write(c.tb, n.MemberTLS.CA, old.PEM(), young.PEM())
		}},
		{"the new certificate", func(n *config.Config) {
			cert, key, err := young.Issue(n.Self().Name, authority.Years(1))
			if err != nil {
				c.tb.Fatal(err)
			}
			write(c.tb, n.MemberTLS.Key, key)
			write(c.tb, n.MemberTLS.Cert, cert)
		}},
		{"the new secret and authority alone", func(n *config.Config) {
			write(c.tb, n.SecretFile, []byte("the second secret of all\n"))
			write(c.tb, n.MemberTLS.CA, young.PEM())
		}},
	} {
		for k := 1; k <= 3; k++ {
			step.do(&c.Node(k).Config)
			id++
			c.renewed(all, id, fmt.Sprintf("node %d has %s", k, step.name))
		}
	}
	for k := 1; k <= 3; k++ {
		if log := process.Tail(c.Node(k).LogFile, 1<<20); strings.Count(log,
			"this is the certificate for other members now") != 2 || !strings.Contains(log, "CN=the next one") {
			c.tb.Errorf("node %d does not tell that its certificate is another one:\n%s", k, log)
		}
	}
	return young
}

// expired gives node 3 a certificate that has expired: while it runs it keeps the one it had, and when it starts it is
// refused.
func (c *Cluster) expired(all []*link, ca *authority.Authority) {
	c.tb.Helper()
	n := c.Node(3)
	give := func(v authority.Validity) {
		c.tb.Helper()
		cert, key, err := ca.Issue("node3", v)
		if err != nil {
			c.tb.Fatal(err)
		}
		write(c.tb, n.Config.MemberTLS.Key, key)
		write(c.tb, n.Config.MemberTLS.Cert, cert)
	}
	says := func(k int, part string) {
		c.tb.Helper()
		c.soon(func() bool { return strings.Contains(process.Tail(c.Node(k).LogFile, 1<<20), part) },
			func() string { return fmt.Sprintf("node %d does not say %q", k, part) })
	}
	give(authority.Validity{From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour)})
	c.renewed(all, 100, "node 3 keeps the certificate that it had")
	says(3, "is not usable")
	c.Stop(3)
	c.Run(3)
	says(3, "it refuses this member: wrong certificate: it has expired")
	says(3, "does not accept this member's certificate")
	for _, k := range []int{1, 2} {
		says(k, "this member refuses it: member 3: wrong certificate: it has expired")
		says(k, `error="member 3: wrong certificate: it has expired`)
	}
	c.Connect(1).Do("INSERT INTO whispered VALUES (2000, '')")
	if err := probe(c.tb.Context(), c.URL(3), "SELECT 1"); Code(err) != "57P03" {
		c.tb.Errorf("a client of the node that is refused is told %v, want 57P03", err)
	}
	give(authority.Years(1))
	c.WaitReady(3)
	c.Eventually(3, "SELECT count(*) FROM whispered WHERE i = 2000", "1")
}

// tool runs a subcommand, which must exit with this code and say this.
func (c *Cluster) tool(code int, words []string, command string, args ...string) {
	c.tb.Helper()
	var out string
	got := -1
	lacks := ""
	c.soon(func() bool {
		began := time.Now()
		var err error
		out, err = c.Tool(command, args...)
		got = 0
		var e *exec.ExitError
		if errors.As(err, &e) {
			got = e.ExitCode()
		}
		if took := time.Since(began); took > 25*time.Second {
			c.tb.Errorf("tutti %s takes %v", command, took)
		}
		lacks = ""
		for _, w := range words {
			if !strings.Contains(out, w) {
				lacks = w
			}
		}
		if got == code && lacks == "" {
			return true
		}
		time.Sleep(200 * time.Millisecond)
		return false
	}, func() string {
		return fmt.Sprintf("tutti %s exits with %d, want %d, without saying %q:\n%s", command, got, code, lacks, out)
	})
}

// withoutMembers kills one node after the other.
func (c *Cluster) withoutMembers() {
	c.tb.Helper()
	c.tool(0, []string{"VERSION", "node3"}, "status")
	c.tool(0, []string{"equal on all members"}, "check")
	c.tool(3, nil, "status", "--output", "xml")
	c.tool(3, nil, "status", "--unknown")
	out, err := c.Tool("status", "--output", "json")
	var members []map[string]string
	if err == nil {
		err = json.Unmarshal([]byte(out), &members)
	}
	if err != nil || len(members) != 3 || members[0]["version"] == "" ||
		members[2]["version"] != members[0]["version"] {
		c.tb.Fatalf("%v, %v", members, err)
	}
	log, err := os.ReadFile(c.Node(1).LogFile)
	if first, _, _ := strings.Cut(string(log), "\n"); err != nil || !strings.Contains(first, "Tutti starts") ||
		!strings.Contains(first, members[0]["version"]) {
		c.tb.Errorf("the log begins with %q, %v", first, err)
	}
	c.Kill(3)
	c.tool(1, []string{"WARNING: 2 of 3 members serve clients: node3 is unreachable"}, "status")
	c.tool(2, []string{"equal on node1 and node2 at", "postgres: not compared: node3 is unreachable"}, "check")
	c.tool(2, []string{`"verdict": "unreachable"`}, "check", "--output", "json")
	c.Kill(2)
	c.tool(2, []string{"CRITICAL: nobody leads", "node2 is unreachable"}, "status")
	c.tool(3, []string{"nobody leads"}, "check")
	c.Kill(1)
	c.tool(2, []string{"CRITICAL: no node takes clients"}, "status")
	c.tool(3, nil, "check")
}
