package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/session"
)

// row is one of tutti.member.
type row struct {
	Number  uint32 `json:"number"`
	Name    string `json:"name"`
	Address string `json:"address"`
	Clients string `json:"clients"`
	First   bool   `json:"first"`   // the cluster began with a member of this number
	Since   uint64 `json:"since"`   // the ordinal of the change that added it; zero: of the beginning
	Changed uint64 `json:"changed"` // that of the last change of its row
	Removed bool   `json:"removed"` // it is no member any more

	Role config.Role `json:"role"`
	Rank int         `json:"rank"`
	Site string      `json:"site"`
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// read gives the table, by number.
func read(ctx context.Context, q querier) ([]row, error) {
	// As json: a build before this one may have made the table.
	rows, err := q.Query(ctx, "SELECT pg_catalog.to_json(m) FROM tutti.member m ORDER BY number")
	if err != nil {
		return nil, fmt.Errorf("membership: read the list: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[row])
}

// Read gives the list of a main database; nil if nothing was ever changed.
func Read(ctx context.Context, connString string) (*config.Roster, error) {
	conn, err := connect(ctx, connString, "tutti.member")
	if conn == nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	list, err := read(ctx, conn)
	return roster(list), err
}

// connect opens a connection to a database in which there is this table; nil if there is none.
func connect(ctx context.Context, connString, table string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return nil, fmt.Errorf("membership: connect to the local PostgreSQL: %w", err)
	}
	var there bool
	err = conn.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", table).Scan(&there)
	if err != nil || !there {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// roster is what a table says; nil if it is empty.
func roster(list []row) *config.Roster {
	if len(list) == 0 {
		return nil
	}
	r := &config.Roster{}
	for _, x := range list {
		r.Ordinal = max(r.Ordinal, x.Changed)
		m := config.Member{Member: x.Number, Name: x.Name, Address: x.Address, Clients: x.Clients,
			Role: x.Role, Rank: x.Rank, Site: x.Site}
		switch {
		case x.Removed:
			r.Gone = append(r.Gone, m)
		case x.Role == config.Witness:
			r.Witnesses = append(r.Witnesses, m)
		default:
			r.Members = append(r.Members, m)
		}
		if x.First {
			r.First = append(r.First, x.Number)
		}
		if !x.Removed && x.Since > 0 {
			r.Later = append(r.Later, x.Number)
		}
	}
	return r
}

// beginning is the table of a cluster of which nothing was changed yet.
func beginning(members []session.FirstMember) []row {
	var list []row
	for _, m := range members {
		list = append(list, row{Number: m.Number, Name: m.Name, Address: m.Address, Clients: m.Clients, First: true})
	}
	slices.SortFunc(list, func(a, b row) int { return int(a.Number) - int(b.Number) })
	return list
}
