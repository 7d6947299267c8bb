package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
)

// narrow leaves node k little room for its log, and returns what frees it again. Root mounts a
// small file system; others limit the size of the node's files.
func narrow(t *testing.T, c *Cluster, k int) (room func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		c.Run(k)
		limit := unix.Rlimit{Cur: 256 << 10, Max: unix.RLIM_INFINITY}
		if err := unix.Prlimit(c.PID(k), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
			t.Fatal(err)
		}
		return func() {} // the next process has no limit
	}
	dir := filepath.Join(c.Node(k).Config.DataDir, "log")
	if err := os.Rename(dir, dir+".before"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Node(k).proc.Signal(syscall.SIGKILL)
		<-c.Node(k).proc.Done()
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	if out, err := exec.Command("cp", "-a", dir+".before/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Run(k)
	return func() {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=256m"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk fills the disk below one node's log under load. That node ends with a clear
// error; the others go on; with room again it catches up, and nothing is lost.
func TestFullDisk(t *testing.T) {
	cases := []string{"follower", "leader"}
	if seconds(0) == 0 {
		cases = cases[:1] // the other takes as long again, for the same error and an election
	}
	for _, who := range cases {
		t.Run(who, func(t *testing.T) {
			c := Start(t, 3, func(_ int, n *config.Config) { n.Limits.LogSegmentBytes = 1 << 20 })
			full := 1 + c.Leader()%3
			if who == "leader" {
				full = c.Leader()
			}
			l := c.NewLoad("disk")
			c.Connect(1).Do("CREATE TABLE filler(k bigint PRIMARY KEY, v text)")
			c.Stop(full)
			room := narrow(t, c, full)
			c.WaitReady()
			if who == "leader" {
				others := []int{}
				for _, k := range c.All() {
					if k != full {
						others = append(others, k)
					}
				}
				c.makeLeader(full, others)
			}
			stop := make(chan struct{})
			done := make(chan struct{})
			go func() { defer close(done); l.Run(3, stop) }()
			defer func() {
				if !closed(stop) {
					close(stop)
					<-done
				}
			}()
			other := 1 + full%3
			s := c.Connect(other)
			n := 0
			for deadline := time.Now().Add(60 * time.Second); c.Running(full) && time.Now().Before(deadline); n++ {
				if err := s.Try(fmt.Sprintf("INSERT INTO filler SELECT %d + i, repeat(md5(i::text), 30) FROM "+
					"generate_series(1, 500) i", n*1000)); err != nil && Code(err) != "40001" {
					t.Fatalf("node %d: %s", other, Explain(err))
				}
			}
			if err := c.Node(full).proc.Wait(stopTimeout); err != nil || c.Node(full).proc.Err() == nil {
				t.Fatalf("the node with the full disk: %v, ended with %v", err, c.Node(full).proc.Err())
			}
			last := process.Tail(c.Node(full).LogFile, 3)
			if !strings.Contains(last, "the log cannot be written") || !strings.Contains(last, "no space left") &&
				!strings.Contains(last, "file too large") {
				t.Errorf("the node ends with\n%s", last)
			}
			before := l.Counts()["ok"]
			c.soon(func() bool { return l.Counts()["ok"] > before },
				func() string { return "nothing is committed while one disk is full" })
			room()
			c.Run(full)
			c.WaitReady()
			close(stop)
			<-done
			t.Log(n, "fillings", l.Counts())
			l.Verify()
		})
	}
}

// makeLeader kills the others until node k leads: one that stops would choose who does.
func (c *Cluster) makeLeader(k int, others []int) {
	c.tb.Helper()
	for range 10 {
		leader := c.Leader()
		if leader == k {
			return
		}
		c.Kill(leader)
		time.Sleep(1500 * time.Millisecond)
		c.Run(leader)
		c.WaitReady(others...)
	}
	c.tb.Fatalf("node %d does not become the leader", k)
}
