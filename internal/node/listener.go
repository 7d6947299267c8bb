package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/metrics"
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

// newListener connects, and listens to what the other members listened to when the database was left.
func newListener(ctx context.Context, connString string, l *life) (*listener, error) {
	x := &listener{log: l.log, channels: &l.channels, outbox: &l.outbox, changes: make(chan change, 1),
		ignored: map[uint32]bool{l.applier.conn.PID(): true, l.applier.definer.conn.PID(): true, l.publisher.conn.PgConn().PID(): true}}
	var err error
	if x.conn, err = link.ConnectHearing(ctx, connString, "tutti listener", notifySettings(), x.hear); err != nil {
		return nil, err
	}
	var listen []string
	sets, err := readChannels(ctx, l.applier.pgx)
	for member, set := range sets {
		add, _ := x.channels.change(member, set, nil)
		listen = append(listen, add...)
	}
	if err == nil {
		_, err = x.conn.Exec(ctx, changeSQL(listen, nil)).ReadAll()
	}
	if err != nil {
		x.close()
		return nil, fmt.Errorf("node: listener: %w", err)
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

// catchUp returns when all has been heard that was committed before. A backend is told of notifications before who commits
// them is answered, and passes them on before it says that it has carried something out.
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
				err = fmt.Errorf("node: listener: %w", err)
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
			return fmt.Errorf("node: listener: %w", err)
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
		x.log.Warn("notifications are dropped for the sessions of other members: more wait to be ordered than notify_queue allows")
	}
	x.full = !took
}

// publisher tells local sessions what was notified at other members.
type publisher struct {
	conn *pgx.Conn
	log  *slog.Logger
	max  int

	mu      sync.Mutex
	queue   []notification
	bytes   int
	filled  chan struct{} // capacity 1
	emptied chan struct{} // capacity 1

	counts *metrics.Notify
}

const (
	publishMax      = 1000   // notifications in one transaction
	notificationFee = 1 << 6 // bytes that one is reckoned to take beside its text
	publishSQL      = "SELECT pg_catalog.pg_notify(c, p) FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[])) AS n(c, p)"
)

func newPublisher(ctx context.Context, connString string, log *slog.Logger, max int, counts *metrics.Notify) (*publisher, error) {
	pc, err := pgx.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	maps.Copy(pc.RuntimeParams, notifySettings())
	pc.RuntimeParams["application_name"] = "tutti publisher"
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("node: connect to the local PostgreSQL as publisher: %w", err)
	}
	return &publisher{conn: conn, log: log, counts: counts, max: max,
		filled: make(chan struct{}, 1), emptied: make(chan struct{}, 1)}, nil
}

func (p *publisher) close() { _ = p.conn.Close(context.Background()) } // the server notices either way

// put queues those of the notifications that are wanted. While the queue is full it waits: then this
// member lags, and the others are slowed (flow control).
func (p *publisher) put(ctx context.Context, all []notification, wanted func(channel string) bool) error {
	for _, n := range all {
		if !wanted(n.channel) {
			continue
		}
		size := len(n.channel) + len(n.payload) + notificationFee
		for !p.add(n, size) {
			select {
			case <-p.emptied:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

func (p *publisher) add(n notification, size int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes > 0 && p.bytes+size > p.max {
		return false
	}
	p.queue = append(p.queue, n)
	p.bytes += size
	signal(p.filled)
	return true
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take returns what the next transaction notifies. PostgreSQL folds what is equal within one.
func (p *publisher) take() (channels, payloads []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[notification]bool{}
	for _, n := range p.queue {
		if len(channels) == publishMax || seen[n] {
			break
		}
		seen[n] = true
		channels, payloads = append(channels, n.channel), append(payloads, n.payload)
		p.bytes -= len(n.channel) + len(n.payload) + notificationFee
	}
	clear(p.queue[:len(channels)]) // the array would keep them
	p.queue = p.queue[len(channels):]
	if len(p.queue) == 0 {
		p.queue = nil
	}
	signal(p.emptied)
	return channels, payloads
}

// run is the publisher's goroutine. What PostgreSQL refuses to notify is dropped: its own queue is full
// because some session has not read it for long.
func (p *publisher) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.filled:
		}
		for {
			channels, payloads := p.take()
			if len(channels) == 0 {
				break
			}
			_, err := p.conn.Exec(ctx, publishSQL, channels, payloads)
			var pg *pgconn.PgError
			switch {
			case err == nil:
				p.counts.Told.Add(uint64(len(channels)))
			case errors.As(err, &pg) && !p.conn.IsClosed():
				p.counts.Lost.Add(uint64(len(channels)))
				p.log.Warn("notifications of other members are dropped", "notifications", len(channels), "error", err)
			default:
				return fmt.Errorf("node: publisher: %w", err)
			}
		}
	}
}
