package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
)

const (
	retainInterval = 250 * time.Millisecond
	// A checkpoint follows another after an eighth of what is kept of the log, or this much.
	checkpointBytesMax = 128 << 20
	checkpointShare    = 8
	// A value in PostgreSQL has less than a GiB. Only large payloads that are half way make one this large.
	checkpointBytesMost = 512 << 20
)

// retain takes checkpoints and compacts the log, until ctx ends.
func (l *life) retain(ctx context.Context) error {
	tried := uint64(0) // the entry of the last checkpoint that was taken, stored or not
	for process.Sleep(ctx, retainInterval) {
		if !l.ready.Load() {
			continue // the database may be another's yet
		}
		keep, every := l.settled().Limits.LogRetention, int64(checkpointBytesMax)
		if keep >= 0 {
			every = min(every, keep/checkpointShare)
		}
		if l.disk.BytesAfter(max(tried, l.saved.Load())) >= every {
			at, err := l.takeCheckpoint(ctx)
			if err != nil {
				return err
			}
			tried = at
		}
		if keep >= 0 {
			if err := l.compact(min(l.saved.Load(), l.disk.Surplus(keep))); err != nil {
				return &failure.Fatal{Err: err}
			}
		}
	}
	return nil
}

// takeCheckpoint stores the replicated state in the database once everything it stands for is there
// (N6), and returns the entry of the log it is of. One that is too large is not stored.
func (l *life) takeCheckpoint(ctx context.Context) (at uint64, err error) {
	began := time.Now()
	c := l.core.checkpoint()
	if c == nil {
		return 0, nil // the life ends
	}
	taken := time.Since(began)
	for l.core.applied.Load() < c.Ordinal {
		if !process.Sleep(ctx, 10*time.Millisecond) {
			return 0, nil
		}
	}
	data := c.Append(nil)
	if len(data) > checkpointBytesMost {
		l.log.Warn("the checkpoint is too large, another is taken later", "bytes", len(data))
		return c.Index, nil
	}
	if err := storeCheckpoint(ctx, l.connString, data); err != nil {
		return 0, err
	}
	l.saved.Store(c.Index)
	l.log.Info("stored a checkpoint", "entry", c.Index, "ordinal", c.Ordinal, "bytes", len(data), "taken", taken, "all",
		time.Since(began))
	return c.Index, nil
}

// storeCheckpoint writes a checkpoint into the local database. It returns when that is on disk, with
// everything that was committed before: PostgreSQL flushes its log in order.
func storeCheckpoint(ctx context.Context, connString string, data []byte) error {
	settings := apply.SessionSettings()
	settings["synchronous_commit"] = "local"
	conn, err := link.Connect(ctx, connString, "tutti checkpoint", settings)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	const sql = "INSERT INTO tutti.checkpoint AS c (data) VALUES ($1::pg_catalog.bytea) ON CONFLICT (one) DO UPDATE " +
		"SET data = excluded.data"
	if r := conn.ExecParams(ctx, sql, [][]byte{data}, nil, []int16{1}, nil).Read(); r.Err != nil {
		return fmt.Errorf("node: store the checkpoint: %w", r.Err)
	}
	if _, err := conn.Exec(ctx, "VACUUM tutti.checkpoint").ReadAll(); err != nil { // the one before is large
		return fmt.Errorf("node: remove the old checkpoint: %w", err)
	}
	return nil
}

// readCheckpoint returns the database's checkpoint, nil if it has none.
func readCheckpoint(ctx context.Context, tx pgx.Tx) (data []byte, err error) {
	err = tx.QueryRow(ctx, "SELECT data::pg_catalog.bytea FROM tutti.checkpoint").Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("node: read the checkpoint: %w", err)
	}
	return data, nil
}

// compact forgets the log up to an entry of which there is a durable checkpoint, or an earlier one.
func (l *life) compact(to uint64) error {
	first, err := l.disk.FirstIndex()
	if err != nil || to < first {
		return err
	}
	if err := l.disk.Compact(to); err != nil {
		return fmt.Errorf("the log cannot be compacted, so this member stops: %w", err)
	}
	l.metrics.Log.Compacted.Add(1)
	l.log.Info("compacted the log", "entry", to, "bytes", l.disk.Bytes())
	return nil
}

// startAt returns the checkpoint to start from, nil for the log's beginning. It restarts the log at
// the checkpoint of a clone that is further than it, and moves the position: what a checkpoint stands
// for is in its database. Errors are final.
func (l *life) startAt(saved []byte) (*engine.Checkpoint, error) {
	var c *engine.Checkpoint
	if saved != nil {
		var err error
		if c, err = engine.DecodeCheckpoint(saved); err != nil {
			first, ferr := l.disk.FirstIndex()
			if ferr != nil {
				return nil, ferr
			}
			if first > 1 {
				return nil, fmt.Errorf("%w; what the log said before entry %d is known only from it. %s", err, first,
					l.howToClone())
			}
			l.log.Warn("the checkpoint cannot be read; the whole log is read again", "error", err)
		}
	}
	restart, err := c.Fit(l.disk, l.position.Member != l.config.Member)
	if err != nil {
		return nil, fmt.Errorf("%w. %s", err, l.howToClone())
	}
	if c == nil {
		return nil, nil
	}
	if restart {
		if err := l.restartLog(c); err != nil {
			return nil, err
		}
	}
	l.saved.Store(c.Index)
	l.position.Ordinal, l.position.Floor = max(l.position.Ordinal, c.Ordinal), max(l.position.Floor, c.Ordinal)
	l.log.Info("starts from a checkpoint", "entry", c.Index, "ordinal", c.Ordinal, "log_bytes_after",
		l.disk.BytesAfter(c.Index))
	return c, nil
}

// restartLog makes the log begin behind c. Terms and votes stay.
func (l *life) restartLog(c *engine.Checkpoint) error {
	if err := l.disk.Restart(c.Index, c.Term); err != nil {
		return err
	}
	l.log.Info("restarted the log behind the clone's checkpoint", "entry", c.Index)
	return nil
}

// explainLost says what happened to a member that was away for too long, and how it comes back.
func (l *life) explainLost(err error) error {
	var lost *lostError
	if !errors.As(err, &lost) {
		return err
	}
	return fmt.Errorf("%s was away for longer than log_retention allows: it has the order up to entry %d of the log, "+
		"and %s, which leads, keeps it from entry %d on; what is between cannot be had any more, so this member "+
		"stops. %s",
		l.config.Self().Name, lost.Have, l.name(lost.Leader), lost.First, l.howToClone())
}

// howToClone says what an operator must do to give this member a new database.
func (l *life) howToClone() string {
	return fmt.Sprintf("To bring this member back: remove %s but keep %s and every log-… beside it, set clone_from "+
		"in [postgres] to a member that is synced, and start it again",
		filepath.Join(l.config.DataDir, "postgres"), logDir(l.config, mainGroup))
}
