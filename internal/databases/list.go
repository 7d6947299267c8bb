package databases

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/standing"
)

// State is that of a database in the list.
type State string

const (
	Creating State = "creating" // PostgreSQL's may be there, half made
	Open     State = "open"
	Dropping State = "dropping" // PostgreSQL's may be gone
	Dropped  State = "dropped"  // other members may still need its order, see Retired
)

// Listed is a row of the list.
type Listed struct {
	ID      uint64
	Name    string
	State   State
	Dropped uint64 // ordinal of its end
	Exists  bool   // PostgreSQL has one of the name; not while a change of it is broken off
}

// List reads the list from the main database, by ID.
func List(ctx context.Context, conn *pgx.Conn) ([]Listed, error) {
	rows, err := conn.Query(ctx, "SELECT id, name, state, dropped, EXISTS (SELECT FROM pg_catalog.pg_database WHERE "+
		"datname = name) FROM tutti.database ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("databases: read the list: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Listed, err error) {
		err = row.Scan(&d.ID, &d.Name, &d.State, &d.Dropped, &d.Exists)
		return d, err
	})
}

// Orders lists them for a member that has no database: those whose orders somebody may need.
func Orders(ctx context.Context, connString string) (list []standing.Order, err error) {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return nil, fmt.Errorf("databases: connect to the local PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "SELECT id, voters, learners FROM tutti.database")
	if err != nil {
		return nil, fmt.Errorf("databases: read the list: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o standing.Order, err error) {
		err = row.Scan(&o.Group, &o.Voters, &o.Learners)
		return o, err
	})
}

// First says who votes at first on the order of a database, by the list in the main one, and who only gets it; nil: all
// members, and all others.
func First(ctx context.Context, connString string, id uint64) (voters, learners []uint32, err error) {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return nil, nil, fmt.Errorf("databases: connect to the local PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, "SELECT voters, learners FROM tutti.database WHERE id = $1", id).Scan(&voters,
		&learners); err != nil {
		return nil, nil, fmt.Errorf("databases: read who votes at first on database %d: %w", id, err)
	}
	return voters, learners, nil
}

// Begin lists the databases with which a cluster begins beside the main one, unless that is done. Names are in the same
// order at all members.
func Begin(ctx context.Context, conn *pgx.Conn, names []string) error {
	for i, name := range names {
		if _, err := conn.Exec(ctx, "INSERT INTO tutti.database (id, name, state) VALUES ($1, $2, $3) ON CONFLICT "+
			"DO NOTHING", standing.FirstGroup+int64(i), name, Open); err != nil {
			return fmt.Errorf("databases: list the first ones: %w", err)
		}
	}
	return nil
}

// ForgetSQL takes a dropped database out of the list.
func ForgetSQL(id uint64) string {
	return fmt.Sprintf("DELETE FROM tutti.database WHERE id = %d AND state = '%s'", id, Dropped)
}
