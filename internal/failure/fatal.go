package failure

import (
	"errors"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
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
	return strings.HasPrefix(pg.Code, "40") || pg.Code == "55P03" || pg.Code == "57014" || local
}

// Environmental reports whether an error comes from this machine, not from the statement.
func Environmental(code string) bool {
	switch {
	case code == "58P01", code == "58P02": // undefined or duplicate file: the same everywhere
		return false
	}
	for _, class := range []string{"08", "53", "57", "58"} {
		if strings.HasPrefix(code, class) {
			return true
		}
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
		return !Transient(err) && !Environmental(pg.Code)
	case errors.As(err, &fatal):
		return true
	}
	return false
}
