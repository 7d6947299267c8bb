package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pelletier/go-toml/v2"

	"github.com/tuttidb/tutti/internal/authority"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/fault"
)

// Options are the demo's flags.
type Options struct {
	Nodes     int
	Dir       string
	BasePort  int
	BinDir    string
	NoSystem  bool
	Ephemeral bool
	LogLevel  string

	// Profiles, if set, is the directory where the nodes write profiles of their processor time when they stop.
	Profiles string
	// Faults, if set, is the directory of the nodes' files of faults, node1 and so on (package fault).
	Faults string
}

// FaultsOf is node k's file of faults.
func (o *Options) FaultsOf(k int) string { return filepath.Join(o.Faults, fmt.Sprintf("node%d", k)) }

// Cluster is a cluster being run. Its nodes are numbered from 1.
type Cluster struct {
	o     Options
	out   io.Writer
	build embedded.Build
	nodes []*Process
	lock  *flock.Flock // on the directory
}

const (
	readyTimeout = 40 * time.Second // for each node, as they start together
	pollInterval = 50 * time.Millisecond
)

// Run starts the cluster, prints how to reach it, and serves until ctx ends.
func Run(ctx context.Context, o Options, out io.Writer) (err error) {
	dir, remove, err := directory(o)
	if err != nil {
		return err
	}
	o.Dir = dir
	defer func() {
		if !errors.Is(err, errInUse) {
			err = errors.Join(err, remove())
		}
	}()
	c, err := Start(ctx, o, out)
	if ctx.Err() != nil && c == nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Stop()
	c.banner()
	c.watch(ctx)
	return nil
}

// Start brings a cluster up in o.Dir, which must be given, and returns when every node takes
// statements. The caller stops it; after an error nothing runs.
func Start(ctx context.Context, o Options, out io.Writer) (*Cluster, error) {
	if o.Nodes < 1 || o.Nodes > 9 {
		return nil, fmt.Errorf("--nodes %d: use 1 to 9", o.Nodes)
	}
	c := &Cluster{o: o, out: out}
	var err error
	if c.lock, err = lockDir(o.Dir); err != nil {
		return nil, err
	}
	where := embedded.Options{BinDir: o.BinDir, NoSystem: o.NoSystem, Progress: c.download(), DataDir: c.dataDirThere()}
	if c.build, err = embedded.FindContext(ctx, where); err != nil {
		return nil, errors.Join(err, c.lock.Unlock())
	}
	if err := c.configure(); err != nil {
		return nil, errors.Join(err, c.lock.Unlock())
	}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// dataDirThere is the data directory of a node that has been started before; empty if none has. Its PostgreSQL is the
// one to use.
func (c *Cluster) dataDirThere() string {
	for k := 1; k <= c.o.Nodes; k++ {
		if major, err := embedded.DataMajor(c.DataDir(k)); err != nil || major != 0 {
			return c.DataDir(k) // what is wrong with it is said by who looks for the binaries
		}
	}
	return ""
}

// download shows the progress of fetching PostgreSQL.
func (c *Cluster) download() func(done, total int64) {
	shown := int64(-1)
	return func(done, total int64) {
		if p := 100 * done / max(total, 1); p >= shown+10 {
			shown = p
			fmt.Fprintf(c.out, "downloading PostgreSQL: %d %%\n", p)
		}
	}
}

// certificateYears is how long the nodes' certificates are valid.
const certificateYears = 10

// configure writes the nodes' configuration files. Client ports are fixed, member ports are
// taken anew at each start, and so are the certificates, as nobody keeps their authority's key.
func (c *Cluster) configure() error {
	if c.o.Profiles != "" {
		if err := os.MkdirAll(c.o.Profiles, 0o755); err != nil {
			return err
		}
	}
	secret, err := c.secret()
	if err != nil {
		return err
	}
	ports, err := freePorts(c.o.Nodes)
	if err != nil {
		return err
	}
	var members []config.Member
	for k := 1; k <= c.o.Nodes; k++ {
		members = append(members, config.Member{Member: uint32(k), Name: fmt.Sprintf("node%d", k),
			Address: fmt.Sprintf("127.0.0.1:%d", ports[k-1]), Clients: c.Address(k)})
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	ca, err := authority.New("tutti demo")
	if err != nil {
		return err
	}
	donor := c.Server(1).ConnString("postgres", "postgres")
	for k := 1; k <= c.o.Nodes; k++ {
		if err := portFree(c.Address(k)); err != nil {
			return fmt.Errorf("client port of node %d: %w; choose another --base-port", k, err)
		}
		cfg := config.Config{
			Cluster: "demo", Member: uint32(k), DataDir: c.nodeDir(k), Listen: c.Address(k),
			MemberListen: members[k-1].Address,
			Secret:       secret, Members: members, LogLevel: c.o.LogLevel, SharesMachine: c.o.Nodes > 1,
			Postgres: config.Postgres{BinDir: c.build.BinDir, AllowTrust: true},
		}
		if k > 1 {
			cfg.Postgres.CloneFrom = donor
		}
		if err := c.makeDir(k); err != nil {
			return err
		}
		files, err := ca.Write(filepath.Join(c.nodeDir(k), "tls"), members[k-1].Name, authority.Years(certificateYears))
		if err != nil {
			return err
		}
		cfg.MemberTLS = config.MemberTLS(files)
		text, err := toml.Marshal(cfg)
		if err != nil {
			return err
		}
		if err := renameio.WriteFile(c.configFile(k), text, 0o600); err != nil {
			return err
		}
		c.nodes = append(c.nodes, c.process(k, exe))
	}
	return nil
}

// process is node k's, which is not started yet.
func (c *Cluster) process(k int, exe string) *Process {
	argv := []string{exe, "node", "--config", c.configFile(k)}
	if c.o.Profiles != "" {
		argv = append(argv, "--cpu-profile", filepath.Join(c.o.Profiles, fmt.Sprintf("node%d.pprof", k)))
	}
	n := NewProcess(fmt.Sprintf("node%d", k), filepath.Join(c.o.Dir, fmt.Sprintf("node%d.log", k)), argv...)
	// The nodes share this machine's cores; threads beyond that only wake each other.
	n.env = []string{fmt.Sprintf("GOMAXPROCS=%d", max(1, runtime.NumCPU()/c.o.Nodes))}
	if c.o.Faults != "" {
		n.env = append(n.env, fault.Variable+"="+c.o.FaultsOf(k))
	}
	return n
}

// makeDir makes node k's directory. One that is alone begins with it.
func (c *Cluster) makeDir(k int) error {
	dir := c.nodeDir(k)
	if _, err := os.Stat(dir); c.o.Nodes == 1 && errors.Is(err, os.ErrNotExist) {
		return config.MarkAlone(dir)
	}
	return os.MkdirAll(dir, 0o755)
}

// secret is made at the first start and kept.
func (c *Cluster) secret() (string, error) {
	path := filepath.Join(c.o.Dir, "secret")
	if b, err := os.ReadFile(path); err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	s := hex.EncodeToString(b)
	return s, renameio.WriteFile(path, []byte(s+"\n"), 0o600)
}

func (c *Cluster) nodeDir(k int) string { return filepath.Join(c.o.Dir, fmt.Sprintf("node%d", k)) }

func (c *Cluster) configFile(k int) string {
	return filepath.Join(c.o.Dir, fmt.Sprintf("node%d.toml", k))
}

// Address is where node k listens for clients.
func (c *Cluster) Address(k int) string { return fmt.Sprintf("127.0.0.1:%d", c.o.BasePort+k-1) }

func (c *Cluster) url(k int) string {
	return fmt.Sprintf("postgresql://postgres@%s/postgres", c.Address(k))
}

// Server is a view of node k's own PostgreSQL, to find its socket and files; it is not to be
// started or stopped.
func (c *Cluster) Server(k int) *instance.Instance {
	return instance.New(instance.Options{Build: c.build, DataDir: c.DataDir(k)})
}

// DataDir is where node k's PostgreSQL keeps its files.
func (c *Cluster) DataDir(k int) string { return filepath.Join(c.nodeDir(k), "postgres") }

// Member ports are taken from here: below the kernel's range for outgoing connections, one of which could have a port
// before its node listens on it.
const (
	portMin = 30000
	portMax = 32768
)

func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		p := portMin + mathrand.IntN(portMax-portMin)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			continue
		}
		defer l.Close() // after all are chosen, so that they differ
		ports = append(ports, p)
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, portMin, portMax)
}

func portFree(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// start brings the nodes up; at the first start the others clone the first.
func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.o.Nodes)*readyTimeout)
	defer cancel()
	fmt.Fprintf(c.out, "PostgreSQL: %s\n", c.build)
	fmt.Fprintf(c.out, "node1: starting\n")
	if err := c.nodes[0].Start(); err != nil {
		return err
	}
	if c.o.Nodes > 1 {
		if err := c.await(ctx, 1, c.Server(1).ConnString("postgres", "postgres"),
			"SELECT ordinal FROM tutti.progress"); err != nil {
			return err
		}
	}
	for k := 2; k <= c.o.Nodes; k++ {
		how := "starting"
		if !c.Server(k).Initialized() {
			how = "cloning node1"
		}
		fmt.Fprintf(c.out, "node%d: %s\n", k, how)
		if err := c.nodes[k-1].Start(); err != nil {
			return err
		}
	}
	for k := 1; k <= c.o.Nodes; k++ {
		if err := c.await(ctx, k, c.url(k)+"?sslmode=disable", "SELECT 1"); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "node%d: ready\n", k)
	}
	return nil
}

// await polls until a query works, or the node's process has ended.
func (c *Cluster) await(ctx context.Context, k int, conn, query string) error {
	var last error
	for {
		if last = probe(ctx, conn, query); last == nil {
			return nil
		}
		if !c.nodes[k-1].Running() {
			return fmt.Errorf("node %d ended while starting:\n%s", k, c.nodes[k-1].Tail())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %d is not ready: %w\n%s", k, last, c.nodes[k-1].Tail())
		case <-time.After(pollInterval):
		}
	}
}

func probe(ctx context.Context, conn, query string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pg, err := pgconn.Connect(ctx, conn)
	if err != nil {
		return err
	}
	_, err = pg.Exec(ctx, query).ReadAll()
	return errors.Join(err, pg.Close(ctx))
}

func (c *Cluster) banner() {
	var hosts []string
	fmt.Fprintf(c.out, "\nOne database on %d nodes; read and write on any of them:\n\n", c.o.Nodes)
	for k := 1; k <= c.o.Nodes; k++ {
		fmt.Fprintf(c.out, "  psql '%s'\n", c.url(k))
		hosts = append(hosts, c.Address(k))
	}
	fmt.Fprintf(c.out, "\n  all: psql 'postgresql://postgres@%s/postgres'\n\n", strings.Join(hosts, ","))
	fmt.Fprintf(c.out, "data: %s   PostgreSQL: %s\nCtrl-C stops everything.\n", c.o.Dir, c.build)
}

// Process is node k's process.
func (c *Cluster) Process(k int) *Process { return c.nodes[k-1] }

// Stop ends all nodes at once.
func (c *Cluster) Stop() {
	fmt.Fprintln(c.out, "stopping …")
	for _, n := range c.nodes {
		n.Interrupt()
	}
	for _, n := range c.nodes {
		n.Wait()
	}
	if !c.o.Ephemeral { // else the lock is kept until the directory is removed
		if err := c.lock.Unlock(); err != nil {
			fmt.Fprintf(c.out, "%s stays locked: %v\n", c.o.Dir, err)
		}
	}
	fmt.Fprintln(c.out, "stopped; nothing is left running")
}

// watch starts nodes again that end, until ctx does.
func (c *Cluster) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		for _, n := range c.nodes {
			if n.Running() || n.given {
				continue
			}
			if n.given = n.hopeless(); n.given {
				fmt.Fprintf(c.out, "%s ended and stays down; its log ends with:\n%s\n", n.name, n.Tail())
				continue
			}
			fmt.Fprintf(c.out, "%s ended (%s); starting it again\n", n.name, n.ended())
			if err := n.Start(); err != nil {
				fmt.Fprintf(c.out, "%s cannot be started: %v\n", n.name, err)
			}
		}
	}
}
