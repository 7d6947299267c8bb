package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/process"
)

const (
	readyTimeout = 90 * time.Second
	stopTimeout  = 90 * time.Second // how long a node may take to end after SIGTERM
	pollInterval = 20 * time.Millisecond
)

// Cluster is a running cluster. Nodes are numbered from 1. Its methods that take no error
// path fail the test they belong to.
type Cluster struct {
	Dir   string
	nodes []*Node
	tb    testing.TB
	opts  []Option

	database string // of its sessions; empty for "postgres"
}

// Node is one member: its configuration and, while it runs, its process.
type Node struct {
	Config     config.Config
	ConfigFile string
	LogFile    string
	FaultFile  string // see package fault; empty: it has no faults
	Binary     string // that it runs; empty: the one under test
	proc       *process.Process
}

// Option changes the nodes' configuration before they start.
type Option func(member int, c *config.Config)

// Start runs a cluster of n nodes, with empty databases, until the end of the test.
func Start(tb testing.TB, n int, opts ...Option) *Cluster {
	tb.Helper()
	c := New(tb, n, opts...)
	if err := c.fresh(); err != nil {
		tb.Fatalf("cluster: %v", err)
	}
	c.StartNodes()
	return c
}

// New writes the configuration of a cluster that is not running yet.
func New(tb testing.TB, n int, opts ...Option) *Cluster {
	tb.Helper()
	slots.take(tb)
	c, err := create(n, opts, memory())
	if err != nil {
		tb.Fatalf("cluster: %v", err)
	}
	c.tb = tb
	tb.Cleanup(c.end)
	return c
}

// slots bounds how many tests have clusters of their own at once.
var slots slotsOf

type slotsOf struct {
	free chan struct{} // unlimited if nil
	has  sync.Map      // tests, by name
}

// take waits until the test may have clusters, as many as it wants, and gives back what it took when tb ends.
func (s *slotsOf) take(tb testing.TB) {
	test, _, _ := strings.Cut(tb.Name(), "/")
	if _, has := s.has.LoadOrStore(test, true); has || s.free == nil {
		return
	}
	s.free <- struct{}{}
	tb.Cleanup(func() {
		<-s.free
		s.has.Delete(test)
	})
}

// memory is where clusters of tests have their files, if there is a file system in memory and TMPDIR does not say where
// else: a process that is killed leaves the same there as on a disk. The shared cluster's are on disk.
func memory() string {
	if os.Getenv("TMPDIR") != "" {
		return ""
	}
	return pgtest.MemoryDir()
}

// fresh gives every node an empty database that is there already, as initdb would make it.
func (c *Cluster) fresh() error {
	build, err := findBuild()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for _, n := range c.nodes {
		if err := pgtest.NewDataDir(ctx, build, filepath.Join(n.Config.DataDir, "postgres")); err != nil {
			return err
		}
	}
	return nil
}

func create(n int, opts []Option, parent string) (*Cluster, error) {
	build, err := findBuild()
	if err != nil {
		return nil, err
	}
	// Short enough for a socket, and open to the user PostgreSQL runs as.
	dir, err := os.MkdirTemp(parent, "tc")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, opts: opts}
	var members []config.Member
	for k := 1; k <= n; k++ {
		members = append(members, member(k, ports[2*k-2:]))
	}
	donor := instance.New(instance.Options{Build: build, DataDir: filepath.Join(dir, "node1", "postgres")}).ConnString(
		"postgres", "postgres")
	for k := 1; k <= n; k++ {
		from := donor
		if k == 1 {
			from = ""
		}
		if err := c.configure(k, members, build.BinDir, from); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// member is node k's entry in the list of members, with its two ports.
func member(k int, ports []int) config.Member {
	return config.Member{Member: uint32(k), Name: fmt.Sprintf("node%d", k),
		Address: fmt.Sprintf("127.0.0.1:%d", ports[0]), Clients: fmt.Sprintf("127.0.0.1:%d", ports[1])}
}

// configure writes the configuration of node k, the last one of a list of members.
func (c *Cluster) configure(k int, members []config.Member, binDir, donor string) (err error) {
	self := members[k-1]
	cfg := config.Config{
		Cluster: "test", Member: uint32(k), DataDir: filepath.Join(c.Dir, self.Name),
		Listen: self.Clients, MemberListen: self.Address, Secret: "a secret for tests only",
		Members: members,
		Limits: config.Limits{
			AuditPercent: -1, // tests count what the order carries
			// a start reads a whole segment, and most tests start nodes whose log is short
			LogSegmentBytes: 4 << 20,
		},
		// sessions of a test that are in a transaction when it stops a node
		DrainTimeout: "1s",
		Postgres: config.Postgres{BinDir: binDir, AllowTrust: true, CloneFrom: donor, Settings: map[string]string{
			"shared_buffers": "32MB", "log_min_messages": "warning"}},
	}
	if cfg.MemberTLS, err = memberTLS(filepath.Join(c.Dir, self.Name+".tls"), self.Name); err != nil {
		return err
	}
	for _, o := range c.opts {
		o(k, &cfg)
	}
	node := &Node{Config: cfg, ConfigFile: filepath.Join(c.Dir, self.Name+".toml"),
		LogFile: filepath.Join(c.Dir, self.Name+".log")}
	c.nodes = append(c.nodes, node)
	if len(cfg.Members) == 1 {
		err = config.MarkAlone(cfg.DataDir)
	}
	return errors.Join(err, node.WriteConfig())
}

// Join adds a member to the cluster, by node k, and starts its node. It returns the node's number.
func (c *Cluster) Join(k int) int {
	c.tb.Helper()
	ports, err := freePorts(2)
	if err != nil {
		c.tb.Fatal(err)
	}
	n := len(c.nodes) + 1
	m := member(n, ports)
	list := append(slices.Clone(c.Node(n-1).Config.Members), m)
	if err := c.configure(n, list, c.Node(1).Config.Postgres.BinDir, ""); err != nil {
		c.tb.Fatal(err)
	}
	s := c.Connect(k)
	defer s.Close(s.ctx())
	s.Do(fmt.Sprintf("CALL tutti.add_member('%s', '%s', '%s')", m.Name, m.Address, m.Clients))
	c.Run(n)
	return n
}

// unsaid are keys without a value in a configuration file.
var unsaid = regexp.MustCompile(`(?m)^\w+ = (''|0|false)\n`)

// WriteConfig writes the node's configuration file, for its next start. What is not said is left out: the release
// before may not know of it.
func (n *Node) WriteConfig() error {
	text, err := toml.Marshal(n.Config)
	if err != nil {
		return err
	}
	text = unsaid.ReplaceAll(text, nil)
	if err := os.MkdirAll(n.Config.DataDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(n.ConfigFile, text, 0o600)
}

// Size is the number of nodes.
func (c *Cluster) Size() int { return len(c.nodes) }

// Node gives node k.
func (c *Cluster) Node(k int) *Node { return c.nodes[k-1] }

// StartNodes brings all nodes up; at the first start the others clone the first.
func (c *Cluster) StartNodes() {
	c.tb.Helper()
	c.Run(1)
	if len(c.nodes) > 1 && !c.initialized() {
		donor := c.Node(2).Config.Postgres.CloneFrom
		c.await(1, readyTimeout, func(ctx context.Context) error {
			return probe(ctx, donor, "SELECT ordinal FROM tutti.progress")
		})
	}
	for k := 2; k <= len(c.nodes); k++ {
		c.Run(k)
	}
	c.WaitReady()
}

func (c *Cluster) initialized() bool {
	for _, n := range c.nodes {
		if _, err := os.Stat(filepath.Join(n.Config.DataDir, "postgres", "PG_VERSION")); err != nil {
			return false
		}
	}
	return true
}

// Run starts node k's process, without waiting for anything.
func (c *Cluster) Run(k int) {
	c.tb.Helper()
	n := c.Node(k)
	if n.proc.Running() {
		c.tb.Fatalf("node %d runs already", k)
	}
	exe, err := n.Binary, error(nil)
	if exe == "" {
		exe, err = Binary()
	}
	if err != nil {
		c.tb.Fatal(err)
	}
	o := process.Options{Log: n.LogFile}
	if n.FaultFile != "" {
		o.Env = []string{fault.Variable + "=" + n.FaultFile}
	}
	p, err := process.Start(o, exe, "node", "--config", n.ConfigFile)
	if err != nil {
		c.tb.Fatal(err)
	}
	n.proc = p
}

// WaitReady waits until the given nodes, or all, take statements.
func (c *Cluster) WaitReady(nodes ...int) {
	c.tb.Helper()
	if len(nodes) == 0 {
		nodes = c.All()
	}
	for _, k := range nodes {
		c.await(k, readyTimeout, func(ctx context.Context) error { return probe(ctx, c.URL(k), "SELECT 1") })
	}
}

// All lists the nodes' numbers.
func (c *Cluster) All() []int {
	var all []int
	for k := range c.nodes {
		all = append(all, k+1)
	}
	return all
}

// await polls until f succeeds; it fails the test at the timeout, or if node k ends.
func (c *Cluster) await(k int, timeout time.Duration, f func(context.Context) error) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		if !c.Node(k).proc.Running() {
			c.tb.Fatalf("node %d has ended: %v\n%s", k, c.Node(k).proc.Err(), process.Tail(c.Node(k).LogFile, 15))
		}
		select {
		case <-ctx.Done():
			c.tb.Fatalf("node %d: %v\n%s", k, err, process.Tail(c.Node(k).LogFile, 15))
		case <-time.After(pollInterval):
		}
	}
}

// Running reports whether node k's process runs.
func (c *Cluster) Running(k int) bool { return c.Node(k).proc.Running() }

// PID is the process of node k; zero if it does not run.
func (c *Cluster) PID(k int) int {
	if !c.Running(k) {
		return 0
	}
	return c.Node(k).proc.PID()
}

// PostgresPID is the postmaster of node k; zero if there is none.
func (c *Cluster) PostgresPID(k int) int {
	return process.Postmaster(filepath.Join(c.Node(k).Config.DataDir, "postgres"))
}

// Kill sends SIGKILL to node k's process, whose PostgreSQL then ends by itself.
func (c *Cluster) Kill(k int) {
	c.tb.Helper()
	p := c.Node(k).proc
	p.Signal(syscall.SIGKILL)
	if err := p.Wait(stopTimeout); err != nil {
		c.tb.Fatal(err)
	}
}

// KillPostgres sends SIGKILL to the postmaster of node k.
func (c *Cluster) KillPostgres(k int) {
	c.tb.Helper()
	pid := c.PostgresPID(k)
	if pid <= 1 {
		c.tb.Fatalf("node %d has no postmaster", k)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		c.tb.Fatalf("postmaster %d of node %d: %v", pid, k, err)
	}
}

// KillAll sends SIGKILL to every node and every postmaster, as near to at once as possible.
func (c *Cluster) KillAll() {
	c.tb.Helper()
	c.KillBoth(c.All()...)
}

// KillBoth sends SIGKILL to nodes and their postmasters, as near to at once as possible. One after the other would be
// a race: a postmaster ends when its node does.
func (c *Cluster) KillBoth(nodes ...int) {
	c.tb.Helper()
	var pids []int
	for _, k := range nodes {
		for _, pid := range []int{c.PID(k), c.PostgresPID(k)} {
			if pid > 1 {
				pids = append(pids, pid)
			}
		}
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // a postmaster may just have ended with its node
	}
	for _, k := range nodes {
		if err := c.Node(k).proc.Wait(stopTimeout); err != nil {
			c.tb.Fatal(err)
		}
	}
}

// Stop ends nodes with SIGTERM, all given ones at once, and checks that they end well.
func (c *Cluster) Stop(nodes ...int) {
	c.tb.Helper()
	for _, k := range nodes {
		c.Node(k).proc.Signal(syscall.SIGTERM)
	}
	for _, k := range nodes {
		n := c.Node(k)
		if err := n.proc.Wait(stopTimeout); err != nil {
			c.tb.Fatalf("node %d: %v\n%s", k, err, process.Tail(n.LogFile, 15))
		}
		if n.proc.Err() != nil {
			c.tb.Errorf("node %d ended with %v\n%s", k, n.proc.Err(), process.Tail(n.LogFile, 15))
		}
	}
}

// Leftover waits a moment for the processes of the cluster to end, and lists the ones that
// do not.
func (c *Cluster) Leftover(wait time.Duration) map[int]string {
	for deadline := time.Now().Add(wait); ; time.Sleep(pollInterval) {
		left := process.Leftover(c.Dir)
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

// end stops everything and checks T1.
func (c *Cluster) end() {
	if c.tb.Failed() {
		for _, n := range c.nodes {
			c.tb.Logf("log of %s ends with:\n%s", n.Config.Self().Name, process.Tail(n.LogFile, 25))
		}
	}
	for _, n := range c.nodes {
		n.proc.Signal(syscall.SIGTERM)
	}
	var wg sync.WaitGroup
	for k, n := range c.nodes {
		if n.proc == nil {
			continue
		}
		wg.Go(func() {
			if err := n.proc.Wait(stopTimeout); err != nil {
				c.tb.Errorf("node %d, asked to stop: %v", k+1, err)
				n.proc.Signal(syscall.SIGKILL)
				<-n.proc.Done()
			}
		})
	}
	wg.Wait()
	for pid, line := range c.Leftover(30 * time.Second) {
		c.tb.Errorf("process %d is left: %s", pid, line)
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
	}
	for _, n := range c.nodes {
		if bad := process.Accident(n.LogFile); bad != "" {
			c.tb.Errorf("log of %s: %s", n.Config.Self().Name, bad)
		}
	}
	if c.tb.Failed() && os.Getenv("TUTTI_TEST_KEEP") != "" {
		c.tb.Logf("files are kept in %s", c.Dir)
		return
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		c.tb.Errorf("cluster: %v", err)
	}
}

// in is the same cluster for a subtest.
func (c *Cluster) in(tb testing.TB) *Cluster {
	inner := *c
	inner.tb = tb
	return &inner
}
