package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/clients"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/credentials"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/donor"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/speakers"
	"github.com/tuttidb/tutti/internal/spill"
	"github.com/tuttidb/tutti/internal/stopping"
	"github.com/tuttidb/tutti/internal/version"
	"github.com/tuttidb/tutti/internal/wire"
)

// Node is a member's process: its client port and its lives.
type Node struct {
	config  *config.Config // as of the start; see settled
	latest  atomic.Pointer[config.Config]
	log     *slog.Logger
	cancels *wire.Cancels
	faults  *fault.Faults // nil in production
	stops   *stopping.Stops
	reloads reloads

	files      *spill.Files // of large transactions
	processors process.Processors
	binding    process.Binding

	pg      *instance.Instance
	began   time.Time
	served  bool         // a life has begun once; of tenures
	copied  donor.Pauses // when copies were taken; of tenures
	vain    replay.Vain
	removed atomic.Bool  // the order has removed this member, and the others go on without it
	major   atomic.Int32 // version of PostgreSQL; 0 until it was found

	waits atomic.Pointer[string] // for what, before its first log is made

	clientTLS atomic.Pointer[tls.Config] // what was loaded last; nil: clients talk in the clear
	rules     *clients.Rules
	clients   *clients.Log
	metrics   *metrics.Registry

	credentials *credentials.Credentials // towards the other members

	mu     sync.Mutex
	tenure *tenure
}

// New makes a node of a validated configuration.
func New(c *config.Config, log *slog.Logger) *Node {
	log = log.With("node", c.Self().Name)
	n := &Node{
		config: c, log: log, cancels: wire.NewCancels(c.Limits.Sessions * 2), began: time.Now(), metrics: metrics.New(),
		stops: stopping.New(),
	}
	n.credentials = credentials.New(c, log)
	n.clients = clients.NewLog(log, &n.metrics.Process.Clients)
	n.metrics.Fresh(func() { measureNode(n) })
	n.latest.Store(c)
	n.rules = clients.NewRules(clients.RuleOptions{
		Config: c, Log: log, AllowTrust: func() bool { return n.settled().Postgres.AllowTrust },
		ConnString: n.connString,
	})
	return n
}

const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Run serves until it is told to stop (Drain, StopNow), or ctx ends, which is the same as StopNow; then everything is
// stopped in order and the result is nil. An error is final: a FatalError or a ConfigError, or what keeps PostgreSQL
// from being found.
func (n *Node) Run(ctx context.Context) error {
	n.log.Info("Tutti starts", "version", version.Long(), "cluster", n.config.Cluster, "member", n.config.Member)
	ctx, cancel := context.WithCancel(ctx)
	var stop sync.WaitGroup
	stop.Go(func() { n.stop(ctx, cancel) })
	defer stop.Wait()
	defer cancel()
	if err := n.valid(); err != nil {
		return err
	}
	n.files = spill.New(n.config.DataDir, n.log)
	ln, err := n.listen(ctx, "client port", n.config.Listen)
	if err != nil || ln == nil {
		return err
	}
	admin, err := openAdmin(ctx, n)
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ln.Close())
	}
	frontCtx, stopFront := context.WithCancel(context.WithoutCancel(ctx))
	var front sync.WaitGroup
	front.Add(1)
	go func() {
		defer front.Done()
		n.clients.Accept(frontCtx, ln, func(conn net.Conn, admitted func()) { n.serve(frontCtx, conn, admitted) })
	}()
	serveAdmin(frontCtx, &front, admin, n)
	defer func() {
		stopFront()
		// Closing twice is harmless; accept ends by it.
		_ = ln.Close()
		front.Wait()
	}()
	if n.faults = fault.FromEnvironment(n.log); n.faults != nil {
		front.Go(func() { n.faults.Watch(frontCtx) })
	}
	front.Go(func() { n.processors.Watch(frontCtx) })
	front.Go(func() { n.credentials.Watch(frontCtx) })
	if n.config.SharesMachine {
		n.binding = process.Binding{Number: int(n.config.Member) - 1}
		front.Go(func() {
			n.binding.Run(frontCtx, func() int { return process.Postmaster(n.serverDir()) }, n.log)
		})
	}
	if err := n.memberPortFree(ctx); err != nil {
		return err
	}
	pg, err := n.instance(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	err = n.tenures(ctx, pg)
	stopCtx, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancelStop()
	return errors.Join(err, pg.Stop(stopCtx), n.errRemoved())
}

// valid refuses what of the configuration cannot be carried out, before anything is touched.
func (n *Node) valid() error {
	if err := n.loadClientTLS(); err != nil {
		return &failure.Config{Err: err}
	}
	if err := n.credentials.Begin(); err != nil {
		return &failure.Config{Err: err}
	}
	if err := n.rules.Load(); err != nil {
		return &failure.Config{Err: err}
	}
	if err := instance.CheckSettings(n.settings()); err != nil {
		return &failure.Config{Err: fmt.Errorf("[postgres.settings]: %w", err)}
	}
	return nil
}

// listen opens a port, of which a process may have yet to let go that is just ending. Without an error and a
// listener, ctx has ended.
func (n *Node) listen(ctx context.Context, what, address string) (net.Listener, error) {
	for said := false; ; said = true {
		ln, err := net.Listen("tcp", address)
		if err == nil {
			return ln, nil
		}
		err = fmt.Errorf("%s %s cannot be opened: %w", what, address, err)
		if n.served || !failure.Busy(err) || time.Since(n.began) >= failure.SettleTime {
			return nil, &failure.Config{Err: err}
		}
		if !said {
			n.log.Warn("waiting for a port", "error", err, "most", failure.SettleTime)
		}
		if !process.Sleep(ctx, failure.SettlePoll) {
			return nil, nil
		}
	}
}

// memberPortFree looks whether the port for members can be opened, before a server is started in vain.
func (n *Node) memberPortFree(ctx context.Context) error {
	ln, err := n.listen(ctx, "member port", n.config.MemberListen)
	if ln != nil {
		err = ln.Close()
	}
	return err
}

// tenures runs one tenure after another (N5).
func (n *Node) tenures(ctx context.Context, pg *instance.Instance) error {
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		began := time.Now()
		err := n.startDatabase(ctx, pg)
		if err == nil {
			err = n.hold(ctx, pg)
		}
		if is, failed := n.mends(ctx, pg, err); is {
			if err = failed; err == nil {
				wait = retryMin
				continue
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if final := failure.Permanent(err, n.served, n.began); final != nil {
			return final
		}
		if errors.Is(err, errConverted) {
			wait = retryMin
			continue
		}
		n.log.Error("this member restarts", "error", err)
		n.metrics.Process.Node.Restarts.Add(1)
		if time.Since(began) > time.Minute {
			wait = retryMin
		}
		if !process.Sleep(ctx, wait) {
			return nil
		}
	}
}

// instance finds the PostgreSQL to run: that of the version of the data directory, if there is a database in it.
func (n *Node) instance(ctx context.Context) (*instance.Instance, error) {
	if err := os.MkdirAll(n.config.DataDir, 0o755); err != nil {
		return nil, &failure.Config{Err: err}
	}
	c := n.config.Postgres
	if err := instance.Settle(n.serverDir()); err != nil {
		return nil, err
	}
	where := embedded.Options{BinDir: c.BinDir, NoSystem: c.NoSystem, DataDir: n.serverDir()}
	build, err := embedded.FindContext(ctx, where)
	if err != nil {
		if final := failure.Permanent(err, false, n.began); final != nil {
			return nil, final
		}
		return nil, err
	}
	n.log.Info("PostgreSQL found", "build", build.String())
	n.major.Store(int32(build.Major))
	pg := instance.New(instance.Options{
		Build: build, DataDir: n.serverDir(), SocketDir: "",
		Settings: n.settings(), LogFile: filepath.Join(n.config.DataDir, "postgres.log"), Logger: n.log,
		LogBytesMax: int64(n.config.Limits.PostgresLogBytes), LogFilesMax: n.config.Limits.PostgresLogFiles,
		Yields: true,
		Find: func(major int) (embedded.Build, error) {
			where := where
			where.DataDir, where.Major = "", major
			return embedded.FindContext(ctx, where)
		},
	})
	n.mu.Lock()
	n.pg = pg
	n.mu.Unlock()
	return pg, nil
}

// serverDir is PostgreSQL's data directory.
func (n *Node) serverDir() string { return filepath.Join(n.config.DataDir, "postgres") }

// settings are what Tutti needs of PostgreSQL; the configuration's own win where that is
// safe.
func (n *Node) settings() map[string]string { return n.settingsOf(n.settled()) }

func (n *Node) settingsOf(c *config.Config) map[string]string {
	s := map[string]string{
		"synchronous_commit": "off", // the log makes commits durable
		"max_connections":    fmt.Sprint(n.config.Limits.Sessions + 20 + (13+speakers.Max)*n.config.Limits.Databases),
	}
	for k, v := range c.Postgres.Settings {
		s[k] = v
	}
	s["track_counts"] = "on" // by which captured rows are ordered
	return s
}

// startDatabase makes sure a fresh server process runs on the member's database, so that
// no backend of an earlier life is left (its COMMIT could still be under way).
func (n *Node) startDatabase(ctx context.Context, pg *instance.Instance) error {
	if err := pg.Stop(ctx); err != nil {
		return err
	}
	if !pg.Initialized() {
		var err error
		if from := n.config.Postgres.CloneFrom; from != "" {
			err = n.copyFirst(ctx, pg, from)
		} else {
			n.log.Info("creating a new database")
			err = pg.Init(ctx)
		}
		if err != nil {
			return err
		}
	}
	return pg.Start(ctx)
}

var errDatabaseGone = errors.New("the database server is gone")

// connString is that of the local PostgreSQL, if it runs.
func (n *Node) connString() (string, error) {
	t := n.current()
	if t == nil {
		return "", errDatabaseGone
	}
	return t.pg.ConnString(superuser, n.config.Database) + link.OwnOptions(t.pg.Build().Major), nil
}

func (n *Node) setTenure(t *tenure) {
	n.mu.Lock()
	n.tenure = t
	n.mu.Unlock()
}

func (n *Node) current() *tenure {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tenure
}
