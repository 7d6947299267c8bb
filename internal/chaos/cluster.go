package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pelletier/go-toml/v2"

	"github.com/tuttidb/tutti/internal/authority"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/process"
)

// cluster is the cluster under test. A node's number is the one that its member has.
type cluster struct {
	o      *Options
	net    network
	disk   *smallDisk
	binDir string // of PostgreSQL's binaries
	began  time.Time
	roster
	logs  *os.File // of faults
	ca    *authority.Authority
	out   io.Writer
	sayMu sync.Mutex
	wg    sync.WaitGroup // supervisors
}

// say prints a line with the time since the beginning, and keeps it.
func (c *cluster) say(format string, args ...any) {
	c.sayMu.Lock()
	defer c.sayMu.Unlock()
	line := fmt.Sprintf("%8.3f  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
	_, _ = io.WriteString(c.out, line)
	_, _ = c.logs.WriteString(line) // what is lost here was printed
}

// newCluster makes directories, networks and configurations; nothing runs yet.
func newCluster(ctx context.Context, o *Options, out io.Writer) (c *cluster, err error) {
	c = &cluster{o: o, out: out, began: time.Now()}
	if c.logs, err = os.Create(filepath.Join(o.Dir, "faults.log")); err != nil {
		return nil, err
	}
	build, err := embedded.FindContext(ctx, embedded.Options{BinDir: o.BinDir})
	if err != nil {
		return nil, err
	}
	c.binDir = build.BinDir
	if c.ca, err = authority.New("tutti chaos"); err != nil {
		return nil, err
	}
	if c.net, err = newNetwork(o); err != nil {
		return nil, err
	}
	var members []config.Member
	for k := 1; k <= o.Nodes; k++ {
		members = append(members, config.Member{Member: uint32(k), Name: fmt.Sprintf("node%d", k),
			Address: c.net.memberAddress(k), Clients: c.net.clientAddress(k)})
	}
	donor := instance.New(instance.Options{Build: build,
		DataDir: filepath.Join(o.Dir, "node1", "postgres")}).ConnString("postgres", "postgres")
	for k := 1; k <= o.Nodes; k++ {
		n := o.newNode(k, k)
		n.stage, n.member = stageMember, members[k-1].Name
		n.config = config.Config{
			Cluster: clusterName, Member: uint32(k), DataDir: filepath.Join(o.Dir, n.name()),
			Listen: members[k-1].Clients, MemberListen: members[k-1].Address, Secret: clusterSecret, Members: members,
		}
		cfg := &n.config
		if c.adapt(cfg); k > 1 {
			cfg.Postgres.CloneFrom = donor
		}
		if cfg.MemberTLS, err = c.memberTLS(k, cfg.Self().Name); err != nil {
			return nil, errors.Join(err, c.net.close())
		}
		if err := n.write(); err != nil {
			return nil, errors.Join(err, c.net.close())
		}
		c.add(n)
	}
	if err := errors.Join(c.mountDisk(c.node(1+int(o.Seed%uint64(o.Nodes)))), c.writeKeys()); err != nil {
		return nil, errors.Join(err, c.net.close())
	}
	return c, nil
}

const (
	clusterName   = "chaos"
	clusterSecret = "a secret for tests only"
	// sequenceStep is how many members there may ever be, where some join.
	sequenceStep = 200
)

// newNode is a node of a number at a place, with nothing yet.
func (o *Options) newNode(k, place int) *node {
	file := func(end string) string { return filepath.Join(o.Dir, fmt.Sprintf("node%d.%s", k, end)) }
	return &node{k: k, place: place, configFile: file("toml"), logFile: file("log"), faultFile: file("faults")}
}

// adapt gives a node's configuration what it needs beside others on one machine.
func (c *cluster) adapt(cfg *config.Config) {
	cfg.SharesMachine = c.o.Seed%2 == 1
	cfg.Postgres.BinDir, cfg.Postgres.AllowTrust = c.binDir, true
	cfg.Postgres.Settings = map[string]string{"shared_buffers": "32MB", "max_wal_size": "128MB",
		"min_wal_size": "32MB"}
	// Small, so that bounds are reached within a run: the index of keys, and new segments when a disk is full.
	cfg.Limits = config.Limits{CertifyKeys: 1 << 17, LogSegmentBytes: 4 << 20, LogRetention: 128 << 20}
	if c.o.changes() {
		cfg.SequenceStep = sequenceStep
	}
}

// memberTLS gives a node a certificate. Members of every fourth seed talk in the clear.
func (c *cluster) memberTLS(k int, name string) (config.MemberTLS, error) {
	if c.o.inTheClear() {
		return config.MemberTLS{}, nil
	}
	files, err := c.ca.Write(filepath.Join(c.o.Dir, fmt.Sprintf("node%d.tls", k)), name, authority.Years(1))
	return config.MemberTLS(files), err
}

// inTheClear: members talk without TLS.
func (o *Options) inTheClear() bool { return o.Seed%4 == 3 }

// write makes the node's configuration file. A node that starts just then reads the old one or the new one.
func (n *node) write() error {
	text, err := toml.Marshal(n.config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.config.DataDir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(n.configFile+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(n.configFile+".new", n.configFile)
}

// start brings all nodes up; the others clone the first. It gives up when ctx ends; what was
// started runs until stop, or life's end.
func (c *cluster) start(ctx, life context.Context) error {
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	nodes := c.members()
	c.wg.Go(func() { c.supervise(life, nodes[0]) })
	if err := c.awaitQuery(ready, 1, nodes[1].config.Postgres.CloneFrom, nil,
		"SELECT ordinal FROM tutti.progress"); err != nil {
		return err
	}
	for _, n := range nodes[1:] {
		c.wg.Go(func() { c.supervise(life, n) })
	}
	for _, n := range nodes {
		if err := c.awaitQuery(ready, n.k, c.url(n.k), c.net.dial, "SELECT 1"); err != nil {
			return err
		}
	}
	return nil
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// awaitQuery polls until a query works; it gives up when ctx ends or the node ends by itself.
func (c *cluster) awaitQuery(ctx context.Context, k int, url string, dial dialer, query string) error {
	for {
		_, err := ask(ctx, url, dial, query, 5*time.Second)
		if err == nil {
			return nil
		}
		if len(c.node(k).byItself()) > 0 || !sleep(ctx, 5*pollInterval) {
			return fmt.Errorf("node %d: %w\n%s", k, err, process.Tail(c.node(k).logFile, 15))
		}
	}
}

func (c *cluster) url(k int) string {
	return fmt.Sprintf("postgresql://postgres@%s/postgres?sslmode=disable", c.address(k))
}

// ask runs one query on a connection of its own and returns the rows as text.
func ask(ctx context.Context, url string, dial dialer, query string, timeout time.Duration) ([][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if dial != nil {
		cfg.DialFunc = pgconn.DialFunc(dial)
	}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, query).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, r := range results[len(results)-1].Rows {
		var row []string
		for _, v := range r {
			row = append(row, string(v))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// tool runs a subcommand of the binary where it can reach the nodes, and returns its output.
func (c *cluster) tool(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.o.Exe, args...)
	var out []byte
	err := c.net.inside(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	return string(out), err
}

// stop ends everything and says what did not end well, or is left.
func (c *cluster) stop() (problems []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range c.known() {
		wg.Go(func() {
			if err := n.stop(); err != nil {
				mu.Lock()
				problems = append(problems, err.Error())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	c.wg.Wait()
	for pid, line := range c.leftover(10 * time.Second) {
		problems = append(problems, fmt.Sprintf("process %d is left: %s", pid, line))
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
	}
	for _, err := range []error{c.disk.unmount(), c.net.close(), c.logs.Close()} {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// leftover waits a moment for the processes of the nodes to end, and lists those that do not.
func (c *cluster) leftover(wait time.Duration) map[int]string {
	for deadline := time.Now().Add(wait); ; time.Sleep(pollInterval) {
		left := map[int]string{}
		for _, n := range c.known() {
			for pid, line := range process.OfNode(n.configFile, n.config.DataDir) {
				left[pid] = line
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}
