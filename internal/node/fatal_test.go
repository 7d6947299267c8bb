package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
)

// TestPermanent: which errors end the process, and which of them mean the configuration.
func TestPermanent(t *testing.T) {
	port := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	locked := fmt.Errorf("data directory: %w", instance.ErrRunning)
	for _, c := range []struct {
		what   string
		err    error
		served bool
		age    time.Duration
		ends   bool
		config bool
	}{
		{"a passing error", errors.New("PostgreSQL ended"), false, time.Hour, false, false},
		{"the log is unusable", fmt.Errorf("log: %w", &FatalError{errors.New("torn")}), true, time.Hour, true, false},
		{"another cluster's log", &FatalError{errors.Join(&ConfigError{errors.New("another cluster")}, nil)}, false, 0, true, true},
		{"a setting", fmt.Errorf("start: %w", embedded.Setupf("no such setting")), false, 0, true, true},
		{"a setting that came later", embedded.Setupf("no such setting"), true, time.Hour, true, true},
		{"a port that may be free soon", port, false, settleTime / 2, false, false},
		{"a port", port, false, settleTime, true, true},
		{"a port that was ours", port, true, time.Hour, false, false},
		{"a directory that may be free soon", locked, false, settleTime / 2, false, false},
		{"a directory", locked, false, settleTime, true, true},
		{"a file that may not be read", fmt.Errorf("start: %w", fs.ErrPermission), false, 0, true, true},
		{"the same, later", fmt.Errorf("start: %w", fs.ErrPermission), true, 0, false, false},
		{"a name nobody knows yet", &net.DNSError{IsTimeout: true}, false, settleTime / 2, false, false},
	} {
		got := permanent(c.err, c.served, time.Now().Add(-c.age))
		var config *ConfigError
		if (got != nil) != c.ends || errors.As(got, &config) != c.config {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
