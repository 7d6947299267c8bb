package standing

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
)

// sequenceGap is by how many values every sequence is moved on after the database crashed:
// with asynchronous commit PostgreSQL may have forgotten values it handed out in its last
// moments, while the cluster remembers the rows that hold them.
const sequenceGap = 1 << 16

// MayCreateLog refuses to begin an empty log beside a database that has had one: with its
// log a member loses its votes, and voting again could undo what a majority had agreed on.
func MayCreateLog(ctx context.Context, connString, logDir string, c *config.Config) error {
	if _, err := os.Stat(logDir); err == nil {
		return nil
	}
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return fmt.Errorf("standing: connect to the local PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var known bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('tutti.progress') IS NOT NULL").Scan(&known); err != nil ||
		!known {
		return err
	}
	var member int32
	if err := conn.QueryRow(ctx, "SELECT member FROM tutti.progress").Scan(&member); err != nil {
		return err
	}
	if uint32(member) == c.Member {
		return errLogGone(logDir, c)
	}
	return nil
}

// PrepareDatabase installs what Tutti needs in the local database and reads its position, and its
// checkpoint; nil if it has none.
//
// begins is asked before a database that belongs to nobody becomes this member's, for what holds for the cluster, if it
// is to be in there; copies where it is another member's: for how many copies this member has taken, this one included.
func PrepareDatabase(ctx context.Context, connString string, c *config.Config, crashed bool,
	begins func() (*bootstrap.Record, error), copies func() (int, error)) (engine.Position, []byte, error) {
	pc, err := pgx.ParseConfig(connString)
	if err != nil {
		return engine.Position{}, nil, fmt.Errorf("standing: %w", err)
	}
	pc.RuntimeParams["application_name"] = "tutti start"
	pc.RuntimeParams["session_replication_role"] = "replica"
	pc.RuntimeParams[capture.DDLSetting] = capture.DDLApplies
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return engine.Position{}, nil, fmt.Errorf("standing: connect to the local PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.Begin(ctx)
	if err != nil {
		return engine.Position{}, nil, fmt.Errorf("standing: %w", err)
	}
	p, err := prepareIn(ctx, tx, c, crashed, begins, copies)
	var saved []byte
	if err == nil {
		saved, err = readCheckpoint(ctx, tx)
	}
	if err != nil {
		return p, nil, errors.Join(err, tx.Rollback(ctx))
	}
	return p, saved, tx.Commit(ctx)
}

func prepareIn(ctx context.Context, tx pgx.Tx, c *config.Config, crashed bool,
	begins func() (*bootstrap.Record, error), copies func() (int, error)) (engine.Position, error) {
	if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = on; SET LOCAL client_min_messages = warning"); err !=
		nil {
		return engine.Position{}, err
	}
	if err := catalog.Install(ctx, tx); err != nil {
		return engine.Position{}, err
	}
	p, cluster, err := readPosition(ctx, tx)
	if err != nil {
		return p, err
	}
	if cluster == "" {
		r, err := begins()
		if err == nil && r != nil {
			_, err = tx.Exec(ctx, "INSERT INTO tutti.cluster (level, min_copies, expel_after, changed) VALUES "+
				"($1, $2, $3, $4) ON CONFLICT DO NOTHING", r.Level, r.MinCopies, r.ExpelAfter, r.Changed)
		}
		if err != nil {
			return p, err
		}
		p.Member, cluster = c.Member, c.Cluster
		if _, err := tx.Exec(ctx, "UPDATE tutti.progress SET member = $1, cluster = $2", int32(p.Member),
			cluster); err != nil {
			return p, err
		}
	}
	if cluster != c.Cluster {
		return p, errOtherCluster(cluster, c)
	}
	if p.Member == c.Member {
		// A row that a SERIALIZABLE transaction has to make would conflict with whoever has looked for its own.
		if _, err := tx.Exec(ctx, "INSERT INTO tutti.mark SELECT i, 0, 0 FROM generate_series(1, $1::int) i ON "+
			"CONFLICT DO NOTHING", c.Limits.Sessions); err != nil {
			return p, fmt.Errorf("standing: make the marker rows: %w", err)
		}
	}
	gap := int64(0)
	if crashed {
		gap = sequenceGap
	}
	n := 0
	if p.Member != c.Member {
		if n, err = copies(); err != nil {
			return p, err
		}
	}
	return p, catalog.StartSequences(ctx, tx, int(c.Member), c.SequenceStep, gap, n)
}

// readPosition reads what the database says it holds.
func readPosition(ctx context.Context, tx pgx.Tx) (p engine.Position, cluster string, err error) {
	var ordinal, floor int64
	var member int32
	if err := tx.QueryRow(ctx, "SELECT ordinal, floor, member, cluster FROM tutti.progress").Scan(&ordinal, &floor,
		&member, &cluster); err != nil {
		return p, "", fmt.Errorf("standing: read the progress row: %w", err)
	}
	p = engine.Position{Member: uint32(member), Ordinal: uint64(ordinal), Floor: uint64(floor),
		Marks: map[uint32]engine.Mark{}}
	rows, err := tx.Query(ctx, "SELECT slot, incarnation, seq FROM tutti.mark")
	if err != nil {
		return p, "", fmt.Errorf("standing: read the marker rows: %w", err)
	}
	var slot int32
	var incarnation, seq int64
	_, err = pgx.ForEachRow(rows, []any{&slot, &incarnation, &seq}, func() error {
		p.Marks[uint32(slot)] = engine.Mark{Incarnation: uint64(incarnation), Seq: uint64(seq)}
		return nil
	})
	return p, cluster, err
}
