package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// An entry of the order that cannot be carried out here, however often it is tried, halts this database at this member:
//
//	HA1  What cannot be carried out ends the life, as any failure does (N5). The next one comes to the entry before it
//	    serves
//	     anybody, tries it once more, and halts if that is in vain.
//	HA2  Nothing behind the entry is carried out, and no client served. The position in the database stays before the
//	    entry.
//	HA3  Log, votes and messages go on: the others have their majority. None of them waits for this member, as none
//	    waits for one
//	     that has just started.
//	HA4  What stands in the way of a meeting, because it is halted, halts who waits there.
//
// What may go by itself (a disk that is full, a connection that is lost) is tried again, for ever.

// entryError is the failure of one entry.
type entryError struct {
	task engine.Task
	err  error
}

func (e *entryError) Error() string { return e.err.Error() }
func (e *entryError) Unwrap() error { return e.err }

// haltedError says that somebody waits for a database that is halted.
type haltedError struct {
	database string
	halted   *peers.Halt
}

func (e *haltedError) Error() string {
	return fmt.Sprintf("database %s is halted at this member at %s", e.database, e.halted.Text())
}

// applyEach applies the tasks of a group one by one, each with its progress, so that what comes before the one that
// fails is not lost and it is known which that is.
func (l *life) applyEach(ctx context.Context, last uint64, tasks []engine.Task) error {
	for i, t := range tasks {
		upTo := t.Ordinal
		if i == len(tasks)-1 {
			upTo = last
		}
		if err := l.applier.Apply(ctx, upTo, tasks[i:i+1]); err != nil {
			return &entryError{t, err}
		}
	}
	return nil
}

// failed is called when the executor has failed with a group. It returns nil if the database was halted by that, once
// the life ends.
func (l *life) failed(ctx context.Context, g *engine.Group, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if failure.Follows(err, l.course.ready.Load()) == failure.Ends {
		if failure.Lasting(err) { // no reason to end the process
			l.log.Error("an entry of the order cannot be carried out here; this life ends, and the next one tries "+
				"it again", "error", err)
			return errors.New(err.Error())
		}
		return err
	}
	h := l.describeHalt(ctx, g, err)
	l.log.Error("this database is halted at this member: an entry of the order cannot be carried out here. It serves "+
		"no clients, and is tried again at the next start",
		"entry", h.Ordinal, "transaction", h.Transaction, "table", h.Table, "row", h.Row, "error", h.Reason)
	l.course.halts(h)
	<-ctx.Done()
	return nil
}

// describeHalt finds out which entry, table and row it was.
func (l *life) describeHalt(ctx context.Context, g *engine.Group, err error) *peers.Halt {
	h := &peers.Halt{Reason: reason(err)}
	if g == nil || len(g.Tasks) == 0 {
		return h
	}
	t := g.Tasks[0]
	var entry *entryError
	if errors.As(err, &entry) {
		t = entry.task
	}
	h.Ordinal, h.Transaction = t.Ordinal, t.Item.ID.String()
	if t.Writeset == nil {
		return h
	}
	if table, row := l.culprit(ctx, t.Writeset); table != "" {
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

// culpritMax bounds the rows that are tried one by one.
const culpritMax = 10000

// culprit tries a transaction's rows one after the other, and takes them back. It names the table and the key of the
// first that fails.
func (l *life) culprit(ctx context.Context, ws *writeset.Writeset) (table, row string) {
	a := l.applier
	if len(ws.Steps) > 0 || len(ws.Rows) > culpritMax || a.Conn.IsClosed() || a.Conn.TxStatus() != 'I' {
		return "", ""
	}
	if a.Conn.ExecPrepared(ctx, replay.ApplyBegin, nil, nil, nil).Read().Err != nil {
		return "", ""
	}
	// if that fails, nothing is open any more
	defer func() { _ = a.Conn.ExecPrepared(ctx, replay.ApplyRollback, nil, nil, nil).Read() }()
	for i := 0; i < len(ws.Rows); i++ {
		from := i
		if i+1 < len(ws.Rows) && ws.Rows[i].Identity == 0 && ws.Rows[i].Op == writeset.OpDelete &&
			ws.Rows[i+1].Op == writeset.OpUpdate && ws.Rows[i+1].Identity == 0 {
			i++ // two that say what a row was and what it becomes
		}
		one := &writeset.Writeset{Tables: ws.Tables, Rows: ws.Rows[from : i+1]}
		if err := a.SiftOne(ctx, []*writeset.Writeset{one}, true); err == nil || failure.Transient(err) {
			continue
		}
		t := ws.Tables[ws.Rows[from].Table]
		if columns, values, ok := l.tables.Load().KeyText(t, ws.Rows[from].Record()); ok && !ws.Rows[from].All() {
			row = fmt.Sprintf("(%s)=(%s)", columns, values)
		}
		return t.String(), row
	}
	return "", ""
}

// errHalted refuses a client, or what a client asks.
func (l *life) errHalted(h *peers.Halt) *wire.SQLError {
	return wire.Errorf(wire.CodeCannotConnectNow,
		"database %q is halted at this member: an entry of the order cannot be carried out here", l.database).
		WithDetail("%s", strings.ToUpper(h.Text()[:1])+h.Text()[1:]).
		WithHint("Connect to another member. Once the reason is removed, restart this one; or stop it, remove its " +
			"directory \"postgres\", keep \"log\" and every \"log-…\", set clone_from to a member that is synced, " +
			"and start it.")
}
