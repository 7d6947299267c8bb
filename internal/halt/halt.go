package halt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Entry is the failure of one entry.
type Entry struct {
	Task engine.Task
	Err  error
}

func (e *Entry) Error() string { return e.Err.Error() }
func (e *Entry) Unwrap() error { return e.Err }

// Waits says that somebody waits for a database that is halted (HA4).
type Waits struct {
	Database string
	Halt     *peers.Halt
}

func (e *Waits) Error() string {
	return fmt.Sprintf("database %s is halted at this member at %s", e.Database, e.Halt.Text())
}

// OneByOne applies the tasks of a group one by one, each with its progress, so that what comes before the one that
// fails is not lost and it is known which that is (HA2). Last is the last ordinal of the group.
func OneByOne(tasks []engine.Task, last uint64, apply func(upTo uint64, one []engine.Task) error) error {
	for i, t := range tasks {
		upTo := t.Ordinal
		if i == len(tasks)-1 {
			upTo = last
		}
		if err := apply(upTo, tasks[i:i+1]); err != nil {
			return &Entry{t, err}
		}
	}
	return nil
}

// Database tries rows, and takes them back.
type Database interface {
	// Begin begins to try, and reports whether that can be done; End takes all back.
	Begin(ctx context.Context) bool
	Try(ctx context.Context, one *writeset.Writeset) error
	End(ctx context.Context)
	// KeyText renders the key of a row.
	KeyText(t writeset.Table, record []byte) (columns, values string, ok bool)
}

// Describe finds out with which entry, table and row of a group the executor has failed.
func Describe(ctx context.Context, g *engine.Group, err error, d Database) *peers.Halt {
	h := &peers.Halt{Reason: reason(err)}
	if g == nil || len(g.Tasks) == 0 {
		return h
	}
	t := g.Tasks[0]
	var entry *Entry
	if errors.As(err, &entry) {
		t = entry.Task
	}
	h.Ordinal, h.Transaction = t.Ordinal, t.Item.ID.String()
	if t.Writeset == nil {
		return h
	}
	if table, row := culprit(ctx, t.Writeset, d); table != "" {
		h.Table, h.Row = table, row
	} else if len(t.Writeset.Tables) == 1 {
		h.Table = t.Writeset.Tables[0].String()
	}
	return h
}

// reason is an error as an operator should read it.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), "node: ")
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Detail != "" {
		text += "; " + pg.Detail
	}
	return text
}

// rowsMax bounds the rows that are tried one by one.
const rowsMax = 10000

// culprit tries a transaction's rows one after the other, and takes them back (HA5). It names the table and the key of
// the first that fails.
func culprit(ctx context.Context, ws *writeset.Writeset, d Database) (table, row string) {
	if len(ws.Steps) > 0 || len(ws.Rows) > rowsMax || !d.Begin(ctx) {
		return "", ""
	}
	defer d.End(ctx)
	for i := 0; i < len(ws.Rows); i++ {
		from := i
		if i+1 < len(ws.Rows) && ws.Rows[i].Identity == 0 && ws.Rows[i].Op == writeset.OpDelete &&
			ws.Rows[i+1].Op == writeset.OpUpdate && ws.Rows[i+1].Identity == 0 {
			i++ // two that say what a row was and what it becomes
		}
		one := &writeset.Writeset{Tables: ws.Tables, Rows: ws.Rows[from : i+1]}
		if err := d.Try(ctx, one); err == nil || failure.Transient(err) {
			continue
		}
		t := ws.Tables[ws.Rows[from].Table]
		if columns, values, ok := d.KeyText(t, ws.Rows[from].Record()); ok && !ws.Rows[from].All() {
			row = fmt.Sprintf("(%s)=(%s)", columns, values)
		}
		return t.String(), row
	}
	return "", ""
}

// Refused is what a client is told, or who asks for something (HA2).
func Refused(database string, h *peers.Halt) *wire.SQLError {
	return wire.Errorf(wire.CodeCannotConnectNow,
		"database %q is halted at this member: an entry of the order cannot be carried out here", database).
		WithDetail("%s", strings.ToUpper(h.Text()[:1])+h.Text()[1:]).
		WithHint("Connect to another member. Once the reason is removed, restart this one; or stop it, remove its " +
			"directory \"postgres\", keep \"log\" and every \"log-…\", set clone_from to a member that is synced, " +
			"and start it.")
}
