package replay

import (
	"context"
	"errors"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/engine"
)

// InPieces applies a large transaction that was not executed ahead of its turn, as that would have been: some thousands
// of rows at a time, so that nothing is in memory for all of them. False: it is for Applier.Apply, whatever has failed.
func InPieces(ctx context.Context, a *Applier, last uint64, tasks []engine.Task) (done bool, err error) {
	if len(tasks) != 1 || len(tasks[0].Writeset.Steps) > 0 {
		return false, nil
	}
	size := 0
	for i := range tasks[0].Writeset.Rows {
		size += len(tasks[0].Writeset.Rows[i].Image)
	}
	if size <= 2*a.config.Limits.GroupBytes {
		return false, nil
	}
	a.Begun.Store(max(last, a.Begun.Load()))
	a.Void, a.Missed = nil, nil
	lsn, err := pieces(ctx, a, last, tasks)
	if err == nil {
		return true, a.commit(ctx, last, lsn)
	}
	if !errors.Is(err, errUnable) {
		a.warn("a large transaction cannot be applied in pieces; it is applied as a whole", "transaction",
			tasks[0].Item.ID, "error", err)
	}
	if a.Conn.TxStatus() == 'I' {
		return false, nil
	}
	return false, a.Conn.ExecPrepared(ctx, ApplyRollback, nil, nil, nil).Read().Err
}

// pieces leaves the transaction open, and returns the position of the WAL.
func pieces(ctx context.Context, a *Applier, last uint64, tasks []engine.Task) (lsn uint64, err error) {
	ws := tasks[0].Writeset
	locks, err := apply.TableLocks(ws, a.Tables.Apply)
	if err != nil {
		return 0, err
	}
	if err := a.Conn.ExecPrepared(ctx, ApplyBegin, nil, nil, nil).Read().Err; err != nil {
		return 0, err
	}
	stream := apply.NewStream(a.Tables.Apply, a.config.Limits.GroupBytes/4)
	if err := operateAll(ctx, a, locks); err != nil {
		return 0, err
	}
	for i := range ws.Rows {
		if !stream.Add(ws.Tables[ws.Rows[i].Table], ws.Rows[i]) {
			return 0, errUnable
		}
		if !stream.Full() {
			continue
		}
		if err := flush(ctx, a, stream, false); err != nil {
			return 0, err
		}
	}
	if err := flush(ctx, a, stream, true); err != nil {
		return 0, err
	}
	return a.finishPipeline(a.Conn.StartPipeline(ctx), 0, last, tasks, nil)
}

// flush executes what a stream has.
func flush(ctx context.Context, a *Applier, stream *apply.Stream, last bool) error {
	ops, err := stream.Operations(last)
	if err != nil {
		return err
	}
	return operateAll(ctx, a, ops)
}

// operateAll executes operations one by one.
func operateAll(ctx context.Context, a *Applier, ops []apply.Operation) error {
	for i := range ops {
		if err := a.operate(ctx, &ops[i]); err != nil {
			return err
		}
	}
	return nil
}
