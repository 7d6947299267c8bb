package notices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tuttidb/tutti/internal/metrics"
)

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
	publishSQL      = "SELECT pg_catalog.pg_notify(c, p) FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), " +
		"pg_catalog.unnest($2::pg_catalog.text[])) AS n(c, p)"
)

func newPublisher(ctx context.Context, o *Options, counts *metrics.Notify) (*publisher, error) {
	pc, err := pgx.ParseConfig(o.ConnString)
	if err != nil {
		return nil, fmt.Errorf("notices: %w", err)
	}
	maps.Copy(pc.RuntimeParams, notifySettings())
	pc.RuntimeParams["application_name"] = "tutti publisher"
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("notices: connect to the local PostgreSQL as publisher: %w", err)
	}
	return &publisher{conn: conn, log: o.Log, counts: counts, max: o.QueueBytesMax,
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
	notify(p.filled)
	return true
}

func notify(c chan struct{}) {
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
	notify(p.emptied)
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
				return fmt.Errorf("notices: publisher: %w", err)
			}
		}
	}
}
