package instance

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// Defaults and limits.
const (
	defaultSuperuser   = "postgres"
	defaultPort        = 5432
	defaultStopTimeout = 30 * time.Second
	maxLogBytes        = 64 << 20 // LogFile is moved aside at a Start above this, unless LogBytesMax says otherwise
)

// Options describe one server. Build and DataDir are required.
type Options struct {
	// Build is the binaries to run; its major version must be the data directory's.
	Build embedded.Build
	// Find, if set, gives the binaries for a clone of a donor of another major version, which are used from then on.
	Find func(major int) (embedded.Build, error)
	// DataDir is PostgreSQL's data directory. When this process is root, the user the
	// server runs as must be able to reach it (x on every directory above).
	DataDir string
	// SocketDir holds the unix socket. Empty: DataDir + ".run", or a short directory below
	// os.TempDir() when that path cannot hold a socket (too long, or with a comma). Made, open to its owner only, if
	// it does not exist.
	SocketDir string
	// Port only names the socket file; 0 means 5432.
	Port int
	// Settings are added to postgresql.conf and win over BaseSettings. Rewritten at every
	// Start. Those that name the server's identity (port, socket, files) are refused.
	Settings map[string]string
	// Superuser is made by Init; empty: "postgres".
	Superuser string
	// User is the operating system user of the server when this process is root. Empty: the
	// data directory's owner if that is not root, else "postgres", else "nobody". Ignored
	// when this process is not root: the server then runs as the same user.
	User string
	// LogFile takes the server's output; empty: postgres.log beside DataDir.
	LogFile string
	// LogBytesMax has LogFile moved to LogFile.1, and so on, while the server runs, when it has grown beyond that.
	// Settings of the logging collector's then follow from it. 0: the server writes LogFile without a collector, and it
	// grows until the next Start.
	LogBytesMax int64
	// LogFilesMax is how many files are kept of the log, LogFile included: two at least.
	LogFilesMax int
	// StopTimeout bounds a fast shutdown before it is forced; 0 means 30 s. Too short costs
	// a recovery at the next Start.
	StopTimeout time.Duration
	// Yields has the server scheduled as batch work where the system can do that (Linux): a backend that gets
	// something to do takes no processor from who is at work, so a relay in front of it goes on to the
	// next backend first. For a server whose clients are on the same machine.
	Yields bool
	// NoSync leaves Init's and Clone's files to the operating system's cache. For tests.
	NoSync bool
	// Logger; nil discards.
	Logger *slog.Logger
}

// Errors that callers distinguish.
var (
	// ErrRunning: the server runs already, here or under another process's management.
	ErrRunning = errors.New("already running")
	// ErrUnclean: the server was stopped by force; the next Start will recover.
	ErrUnclean = errors.New("the shutdown was forced; the next start recovers")
	// ErrInitialized: Init or Clone found a database in the data directory.
	ErrInitialized = errors.New("data directory is not empty")
)

// Instance manages one server. Its methods may be called from several goroutines.
type Instance struct {
	o   Options
	log *slog.Logger

	op sync.Mutex // held by Init, Clone and Start, one at a time

	mu        sync.Mutex // guards what follows
	run       *run       // nil: no process
	exited    chan error // of the last successful Start
	clean     bool       // see CleanShutdownBefore
	socketDir string     // resolved; "" until known
}

// New returns a manager for the server that o describes. It touches nothing yet; options
// that cannot work are reported by Init, Clone and Start.
func New(o Options) *Instance {
	if abs, err := filepath.Abs(o.DataDir); err == nil && o.DataDir != "" {
		o.DataDir = abs
	}
	o.Settings = maps.Clone(o.Settings)
	if o.Superuser == "" {
		o.Superuser = defaultSuperuser
	}
	if o.Port == 0 {
		o.Port = defaultPort
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = defaultStopTimeout
	}
	if o.LogFile == "" {
		o.LogFile = filepath.Join(filepath.Dir(o.DataDir), "postgres.log")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	i := &Instance{o: o, log: o.Logger.With("datadir", o.DataDir)}
	i.socketDir = i.knownSocketDir()
	return i
}

func (i *Instance) validate() error {
	switch {
	case i.o.Build.BinDir == "":
		return errors.New("instance: Options.Build is not set; use embedded.Find")
	case i.o.DataDir == "":
		return errors.New("instance: Options.DataDir is not set")
	case i.o.Port < 1 || i.o.Port > 65535:
		return fmt.Errorf("instance: port %d is not within 1..65535", i.o.Port)
	}
	return CheckSettings(i.o.Settings)
}

// Initialized reports whether the data directory holds a database.
func (i *Instance) Initialized() bool {
	_, err := os.Stat(filepath.Join(i.o.DataDir, "PG_VERSION"))
	return err == nil
}

// CleanShutdownBefore reports whether the database had been shut down cleanly when the last
// Start launched it. False means it went through crash recovery, or, after Clone, through
// the recovery of a backup: commits that were not yet durable may be missing.
func (i *Instance) CleanShutdownBefore() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.clean
}

// Exited returns a channel on which the last successful Start's server announces its end:
// one value, nil after Stop or Kill and an error otherwise, then the channel is closed.
// Before the first Start it is nil.
func (i *Instance) Exited() <-chan error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.exited
}

// Pid is the server's process id, 0 if it does not run.
func (i *Instance) Pid() int {
	if r := i.current(); r != nil {
		return r.pid
	}
	return 0
}

// current is the live process, or nil.
func (i *Instance) current() *run {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run == nil || i.run.ended() {
		return nil
	}
	return i.run
}

// ConnString is a connection string for pgx through the unix socket. An empty user is the
// superuser, an empty dbname "postgres". Valid from the first successful Start on.
func (i *Instance) ConnString(user, dbname string) string {
	if user == "" {
		user = i.o.Superuser
	}
	if dbname == "" {
		dbname = "postgres"
	}
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable",
		connQuote(i.SocketDir()), i.o.Port, connQuote(user), connQuote(dbname))
}

func connQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// lockData takes I2's lock. The caller unlocks by closing it.
func (i *Instance) lockData() (*flock.Flock, error) {
	if err := os.MkdirAll(filepath.Dir(i.o.DataDir), 0o755); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	l := flock.New(i.o.DataDir+".lock", flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("data directory lock %s.lock: %w", i.o.DataDir, err)
	}
	if !ok {
		return nil, fmt.Errorf("data directory %s: %w: another process holds %s.lock",
			i.o.DataDir, ErrRunning, i.o.DataDir)
	}
	return l, nil
}
