package donor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/tuttidb/tutti/internal/replica"
)

// What is asked for: a database that has all that was committed, or, by a member that starts for the first time, also
// one with which nobody has begun yet.
const (
	Current = "database"
	First   = "first database"
)

// Lender lends this member's database.
type Lender struct {
	Log  *slog.Logger
	Name func(member uint32) string
	// Fit says why the database is not one to copy from; nil if it is (DO1). First: it is to be one with which a
	// cluster begins.
	Fit func(first bool) error
	// Lend lets the other end of conn copy it, shown under a name.
	Lend func(ctx context.Context, conn net.Conn, name string) error
}

// Fits reports whether a database in this state is lent; own: it is no copy that has not become its member's own yet
// (DO1).
func Fits(s *replica.Status, own bool) bool {
	still := own && s.Leader == 0 && (s.State == replica.Joining || s.State == replica.NoLeader)
	return still || s.State == replica.Synced
}

// Called judges a call of another member, and gives what answers it: transport.Options.Called.
func (l *Lender) Called(from uint32, asked string) (func(context.Context, net.Conn), error) {
	if asked != Current && asked != First {
		return nil, fmt.Errorf("it does not know what %q is: a later release may", asked)
	}
	if err := l.Fit(asked == First); err != nil {
		return nil, err
	}
	return func(ctx context.Context, conn net.Conn) {
		began, name := time.Now(), l.Name(from)
		l.Log.Info("lends its database to a member", "member", name)
		if err := l.Lend(ctx, conn, "tutti clone of "+name); err != nil {
			l.Log.Warn("could not lend its database", "member", name, "error", err)
			return
		}
		l.Log.Info("no longer lends its database", "member", name, "lent", time.Since(began))
	}, nil
}
