package notices

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/database/link"
)

// listener hears what is notified at the local PostgreSQL on channels that other members listen to.
type listener struct {
	conn     *pgconn.PgConn
	log      *slog.Logger
	channels *channels
	outbox   *outbox
	ignored  map[uint32]bool // backends whose notifications the others have, or make themselves
	full     bool            // the last notification was dropped

	changes chan change
	mu      sync.Mutex
	stop    context.CancelFunc // of the wait under way
}

// change is SQL for the listener's connection.
type change struct {
	sql  string
	done chan error // capacity 1
}

// notifySettings are those of the listener's and the publisher's connections.
func notifySettings() map[string]string {
	s := apply.SessionSettings()
	s["idle_session_timeout"] = "0"
	return s
}

// newListener connects, and listens to what the other members listened to when the database was left, as the executor's
// connection reads it. What the ignored backends notify, the others have, or make themselves.
func newListener(ctx context.Context, o *Options, channels *channels, outbox *outbox,
	ignored map[uint32]bool) (*listener, error) {
	x := &listener{log: o.Log, channels: channels, outbox: outbox, changes: make(chan change, 1), ignored: ignored}
	var err error
	if x.conn, err = link.ConnectHearing(ctx, o.ConnString, "tutti listener", notifySettings(), x.hear); err != nil {
		return nil, err
	}
	var listen []string
	sets, err := readChannels(ctx, o.Conn)
	for member, set := range sets {
		add, _ := x.channels.change(member, set, nil)
		listen = append(listen, add...)
	}
	if err == nil {
		_, err = x.conn.Exec(ctx, changeSQL(listen, nil)).ReadAll()
	}
	if err != nil {
		x.close()
		return nil, fmt.Errorf("notices: listener: %w", err)
	}
	return x, nil
}

func (x *listener) close() { _ = x.conn.Close(context.Background()) } // the server notices either way

func changeSQL(listen, unlisten []string) string {
	var sql strings.Builder
	for _, c := range listen {
		sql.WriteString("LISTEN " + pgx.Identifier{c}.Sanitize() + ";")
	}
	for _, c := range unlisten {
		sql.WriteString("UNLISTEN " + pgx.Identifier{c}.Sanitize() + ";")
	}
	return sql.String()
}

// change carries out a member's announcement. When it returns, what is notified on a channel that was
// added is heard.
func (x *listener) change(ctx context.Context, member uint32, add, remove []string) error {
	listen, unlisten := x.channels.change(member, add, remove)
	if len(listen)+len(unlisten) == 0 {
		return nil
	}
	return x.carryOut(ctx, changeSQL(listen, unlisten))
}

// catchUp returns when all has been heard that was committed before. A backend is told of notifications before who
// commits them is answered, and passes them on before it says that it has carried something out.
func (x *listener) catchUp(ctx context.Context) error { return x.carryOut(ctx, "SELECT 1") }

// carryOut has the listener's goroutine carry something out.
func (x *listener) carryOut(ctx context.Context, sql string) error {
	c := change{sql, make(chan error, 1)}
	select {
	case x.changes <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	x.mu.Lock()
	if x.stop != nil {
		x.stop()
	}
	x.mu.Unlock()
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run is the listener's goroutine. Its connection does nothing but wait and, for the executor, change
// what it listens to. It never waits for the order, or the executor would wait for it in vain.
func (x *listener) run(ctx context.Context) error {
	for ctx.Err() == nil {
		wait, stop := context.WithCancel(ctx)
		x.mu.Lock()
		x.stop = stop
		x.mu.Unlock()
		err := x.waitForChange(wait)
		stop()
		if err != nil {
			return err
		}
		select {
		case c := <-x.changes:
			_, err := x.conn.Exec(ctx, c.sql).ReadAll()
			if err != nil {
				err = fmt.Errorf("notices: listener: %w", err)
			}
			c.done <- err
		default:
		}
	}
	return nil
}

// waitForChange hears notifications until there is a change, or wait ends.
func (x *listener) waitForChange(wait context.Context) error {
	for len(x.changes) == 0 {
		err := x.conn.WaitForNotification(wait)
		switch {
		case wait.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("notices: listener: %w", err)
		}
	}
	return nil
}

// hear takes a notification.
func (x *listener) hear(_ *pgconn.PgConn, n *pgconn.Notification) {
	if x.ignored[n.PID] {
		return
	}
	took := x.outbox.put(notification{n.Channel, n.Payload})
	if !took && !x.full {
		x.log.Warn("notifications are dropped for the sessions of other members: more wait to be ordered than " +
			"notify_queue allows")
	}
	x.full = !took
}
