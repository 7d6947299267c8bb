package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/process"
)

const (
	segmentBytes   = 64 << 10
	retentionBytes = 4 * segmentBytes
)

// TestLogRetention: the log stays small, whatever happens. Members join, crash together and restart
// on what is kept of it; one that was away for too long copies another one's database by itself. One whose database
// is damaged ends with an error that says what to do, and doing that brings it back.
func TestLogRetention(t *testing.T) {
	t.Parallel()
	c := New(t, 3, func(_ int, c *config.Config) {
		c.Limits.LogSegmentBytes, c.Limits.LogRetention = segmentBytes, retentionBytes
	})
	c.Run(1)
	donor := c.Node(2).Config.Postgres.CloneFrom
	c.await(1, readyTimeout, func(ctx context.Context) error {
		return probe(ctx, donor, "SELECT ordinal FROM tutti.progress")
	})
	c.Run(2)
	stop := c.greet(3)
	c.WaitReady(1, 2)
	stop()
	c.Connect(1).Do("CREATE TABLE filler(k bigint PRIMARY KEY, v text)")
	c.outgrow(1, 1, 2)

	// The third node's first start: nobody has the beginning of the log any more.
	c.Run(3)
	c.WaitReady()
	c.logged(3, "restarted the log behind the clone's checkpoint")
	c.Check()

	l := c.NewLoad("kept")
	for range 2 {
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { defer close(done); l.Run(2, stop) }()
		c.outgrow(2, c.All()...)
		c.KillAll()
		close(stop)
		<-done
		c.StartNodes()
		for _, k := range c.All() {
			c.logged(k, "starts from a checkpoint")
		}
	}
	l.Verify()
	c.Check()

	// Away for longer than the log is kept. The others go on.
	c.Stop(3)
	c.outgrow(1, 1, 2)
	c.Run(3)
	c.WaitReady()
	for _, what := range []string{"node3 was away for longer than log_retention allows",
		"has a copy of another member's database", "restarted the log behind the clone's checkpoint"} {
		c.logged(3, what)
	}
	if _, err := os.Stat(filepath.Join(c.Node(3).Config.DataDir, "postgres.replaced")); err == nil {
		t.Error("the old database is still there")
	}
	for k := range 2 {
		c.Connect(2 + k).Do(fmt.Sprintf("INSERT INTO filler VALUES (%d, '')", -1-k))
	}

	// A checkpoint that cannot be read is no reason to guess.
	c.spoil(2)
	c.Kill(2)
	c.ends(2, "the checkpoint is damaged", "remove "+filepath.Join(c.Node(2).Config.DataDir, "postgres"))
	c.cloneAnew(2, "node3")
	c.Everywhere("SELECT count(*) FROM filler WHERE k < 0", "3")
	l.Verify()
	c.Check()
}

// ends starts node k, which must end by itself and say why.
func (c *Cluster) ends(k int, why ...string) {
	c.tb.Helper()
	c.Run(k)
	p := c.Node(k).proc
	if err := p.Wait(readyTimeout); err != nil || p.Err() == nil {
		c.tb.Fatalf("node %d should end with an error: %v, %v", k, err, p.Err())
	}
	last := process.Tail(c.Node(k).LogFile, 3)
	for _, want := range why {
		if !strings.Contains(last, want) {
			c.tb.Errorf("node %d ends without a word of %q:\n%s", k, want, last)
		}
	}
}

// cloneAnew does what the error says, and has the node write a row.
func (c *Cluster) cloneAnew(k int, donor string) {
	c.tb.Helper()
	c.Node(k).Config.Postgres.CloneFrom = donor
	if err := os.RemoveAll(filepath.Join(c.Node(k).Config.DataDir, "postgres")); err != nil {
		c.tb.Fatal(err)
	}
	if err := c.Node(k).WriteConfig(); err != nil {
		c.tb.Fatal(err)
	}
	c.Run(k)
	c.WaitReady()
	c.Connect(k).Do(fmt.Sprintf("INSERT INTO filler VALUES (-10 - %d, '')", k))
}

// outgrow writes several times as much at node k as is kept of the log, and waits until the given
// nodes have compacted theirs to what they should keep.
func (c *Cluster) outgrow(k int, nodes ...int) {
	c.tb.Helper()
	s := c.Connect(k)
	from := s.Get("SELECT coalesce(max(k), 0) FROM filler")
	for i := range 4 * retentionBytes / (100 << 10) {
		s.Do(fmt.Sprintf("INSERT INTO filler SELECT %s + %d + i, repeat(md5(i::text), 32) FROM generate_series(1, "+
			"100) i", from, 100*i))
	}
	c.compacted(retentionBytes, segmentBytes, nodes...)
}

// compacted waits until nodes have compacted their logs to what they should keep.
func (c *Cluster) compacted(retention, segment int64, nodes ...int) {
	c.tb.Helper()
	for _, k := range nodes {
		at := c.Connect(k)
		for deadline := time.Now().Add(sqlTimeout); ; time.Sleep(pollInterval) {
			files, bytes := c.logFiles(k), c.limit(at, "log_retention").now
			// A load may go on: a quarter of a second's entries come on top.
			if files <= retention+4*segment && bytes <= files {
				break
			}
			if time.Now().After(deadline) {
				c.tb.Fatalf("the log of node %d has %d bytes in files of %d, it should keep %d", k, bytes, files,
					retention)
			}
		}
		if c.limit(at, "log_retention").reached == 0 {
			c.tb.Errorf("node %d has not compacted its log", k)
		}
	}
}

// logFiles is what the segments of node k's log take on disk.
func (c *Cluster) logFiles(k int) (bytes int64) {
	c.tb.Helper()
	paths, err := filepath.Glob(filepath.Join(c.Node(k).Config.DataDir, "log", "*.seg"))
	if err != nil {
		c.tb.Fatal(err)
	}
	for _, p := range paths {
		if s, err := os.Stat(p); err == nil { // or it was removed just now
			bytes += s.Size()
		}
	}
	return bytes
}

// logged checks that node k has said something since its process started.
func (c *Cluster) logged(k int, want string) {
	c.tb.Helper()
	b, err := os.ReadFile(c.Node(k).LogFile)
	if err != nil {
		c.tb.Fatal(err)
	}
	text := string(b)
	if i := strings.LastIndex(text, "PostgreSQL found"); i < 0 || !strings.Contains(text[i:], want) {
		c.tb.Errorf("node %d has not said %q since its start", k, want)
	}
}

// spoil makes node k's database hold bytes that are no checkpoint.
func (c *Cluster) spoil(k int) {
	c.tb.Helper()
	build, err := findBuild()
	if err != nil {
		c.tb.Fatal(err)
	}
	pg := instance.New(instance.Options{Build: build, DataDir: filepath.Join(c.Node(k).Config.DataDir, "postgres")})
	const sql = "SET synchronous_commit = on; INSERT INTO tutti.checkpoint (data) VALUES ('\\x01') ON CONFLICT (one) " +
		"DO UPDATE SET data = excluded.data"
	if err := probe(c.tb.Context(), pg.ConnString("postgres", "postgres"), sql); err != nil {
		c.tb.Fatal(err)
	}
}

// TestDamagedCheckpoint: without a checkpoint that can be read a node starts from the beginning of its
// log, if that is there.
func TestDamagedCheckpoint(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 1)
	c.Connect(1).Do("CREATE TABLE spoilt(k int PRIMARY KEY)", "INSERT INTO spoilt VALUES (1)")
	c.spoil(1)
	c.KillAll()
	c.StartNodes()
	c.logged(1, "the whole log is read again")
	c.Connect(1).Do("INSERT INTO spoilt VALUES (2)")
	c.Everywhere("SELECT count(*) FROM spoilt", "2")
}
