package link

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/locks"
)

// Keeper is the connection that answers the functions which take advisory locks, by locks of its own in
// a reserved range, and looks what a backend holds.
type Keeper struct {
	mu   sync.Mutex
	conn *pgconn.PgConn
}

func NewKeeper(ctx context.Context, connString string) (*Keeper, error) {
	settings := apply.SessionSettings()
	settings["idle_session_timeout"] = "0"
	conn, err := Connect(ctx, connString, "tutti keeper", settings)
	if err != nil {
		return nil, err
	}
	return &Keeper{conn: conn}, nil
}

func (k *Keeper) Close() { _ = k.conn.Close(context.Background()) } // the server notices either way

func (k *Keeper) Exec(ctx context.Context, sql string) ([]*pgconn.Result, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, err := k.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("link: keeper: %w", err)
	}
	return r, nil
}

// Held lists the advisory locks that a backend holds.
func (k *Keeper) Held(ctx context.Context, pid uint32) (map[locks.Lock]bool, error) {
	r, err := k.Exec(ctx, capture.HeldLocksSQL(pid))
	if err != nil {
		return nil, err
	}
	out := map[locks.Lock]bool{}
	for _, row := range r[0].Rows {
		var n [3]uint64
		for i := range n {
			if n[i], err = strconv.ParseUint(string(row[i]), 10, 32); err != nil {
				return nil, fmt.Errorf("link: keeper: advisory lock: %w", err)
			}
		}
		l := locks.Lock{Key: locks.Key{Class: uint32(n[0]), Object: uint32(n[1]), Form: uint8(n[2])},
			Mode: locks.Exclusive}
		if string(row[3]) == "ShareLock" {
			l.Mode = locks.Shared
		}
		out[l] = true
	}
	return out, nil
}
