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

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/wire"
)

// Node is a member's process: its client port and its lives.
type Node struct {
	config  *config.Config
	log     *slog.Logger
	cancels *wire.Cancels
	faults  *fault.Faults // nil in production

	processors process.Processors
	binding    process.Binding

	pg    *instance.Instance
	major atomic.Int32 // version of PostgreSQL; 0 until it was found

	clientTLS atomic.Pointer[tls.Config] // what was loaded last; nil: clients talk in the clear
	rules     clientRules
	clients   *clientLog

	mu     sync.Mutex
	tenure *tenure
}

// New makes a node of a validated configuration.
func New(c *config.Config, log *slog.Logger) *Node {
	log = log.With("node", c.Self().Name)
	n := &Node{config: c, log: log, cancels: wire.NewCancels(c.Limits.Sessions * 2), clients: newClientLog(log)}
	n.rules.roles.turn = make(chan struct{}, 1)
	return n
}

const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Run serves until ctx ends; then everything is stopped in order and the result is nil. An
// error is final: the log is unusable, the databases differ, or the configuration cannot
// work.
func (n *Node) Run(ctx context.Context) error {
	if err := errors.Join(n.loadClientTLS(), n.loadRules()); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", n.config.Listen)
	if err != nil {
		return fmt.Errorf("client port %s cannot be opened: %w", n.config.Listen, err)
	}
	frontCtx, stopFront := context.WithCancel(context.WithoutCancel(ctx))
	var front sync.WaitGroup
	front.Add(1)
	go func() { defer front.Done(); n.accept(frontCtx, ln) }()
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
	if n.config.SharesMachine {
		n.binding = process.Binding{Number: int(n.config.Member) - 1}
		front.Go(func() {
			n.binding.Run(frontCtx, func() int { return process.Postmaster(n.serverDir()) }, n.log)
		})
	}
	if n.pg, err = n.instance(ctx); err != nil {
		return err
	}
	err = n.tenures(ctx, n.pg)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(err, n.pg.Stop(stopCtx))
}

// tenures runs one tenure after another (N5).
func (n *Node) tenures(ctx context.Context, pg *instance.Instance) error {
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		began := time.Now()
		err := n.startDatabase(ctx, pg)
		if err == nil {
			err = n.hold(ctx, pg)
		}
		if ctx.Err() != nil {
			return nil
		}
		var fatal *FatalError
		if errors.As(err, &fatal) {
			return err
		}
		if errors.Is(err, errConverted) {
			wait = retryMin
			continue
		}
		n.log.Error("this member restarts", "error", err)
		if time.Since(began) > time.Minute {
			wait = retryMin
		}
		if !sleep(ctx, wait) {
			return nil
		}
	}
}

// instance finds the PostgreSQL to run.
func (n *Node) instance(ctx context.Context) (*instance.Instance, error) {
	if err := os.MkdirAll(n.config.DataDir, 0o755); err != nil {
		return nil, err
	}
	build, err := embedded.FindContext(ctx, embedded.Options{BinDir: n.config.Postgres.BinDir, NoSystem: n.config.Postgres.NoSystem})
	if err != nil {
		return nil, err
	}
	n.log.Info("PostgreSQL found", "build", build.String())
	n.major.Store(int32(build.Major))
	return instance.New(instance.Options{
		Build: build, DataDir: n.serverDir(), SocketDir: "",
		Settings: n.settings(), LogFile: filepath.Join(n.config.DataDir, "postgres.log"), Logger: n.log,
		LogBytesMax: int64(n.config.Limits.PostgresLogBytes), LogFilesMax: n.config.Limits.PostgresLogFiles,
		Yields: true,
	}), nil
}

// serverDir is PostgreSQL's data directory.
func (n *Node) serverDir() string { return filepath.Join(n.config.DataDir, "postgres") }

// settings are what Tutti needs of PostgreSQL; the configuration's own win where that is
// safe.
func (n *Node) settings() map[string]string {
	s := map[string]string{
		"synchronous_commit": "off", // the log makes commits durable
		"max_connections":    fmt.Sprint(n.config.Limits.Sessions + 20 + (12+speakersMax)*n.config.Limits.Databases),
	}
	for k, v := range n.config.Postgres.Settings {
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
			n.log.Info("cloning the database from its donor")
			err = pg.Clone(ctx, from, nil)
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
