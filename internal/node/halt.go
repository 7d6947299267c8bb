package node

import (
	"context"
	"errors"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/halt"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/writeset"
)

// failed is called when the executor has failed with a group. It returns nil if the database was halted by that, once
// the life ends.
func (x *executor) failed(ctx context.Context, g *engine.Group, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if failure.Follows(err, x.l.course.ready.Load()) == failure.Ends {
		if failure.Lasting(err) { // no reason to end the process
			x.l.log.Error("an entry of the order cannot be carried out here; this life ends, and the next one tries "+
				"it again", "error", err)
			return errors.New(err.Error())
		}
		return err
	}
	h := halt.Describe(ctx, g, err, rowTrial{x.l})
	x.l.log.Error("this database is halted at this member: an entry of the order cannot be carried out here. It "+
		"serves no clients, and is tried again at the next start",
		"entry", h.Ordinal, "transaction", h.Transaction, "table", h.Table, "row", h.Row, "error", h.Reason)
	x.l.course.halts(h)
	<-ctx.Done()
	return nil
}

// rowTrial is halt.Database of a replica. The executor, whose connection it uses, has failed.
type rowTrial struct{ l *life }

func (x rowTrial) Begin(ctx context.Context) bool {
	conn := x.l.db.applier.Conn
	return !conn.IsClosed() && conn.TxStatus() == 'I' &&
		conn.ExecPrepared(ctx, replay.ApplyBegin, nil, nil, nil).Read().Err == nil
}

func (x rowTrial) Try(ctx context.Context, one *writeset.Writeset) error {
	return x.l.db.applier.SiftOne(ctx, []*writeset.Writeset{one}, true)
}

// End takes all back. If that fails, nothing is open any more.
func (x rowTrial) End(ctx context.Context) {
	_ = x.l.db.applier.Conn.ExecPrepared(ctx, replay.ApplyRollback, nil, nil, nil).Read()
}

func (x rowTrial) KeyText(t writeset.Table, record []byte) (columns, values string, ok bool) {
	return x.l.db.tables.Load().KeyText(t, record)
}
