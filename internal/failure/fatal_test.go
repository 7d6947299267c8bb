package failure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/writeset"
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
		{"the log is unusable", fmt.Errorf("log: %w", &Fatal{errors.New("torn")}), true, time.Hour, true, false},
		{"a newer release", fmt.Errorf("log: %w", &Fatal{writeset.ErrUnknown}), true, time.Hour, true, false},
		{"an upgrade that was finished", &Newer{errors.New("level 6")}, true, time.Hour, true, false},
		{"another cluster's log", &Fatal{errors.Join(&Config{errors.New("another cluster")}, nil)}, false, 0, true, true},
		{"a setting", fmt.Errorf("start: %w", embedded.Setupf("no such setting")), false, 0, true, true},
		{"a setting that came later", embedded.Setupf("no such setting"), true, time.Hour, true, true},
		{"a port that may be free soon", port, false, SettleTime / 2, false, false},
		{"a port", port, false, SettleTime, true, true},
		{"a port that was ours", port, true, time.Hour, false, false},
		{"a directory that may be free soon", locked, false, SettleTime / 2, false, false},
		{"a directory", locked, false, SettleTime, true, true},
		{"a file that may not be read", fmt.Errorf("start: %w", fs.ErrPermission), false, 0, true, true},
		{"the same, later", fmt.Errorf("start: %w", fs.ErrPermission), true, 0, false, false},
		{"a name nobody knows yet", &net.DNSError{IsTimeout: true}, false, SettleTime / 2, false, false},
	} {
		got := Permanent(c.err, c.served, time.Now().Add(-c.age))
		var config *Config
		if (got != nil) != c.ends || errors.As(got, &config) != c.config {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestWhatHalts: what is the entry's, or the database's, fault halts who has not served anybody yet; what may go by
// itself never does.
func TestWhatHalts(t *testing.T) {
	pg := func(code string) error { return fmt.Errorf("table t: %w", &pgconn.PgError{Code: code}) }
	for _, x := range []struct {
		name string
		err  error
		want bool // to try again cannot help
	}{
		{"a row that is not there", &Fatal{errors.New("0 rows affected instead of 1")}, true},
		{"what cannot be planned", &Fatal{fmt.Errorf("entries 1 to 2: %w", errors.New("x"))}, true},
		{"a unique value that is taken", &Fatal{pg("23505")}, true},
		{"a value that is not received", pg("22P03"), true},
		{"a tsquery of stop words", pg("XX000"), true},
		{"an entry of an index that is too long", pg("54000"), true},
		{"a table that is not there", pg("42P01"), true},
		{"a file that an extension needs", pg("58P01"), true},
		{"damaged data", pg("XX001"), true},
		{"a file of a table that is gone", &pgconn.PgError{Code: "58P01", File: "md.c"}, true},
		{"an error of the system that nobody knows", &pgconn.PgError{Code: "XX000", File: "fd.c"}, true},
		{"what users' code calls a full disk", &pgconn.PgError{Code: "53100", Routine: "exec_stmt_raise"}, true},
		{"what users' code calls a serialization failure", &pgconn.PgError{Code: "40001", Routine: "exec_stmt_raise"},
			true},
		{"a disk that is full", pg("53100"), false},
		{"no memory", pg("53200"), false},
		{"too many connections", pg("53300"), false},
		{"the same, wrapped as final", &Fatal{pg("53100")}, false},
		{"a file that cannot be read", pg("58030"), false},
		{"PostgreSQL stops", pg("57P01"), false},
		{"a cancel", pg("57014"), false},
		{"a deadlock", pg("40P01"), false},
		{"a serialization failure", pg("40001"), false},
		{"a lock that is held", pg("55P03"), false},
		{"a connection that breaks", errors.New("unexpected EOF"), false},
		{"the end", context.Canceled, false},
	} {
		if got := Lasting(x.err); got != x.want {
			t.Errorf("%s: lasting is %t", x.name, got)
		}
		if got := Follows(x.err, false) == halts; got != x.want {
			t.Errorf("%s: before anybody was served it halts: %t", x.name, got)
		}
		if Follows(x.err, true) != Ends {
			t.Errorf("%s: who serves clients ends first, so that no session is left", x.name)
		}
	}
}

// TestEnvironmental: what comes from this machine is no answer of a statement, which would be the same at all members.
func TestEnvironmental(t *testing.T) {
	for _, x := range []struct {
		name string
		err  pgconn.PgError
		want bool
	}{
		{"a disk that is full", pgconn.PgError{Code: "53100", File: "md.c"}, true},
		{"a page that is broken", pgconn.PgError{Code: "XX001", File: "bufmgr.c"}, true},
		{"an index that is broken", pgconn.PgError{Code: "XX002", File: "nbtpage.c"}, true},
		{"a file of a table that is gone", pgconn.PgError{Code: "58P01", File: "md.c"}, true},
		{"a library that is not there", pgconn.PgError{Code: "58P01", File: "dfmgr.c"}, false},
		{"an error inside PostgreSQL", pgconn.PgError{Code: "XX000", File: "tsquery.c"}, false},
		{"what users' code calls a full disk", pgconn.PgError{Code: "53100", Routine: "exec_stmt_raise"}, false},
		{"a unique value that is taken", pgconn.PgError{Code: "23505"}, false},
	} {
		if got := Environmental(&x.err); got != x.want {
			t.Errorf("%s: of this machine is %t", x.name, got)
		}
	}
}
