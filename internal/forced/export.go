package forced

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/standing"
)

// ExportOptions are those of tutti log export.
type ExportOptions struct {
	Config string // the node's
	// Behind is a file with what tutti recover -o json says at another member; empty: all that the logs hold behind
	// the checkpoints in the databases.
	Behind string
}

// Commit is one line of what is printed: a transaction that the log commits.
type Commit struct {
	Database string   `json:"database"`
	Ordinal  uint64   `json:"ordinal"`
	TxID     string   `json:"txid"`
	Outcome  Outcome  `json:"outcome"`
	Changes  []Change `json:"changes"`
}

// Outcome is what is known of it.
type Outcome string

const (
	Committed Outcome = "committed" // this member knew that a majority had it
	InDoubt   Outcome = "in doubt"  // it did not; its client may have been told of it, or not
)

// Export prints, as lines of JSON in the order of each database, what the logs of a node that does not run commit,
// where another member's logs end or go another way. The node's database is only read.
func Export(ctx context.Context, o ExportOptions, w io.Writer) error {
	other, err := readReport(o.Behind)
	if err != nil {
		return err
	}
	c, all, err := open(o.Config)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.DataDir, "postgres")
	build, err := embedded.FindContext(ctx, embedded.Options{BinDir: c.Postgres.BinDir, NoSystem: c.Postgres.NoSystem,
		DataDir: dir})
	if err != nil {
		return errors.Join(err, all.close())
	}
	server, err := instance.NewOwnVisit(ctx, build, dir)
	if err != nil {
		return errors.Join(err, all.close())
	}
	e := exporting{c: c, server: server, out: json.NewEncoder(w)}
	return errors.Join(e.all(ctx, all, other), server.Close(), all.close())
}

// readReport reads what another member said; nil: none is named.
func readReport(file string) (*Report, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err = json.Unmarshal(text, r); err == nil && len(r.Logs) == 0 {
		err = errors.New("it names no logs")
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not what tutti recover -o json prints: %w", file, err)
	}
	return r, nil
}

// log finds a log of the other member's by the name of its directory, which is that of the same order at all.
func (r *Report) log(dir string) *Log {
	for i := range r.Logs {
		if filepath.Base(r.Logs[i].Directory) == filepath.Base(dir) {
			return &r.Logs[i]
		}
	}
	return &Log{}
}

// parts is the last entry that a log has in common with the other member's; zero: there is none.
func (r *Report) parts(l *opened, f *ordering.Forced) (uint64, error) {
	if r == nil {
		return 0, nil
	}
	mine, err := terms(l.disk)
	return shared(mine, f.Last, *r.log(l.dir), f.Known), err
}

type exporting struct {
	c      *config.Config
	server *instance.Visit
	out    *json.Encoder
}

// all prints what each log has. What is wrong with one does not keep the others from it.
func (e *exporting) all(ctx context.Context, all openedLogs, other *Report) (err error) {
	for i := range all {
		name, there, nerr := e.database(ctx, all[i].dir)
		if nerr == nil && there {
			nerr = e.log(ctx, name, &all[i], other)
		}
		if nerr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", all[i].dir, nerr))
		}
	}
	return err
}

// database says whose log a directory is; there is none if it was dropped.
func (e *exporting) database(ctx context.Context, dir string) (name string, there bool, err error) {
	if dir == standing.LogDir(e.c, standing.MainGroup) {
		return e.c.Database, true, nil
	}
	conn, err := pgconn.Connect(ctx, e.server.ConnString(e.c.Database))
	if err != nil {
		return "", false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	r := conn.ExecParams(ctx, "SELECT id, name FROM tutti.database d WHERE EXISTS (SELECT FROM pg_catalog.pg_database "+
		"WHERE datname = d.name) ORDER BY state = 'open' DESC", nil, nil, nil, nil).Read()
	for _, row := range r.Rows {
		var id uint64
		if _, err := fmt.Sscan(string(row[0]), &id); err == nil && standing.LogDir(e.c, id) == dir {
			return string(row[1]), true, nil
		}
	}
	return "", false, r.Err
}

// log prints what one has.
func (e *exporting) log(ctx context.Context, database string, l *opened, other *Report) error {
	conn, err := pgconn.Connect(ctx, e.server.ConnString(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	checkpoint, err := readCheckpoint(ctx, conn)
	if err != nil {
		return err
	}
	f, err := ordering.Force(l.disk, e.c.Member)
	if err != nil {
		return err
	}
	from, err := other.parts(l, f)
	if err != nil || from >= f.Last {
		return err
	}
	begin, missed, err := ordinals(l.disk, e.c.Member, from, checkpoint)
	known := uint64(0)
	if err == nil {
		known, _, err = ordinals(l.disk, e.c.Member, min(f.Known, f.Last), checkpoint)
	}
	if err != nil {
		return err
	}
	rows := readable{conn: conn, tables: map[string][]string{}}
	_, err = ordered(l.disk, e.c.Member, f.Last, checkpoint, func(t *engine.Task) error {
		if t.Ordinal <= begin || t.Writeset == nil {
			return nil
		}
		out := Commit{Database: database, Ordinal: t.Ordinal, TxID: t.Item.ID.String(), Outcome: InDoubt,
			Changes: rows.changes(ctx, t.Writeset, t.Item.Kind == engine.KindStatement)}
		if t.Ordinal <= known {
			out.Outcome = Committed
		}
		switch {
		case conn.IsClosed():
			return errors.New("its PostgreSQL has ended meanwhile")
		case len(out.Changes) == 0:
			return nil
		}
		return e.out.Encode(out)
	})
	if err == nil && missed > 0 && other != nil {
		err = fmt.Errorf("what entries %d to %d have decided is not known any more: the database, which has it, has a "+
			"checkpoint behind them. Compare the databases", from+1, missed)
	}
	return err
}

// readCheckpoint gives a database's checkpoint; nil: it has none.
func readCheckpoint(ctx context.Context, conn *pgconn.PgConn) ([]byte, error) {
	r := conn.ExecParams(ctx, "SELECT data::pg_catalog.bytea FROM tutti.checkpoint", nil, nil, nil,
		[]int16{1}).Read()
	if r.Err != nil || len(r.Rows) == 0 {
		return nil, r.Err
	}
	return r.Rows[0][0], nil
}

// ordinals says which is the last ordinal up to an entry, or up to the checkpoint, if that is behind it: then missed is
// the checkpoint's entry.
func ordinals(log ordering.Storage, member uint32, last uint64, checkpoint []byte) (ordinal, missed uint64, err error) {
	if checkpoint != nil {
		c, err := engine.DecodeCheckpoint(checkpoint)
		if err != nil {
			return 0, 0, err
		}
		if last < c.Index {
			return c.Ordinal, c.Index, nil
		}
	}
	if last == 0 {
		return 0, 0, nil
	}
	ordinal, err = ordered(log, member, last, checkpoint, func(*engine.Task) error { return nil })
	return ordinal, 0, err
}
