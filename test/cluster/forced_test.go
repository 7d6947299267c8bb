package cluster

import (
	"bytes"
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

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/forced"
)

// recovers runs tutti recover at node k, and gives what it reports, or says.
func (c *Cluster) recovers(k int, args ...string) (r forced.Report, said string) {
	c.tb.Helper()
	exe, err := Binary()
	if err != nil {
		c.tb.Fatal(err)
	}
	args = append([]string{"recover", "--config", c.Node(k).ConfigFile, "-o", "json"}, args...)
	command := exec.CommandContext(c.tb.Context(), exe, args...)
	var words strings.Builder
	command.Stderr = &words
	out, err := command.Output()
	if err == nil || len(out) > 0 {
		if err := json.Unmarshal(out, &r); err != nil {
			c.tb.Fatalf("tutti recover prints %s: %v", out, err)
		}
	}
	return r, words.String()
}

// TestForced: all nodes are killed beside clients that write, and two of them are lost for good. The one with the
// longest log goes on alone, with all that was acknowledged. The others are refused when they come back, and others
// join. While one of them can be reached, or the node runs, nothing is changed.
func TestForced(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, func(_ int, c *config.Config) { c.ExpelAfter = "2s" })
	c.Connect(1).Do("CREATE DATABASE second")
	c.In("second").Connect(1).Do("CREATE TABLE kept(k int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	load := c.NewLoad("forced")
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		load.Run(2, stop)
		close(over)
	}()
	time.Sleep(2 * time.Second)
	if _, said := c.recovers(1, "--force"); !strings.Contains(said, "The node must not run") {
		t.Errorf("at a node that runs it says %q", said)
	}
	c.KillBoth(1, 2, 3)
	close(stop)
	<-over
	best, most := 0, forced.Log{}
	for k := 1; k <= 3; k++ {
		r, said := c.recovers(k)
		if said != "" || r.Forced || len(r.Logs) != 2 || r.Logs[0].Forced {
			t.Fatalf("node %d reports %+v and says %q", k, r, said)
		}
		if l := r.Logs[0]; best == 0 || l.Term > most.Term || l.Term == most.Term && l.Last > most.Last {
			best, most = k, l
		}
	}
	other := best%3 + 1
	c.Run(other)
	c.soon(func() bool {
		r, _ := c.recovers(best)
		return len(r.Answer) == 1
	}, func() string { return "another one is not reached" })
	if r, said := c.recovers(best, "--force"); r.Forced || !strings.Contains(said, "can be reached") {
		t.Fatalf("beside another one it reports %+v and says %q", r, said)
	}
	c.KillBoth(other)
	for _, before := range []bool{false, true} { // it can be done again
		r, said := c.recovers(best, "--force")
		was := func(l forced.Log) bool { return l.Forced }
		if said != "" || !r.Forced || slices.ContainsFunc(r.Logs, was) != before {
			t.Fatalf("it reports %+v and says %q", r, said)
		}
	}
	c.Run(best)
	c.WaitReady(best)
	name := fmt.Sprintf("node%d", best)
	c.members(best, 1, name)
	load.verifyNode(best)
	c.In("second").Eventually(best, "SELECT count(*) FROM kept", "1")
	c.In("second").Connect(best).Do("INSERT INTO kept VALUES (2)")
	c.Eventually(best, fmt.Sprintf("SELECT removed FROM tutti.member WHERE number = %d", other), "t")
	c.KillBoth(best)
	c.Run(best)
	c.WaitReady(best)

	c.Run(other) // with what it had
	c.says(other, "it refuses this member: unknown member")
	c.KillBoth(other)
	n := c.Join(best)
	c.WaitReady(n)
	c.members(best, 2, name, fmt.Sprintf("node%d", n))
	c.In("second").Eventually(n, "SELECT count(*) FROM kept", "2")
	c.Connect(n).Do("CREATE TABLE after_that(k int)")
	load.verifyNode(n)
}

// exports runs tutti log export at node k, with what another one reported.
func (c *Cluster) exports(k int, behind forced.Report) (list []forced.Commit) {
	c.tb.Helper()
	exe, err := Binary()
	if err != nil {
		c.tb.Fatal(err)
	}
	text, err := json.Marshal(behind)
	file := filepath.Join(c.tb.TempDir(), "report")
	if err = errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		c.tb.Fatal(err)
	}
	command := exec.CommandContext(c.tb.Context(), exe, "log", "export", "--config", c.Node(k).ConfigFile, "--behind",
		file)
	var words strings.Builder
	command.Stderr = &words
	out, err := command.Output()
	if err != nil {
		c.tb.Fatalf("tutti log export: %v %s", err, words.String())
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for d.More() {
		var x forced.Commit
		if err := d.Decode(&x); err != nil {
			c.tb.Fatalf("%s: %v", out, err)
		}
		list = append(list, x)
	}
	return list
}

// TestExport: a member that was away goes on alone. What the two others have committed meanwhile is printed from the
// log of one of them: that, all of it, with values of every kind, and what lost is not there.
func TestExport(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Connect(1).Do("CREATE DATABASE second", "CREATE TYPE exportable AS ENUM ('one', 'two')",
		"CREATE TABLE exported(k int PRIMARY KEY, gone int, n numeric, e exportable, a text[], at timestamptz)",
		"ALTER TABLE exported DROP COLUMN gone", "INSERT INTO exported VALUES (1), (2), (3)")
	c.In("second").Connect(1).Do("CREATE TABLE exported(k int PRIMARY KEY)", "CREATE TABLE many(k int)")
	c.Eventually(3, "SELECT count(*) FROM exported", "3")
	c.In("second").Eventually(3, "SELECT count(*) FROM pg_class WHERE relname = 'exported'", "1")
	c.KillBoth(3)
	one := c.Connect(1)
	one.Do("INSERT INTO exported VALUES (4, 12.50, 'two', '{a,\"b c\",NULL}', 'infinity')",
		"UPDATE exported SET n = 0.1 WHERE k = 1", "DELETE FROM exported WHERE k = 2",
		"BEGIN", "UPDATE exported SET n = 7 WHERE k = 3", "ROLLBACK", "TRUNCATE exported",
		"CREATE TABLE exported_later(x int)", "BEGIN", "DROP TABLE exported_later", "INSERT INTO exported VALUES (5)",
		"COMMIT")
	c.In("second").Connect(2).Do("INSERT INTO exported SELECT generate_series(1, 3)")
	c.Eventually(2, "SELECT count(*) FROM exported", "1")
	second := c.In("second").Connect(2)
	for range 530 { // in two groups, the second of which a member that has no part in it keeps back
		second.Do("INSERT INTO many VALUES (7)")
	}
	c.In("second").Eventually(1, "SELECT count(*) FROM exported CROSS JOIN many", "1590")
	c.KillBoth(1, 2)
	r, said := c.recovers(3, "--force")
	if said != "" || !r.Forced {
		t.Fatalf("it reports %+v and says %q", r, said)
	}
	for k := 1; k <= 2; k++ {
		var got []string
		many := 0
		for _, x := range c.exports(k, r) {
			if len(x.TxID) < 5 || x.Ordinal == 0 {
				t.Errorf("node %d: %+v", k, x)
			}
			for _, change := range x.Changes {
				if change.Table == "public.many" {
					many++
					continue
				}
				row, err := json.Marshal(change.Row)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, strings.Join([]string{x.Database, change.Op, change.Table, string(row), change.SQL},
					" "))
			}
		}
		want := []string{
			`postgres insert public.exported {"a":"{a,\"b c\",NULL}","at":"infinity","e":"two","k":"4","n":"12.50"} `,
			`postgres update public.exported {"a":null,"at":null,"e":null,"k":"1","n":"0.1"} `,
			`postgres delete public.exported {"k":"2"} `,
			`postgres truncate public.exported null `,
			`postgres define  null CREATE TABLE exported_later(x int)`,
			`postgres define  null DROP TABLE exported_later`,
			`postgres insert public.exported {"a":null,"at":null,"e":null,"k":"5","n":null} `,
			`second insert public.exported {"k":"1"} `, `second insert public.exported {"k":"2"} `,
			`second insert public.exported {"k":"3"} `,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || many != 530 {
			t.Errorf("node %d exports %d of 530 rows", k, many)
			t.Errorf("node %d exports\n%s\nnot\n%s", k, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if list := c.exports(3, r); len(list) > 0 {
		t.Errorf("the one that went on lacks of its own %+v", list)
	}
}
