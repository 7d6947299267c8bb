package failure

import (
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Fatal ends the process: trying again cannot help, or would hide damage.
type Fatal struct{ Err error }

func (e *Fatal) Error() string { return e.Err.Error() }
func (e *Fatal) Unwrap() error { return e.Err }

// Config ends the process, too: the configuration, or what it names on this machine, must be changed first. Who
// starts the process again by itself should not do so.
type Config struct{ Err error }

func (e *Config) Error() string { return "configuration: " + e.Err.Error() }
func (e *Config) Unwrap() error { return e.Err }

// Newer ends the process, too: what the cluster has agreed on is of a newer release than this one, which must be
// installed first.
type Newer struct{ Err error }

func (e *Newer) Error() string { return e.Err.Error() }
func (e *Newer) Unwrap() error { return e.Err }

// NotUnderstood reports whether an error is that only a newer release understands something.
func NotUnderstood(err error) bool {
	var newer *Newer
	return errors.As(err, &newer) || errors.Is(err, writeset.ErrUnknown)
}

const (
	// SettleTime is how long a process that begins waits for what is in its way and may go by itself: a port or a
	// directory of a process that is just ending.
	SettleTime = 5 * time.Second
	SettlePoll = 100 * time.Millisecond
)

// Busy reports whether an error is that somebody else has what a node needs, its port or its data directory, or that
// the machine's network is not there yet.
func Busy(err error) bool {
	var name *net.DNSError
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) ||
		errors.Is(err, instance.ErrRunning) || errors.As(err, &name) && !name.IsNotFound
}

// Permanent makes what ends the process of an error; nil if it is worth another try. A process that has never served,
// and began at the given time, knows nothing better than its configuration; later the same error may be a passing
// one.
func Permanent(err error, served bool, began time.Time) error {
	var fatal *Fatal
	var config *Config
	var setup *embedded.SetupError
	switch {
	case NotUnderstood(err):
		return &Newer{err}
	case errors.As(err, &config):
		return err
	case errors.As(err, &setup):
		return &Config{err}
	case errors.As(err, &fatal):
		return err
	case served:
		return nil
	case Busy(err):
		if time.Since(began) < SettleTime {
			return nil
		}
		return &Config{err}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return &Config{err}
	}
	return nil
}

// Transient reports whether running the same again may succeed.
func Transient(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	// A function that is local to a session was made meanwhile, and gives way at the next try.
	local := pg.Code == "23505" && pg.SchemaName == "pg_catalog" && pg.TableName == "pg_proc"
	return !raised(pg) &&
		(strings.HasPrefix(pg.Code, "40") || pg.Code == "55P03" || pg.Code == "57014" || local)
}

// Environmental reports whether an error comes from this machine, not from the statement.
func Environmental(pg *pgconn.PgError) bool {
	switch {
	case raised(pg):
		return false
	case damage(pg):
		return true
	case pg.Code == "58P01", pg.Code == "58P02": // undefined or duplicate file: the same everywhere
		return false
	}
	for _, class := range []string{"08", "53", "57", "58"} {
		if strings.HasPrefix(pg.Code, class) {
			return true
		}
	}
	return false
}

// raised reports whether users' code has made an error: its SQLSTATE says nothing about this machine.
func raised(pg *pgconn.PgError) bool { return pg.Routine == "exec_stmt_raise" }

// damage reports whether a database cannot be read here: a page or an index is broken, or a file of a table is gone.
func damage(pg *pgconn.PgError) bool {
	switch pg.Code {
	case "XX001", "XX002":
		return true
	case "58P01", "XX000": // XX000 is what PostgreSQL makes of an errno that it does not know
		return slices.Contains([]string{"md.c", "smgr.c", "fd.c", "bufmgr.c", "slru.c"}, pg.File)
	}
	return false
}

// consequence is what follows from a failure of the executor's.
type consequence uint8

const (
	Ends  consequence = iota // the life ends, and another begins
	halts                    // so does this database at this member, until somebody does something about it
)

// Follows is what a failure of an entry, or of what else the executor does, means. Ready: this life serves clients, so
// that the next one will come to the entry before it does.
func Follows(err error, ready bool) consequence {
	if ready || !Lasting(err) {
		return Ends
	}
	return halts
}

// Lasting reports whether a failure is the entry's, or the database's: to try again cannot help.
func Lasting(err error) bool {
	var fatal *Fatal
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		return damage(pg) || !Transient(err) && !Environmental(pg)
	case errors.As(err, &fatal):
		return true
	}
	return false
}
