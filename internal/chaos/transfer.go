package chaos

import (
	"context"
	"fmt"

	"github.com/tuttidb/tutti/internal/check"
)

const (
	accounts       = 256
	accountsHot    = 8 // which half of the transfers concern
	accountInitial = 1000
)

// schema makes the tables of all workloads.
var schema = []string{
	"CREATE TABLE chaos_account(id int PRIMARY KEY, balance bigint NOT NULL)",
	fmt.Sprintf("INSERT INTO chaos_account SELECT i, %d FROM generate_series(1, %d) i", accountInitial, accounts),
	"CREATE TABLE chaos_transfer(tag bigint PRIMARY KEY, source int NOT NULL REFERENCES chaos_account, target int " +
		"NOT NULL REFERENCES chaos_account, amount bigint NOT NULL)",
	"CREATE TABLE chaos_list(k bigint PRIMARY KEY, v bigint[] NOT NULL)",
	"CREATE TABLE chaos_strict(k bigint PRIMARY KEY, v bigint[] NOT NULL)",
	"CREATE TABLE chaos_claim(tag bigint PRIMARY KEY, k bigint NOT NULL UNIQUE)",
	"CREATE SEQUENCE chaos_serial",
	"CREATE TABLE chaos_parent(tag bigint PRIMARY KEY, id bigint GENERATED ALWAYS AS IDENTITY, s bigint NOT NULL " +
		"DEFAULT nextval('chaos_serial'))",
	"CREATE TABLE chaos_child(tag bigint PRIMARY KEY, parent bigint NOT NULL REFERENCES chaos_parent)",
	"CREATE TABLE chaos_large(tag bigint, i int, v int NOT NULL, pad text NOT NULL, PRIMARY KEY (tag, i))",
	"CREATE TABLE chaos_step(tag bigint, i int, PRIMARY KEY (tag, i))",
	"CREATE TABLE chaos_stepped(id int PRIMARY KEY, n bigint NOT NULL)",
	"INSERT INTO chaos_stepped SELECT i, 0 FROM generate_series(0, 3) i",
	stepSchema,
	"CREATE TABLE chaos_gate(id int PRIMARY KEY)",
	"CREATE TABLE chaos_hit(id int PRIMARY KEY, n bigint NOT NULL, last bigint NOT NULL)",
	fmt.Sprintf("INSERT INTO chaos_hit SELECT i, 0, 0 FROM generate_series(1, %d) i", 2*hitRows),
	"CREATE TABLE chaos_slot(id int PRIMARY KEY, last bigint NOT NULL)",
	fmt.Sprintf("INSERT INTO chaos_slot SELECT i, 0 FROM generate_series(1, %d) i", hitRows),
	"CREATE TABLE chaos_drawn(id int PRIMARY KEY, n bigint NOT NULL, last bigint NOT NULL)",
	fmt.Sprintf("INSERT INTO chaos_drawn SELECT i, 0, 0 FROM generate_series(1, %d) i", drawRows),
	"CREATE TABLE chaos_draw(tag bigint NOT NULL, id int NOT NULL, n bigint NOT NULL, at timestamptz)",
	"CREATE TABLE chaos_tally(tag bigint PRIMARY KEY, n bigint NOT NULL)",
}

// transfer moves money from one account to another and leaves a row that says so.
func transfer(c *client, t *Tx) error {
	n := accounts
	if c.rng.IntN(2) == 0 {
		n = accountsHot
	}
	a, b := 1+c.rng.IntN(n), 1+c.rng.IntN(n-1)
	if b >= a {
		b++
	}
	amount := int64(1 + c.rng.IntN(100))
	t.Workload, t.Values = wTransfer, []int64{int64(a), int64(b), amount}
	change := map[int]int64{a: -amount, b: amount}
	first, second := min(a, b), max(a, b) // in one order, so that clients of a node do not deadlock
	if c.rng.IntN(4) == 0 {
		return c.single(t, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
			defer cancel()
			_, err := c.conn.PgConn().Exec(ctx,
				fmt.Sprintf(`UPDATE chaos_account SET balance = balance + %d WHERE id = %d;
				UPDATE chaos_account SET balance = balance + %d WHERE id = %d; INSERT INTO chaos_transfer VALUES (%d, %d, %d, %d)`,
					change[first], first, change[second], second, t.Tag, a, b, amount)).ReadAll()
			return err
		})
	}
	note := func() error {
		_, err := c.exec("INSERT INTO chaos_transfer VALUES ($1, $2, $3, $4)", t.Tag, a, b, amount)
		return err
	}
	early := c.rng.IntN(2) == 0 // what follows can be put off to COMMIT
	return c.block(t, c.level(), func() error {
		if early {
			if err := note(); err != nil {
				return err
			}
		}
		for _, id := range []int{first, second} {
			if _, err := c.exec("UPDATE chaos_account SET balance = balance + $1 WHERE id = $2", change[id],
				id); err != nil {
				return err
			}
		}
		if early {
			return nil
		}
		return note()
	})
}

// sum reads all accounts at once: it must always find the same money.
func sum(c *client, t *Tx) error {
	t.Workload, t.Values = wSum, []int64{0}
	const q = "SELECT sum(balance)::bigint FROM chaos_account"
	if c.rng.IntN(2) == 0 {
		return c.single(t, func() error { return c.row(q, nil, &t.Values[0]) })
	}
	return c.block(t, check.Snapshot, func() error {
		var other int64
		err := c.row("SELECT count(*) FROM chaos_account WHERE balance < 0", nil, &other)
		if err != nil {
			return err
		}
		return c.row(q, nil, &t.Values[0])
	})
}
