package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/check"
)

const collectTimeout = 2 * time.Minute

// collect reads what a node holds, in one snapshot.
func (c *cluster) collect(ctx context.Context, k int) (s State, err error) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	cfg, err := pgx.ParseConfig(c.url(k))
	if err != nil {
		return s, err
	}
	cfg.DialFunc = c.net.dial
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return s, err
	}
	defer conn.Close(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return s, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // nothing was written
	s = State{Node: k, Accounts: map[int]int64{}}
	for _, q := range []struct {
		sql string
		to  *[][]int64
	}{
		{"SELECT tag, source, target, amount FROM chaos_transfer ORDER BY tag", &s.Transfers},
		{"SELECT tag, k FROM chaos_claim ORDER BY tag", &s.Claims},
		{"SELECT tag, id, s FROM chaos_parent ORDER BY tag", &s.Parents},
		{"SELECT tag, parent FROM chaos_child ORDER BY tag", &s.Children},
		{"SELECT tag, count(*), min(v)::bigint, max(v)::bigint FROM chaos_large GROUP BY tag ORDER BY tag", &s.Large},
		{"SELECT tag, count(*), max(i)::bigint FROM chaos_step GROUP BY tag ORDER BY tag", &s.Steps},
		{"SELECT sum(n)::bigint FROM chaos_stepped", &s.Stepped},
		{"SELECT tag, n FROM chaos_tally ORDER BY tag", &s.Tallies},
		{"SELECT id, n, last FROM chaos_hit ORDER BY id", &s.Hits},
		{"SELECT id, last FROM chaos_slot ORDER BY id", &s.Slots},
		{"SELECT id, n FROM chaos_drawn ORDER BY id", &s.Drawn},
		{"SELECT tag, id, n FROM chaos_draw ORDER BY tag", &s.Draws},
	} {
		if *q.to, err = numbers(ctx, tx, q.sql); err != nil {
			return s, err
		}
	}
	money, err := numbers(ctx, tx, "SELECT id, balance FROM chaos_account")
	if err != nil {
		return s, err
	}
	for _, row := range money {
		s.Accounts[int(row[0])] = row[1]
	}
	rows, err := tx.Query(ctx, "SELECT k, v FROM chaos_list UNION ALL SELECT k, v FROM chaos_strict ORDER BY k")
	if err != nil {
		return s, err
	}
	s.Lists, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (op check.ListOp, err error) {
		err = r.Scan(&op.Key, &op.Read)
		return op, err
	})
	return s, err
}

// numbers reads rows of whole numbers.
func numbers(ctx context.Context, tx pgx.Tx, sql string) ([][]int64, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) ([]int64, error) {
		n := make([]int64, len(r.FieldDescriptions()))
		to := make([]any, len(n))
		for i := range n {
			to[i] = &n[i]
		}
		return n, r.Scan(to...)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	return out, nil
}
