package node

import (
	"errors"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
)

// FatalError ends the process: trying again cannot help, or would hide damage.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return e.Err.Error() }
func (e *FatalError) Unwrap() error { return e.Err }

// ConfigError ends the process, too: the configuration, or what it names on this machine, must be changed first. Who
// starts the process again by itself should not do so.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return "configuration: " + e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

const (
	// settleTime is how long a process that begins waits for what is in its way and may go by itself: a port or a
	// directory of a process that is just ending.
	settleTime = 5 * time.Second
	settlePoll = 100 * time.Millisecond
)

// busy reports whether an error is that somebody else has what a node needs, its port or its data directory, or that
// the machine's network is not there yet.
func busy(err error) bool {
	var name *net.DNSError
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) ||
		errors.Is(err, instance.ErrRunning) || errors.As(err, &name) && !name.IsNotFound
}

// permanent makes what ends the process of an error; nil if it is worth another try. A process that has never served,
// and began at the given time, knows nothing better than its configuration; later the same error may be a passing
// one.
func permanent(err error, served bool, began time.Time) error {
	var fatal *FatalError
	var config *ConfigError
	var setup *embedded.SetupError
	switch {
	case errors.As(err, &config):
		return err
	case errors.As(err, &setup):
		return &ConfigError{err}
	case errors.As(err, &fatal):
		return err
	case served:
		return nil
	case busy(err):
		if time.Since(began) < settleTime {
			return nil
		}
		return &ConfigError{err}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return &ConfigError{err}
	}
	return nil
}
