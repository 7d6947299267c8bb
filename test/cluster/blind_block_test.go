package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// blindBlocks is how many transactions of several rows node k has carried out unseen.
func (c *Cluster) blindBlocks(k int) int { return int(c.counters(k)["blind_blocks"]) }

// errNone says that a row was not there.
var errNone = errors.New("no row")

// steps runs statements with their arguments in a block; each must change one row.
func steps(conn *pgx.Conn, all [][]any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	for _, step := range all {
		var tag pgconn.CommandTag
		if tag, err = tx.Exec(ctx, step[0].(string), step[1:]...); err == nil && tag.RowsAffected() != 1 {
			err = errNone
		}
		if err != nil {
			return errors.Join(err, tx.Rollback(ctx))
		}
	}
	return tx.Commit(ctx)
}

// TestBlindBlocks: blocks of all nodes move amounts between few rows, of which some come and go, and note what they
// have done. All of a block happens, or nothing; what was acknowledged is there; and most are carried out unseen.
func TestBlindBlocks(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE blocks (id int PRIMARY KEY, n bigint NOT NULL, word text)",
		"CREATE INDEX ON blocks (n)", "INSERT INTO blocks SELECT i, 0, '' FROM generate_series(1, 20) i",
		"CREATE TABLE blocks_done (who int PRIMARY KEY, i int NOT NULL, at bigint NOT NULL)",
		"INSERT INTO blocks_done SELECT i, -1, 0 FROM generate_series(0, 99) i",
		"CREATE TABLE blocks_rare (id int PRIMARY KEY, n int NOT NULL)", "INSERT INTO blocks_rare VALUES (1, 0)")
	c.Everywhere("SELECT count(*) FROM blocks_rare", "1")
	n := 0
	for _, k := range c.All() {
		n -= c.blindBlocks(k)
	}
	var wg sync.WaitGroup
	var done, lost, none, absent atomic.Int64
	last := make([]atomic.Int64, 4*c.Size())
	end := time.Now().Add(seconds(4 * time.Second))
	for who := range 4 * c.Size() {
		last[who].Store(-1)
		conn := c.Connect(1 + who%c.Size()).Conn
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(who)))
			for i := int64(0); time.Now().Before(end); i++ {
				if who == 0 { // it has one row come and go
					step := []any{"DELETE FROM blocks_rare WHERE id = $1 AND n >= 0", 1}
					if i%2 == 1 {
						step = []any{"INSERT INTO blocks_rare VALUES ($1, 0)", 1}
					}
					if err := steps(conn, [][]any{step}); err != nil && Code(err) != "40001" {
						t.Errorf("client 0: %v", err)
						return
					} else if err != nil {
						i-- // once more
					}
					absent.Add(1)
					time.Sleep(10 * time.Millisecond)
					continue
				}
				switch err := steps(conn, blockOf(rng, who, i)); {
				case err == nil:
					last[who].Store(i)
					done.Add(1)
				case Code(err) == "40001" || Code(err) == "40P01":
					lost.Add(1)
				case errors.Is(err, errNone):
					none.Add(1)
				default:
					t.Errorf("client %d: %v", who, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, k := range c.All() {
		n += c.blindBlocks(k)
	}
	t.Logf("%d committed, %d of them unseen; %d lost, %d found a row absent, which came or went %d times", done.Load(),
		n, lost.Load(), none.Load(), absent.Load())
	if n < int(done.Load())/20 {
		t.Errorf("of %d blocks %d were carried out unseen", done.Load(), n)
	}
	c.Everywhere("SELECT sum(n), count(*), (SELECT sum(at) FROM blocks_done) - (SELECT sum(i + 1) FROM blocks_done) "+
		"FROM blocks", "0|20|0")
	for who := 1; who < 4*c.Size(); who++ {
		c.Everywhere(fmt.Sprintf("SELECT i FROM blocks_done WHERE who = %d", who), fmt.Sprint(last[who].Load()))
	}
	c.Check()
}

// blockOf is one of these blocks.
func blockOf(rng *rand.Rand, who int, i int64) [][]any {
	one, two, by := 1+rng.IntN(20), 1+rng.IntN(20), rng.Int64N(2001)-1000
	if one == two {
		by = 0
	}
	all := [][]any{{"UPDATE blocks SET n = n + $1, word = $2 WHERE id = $3", by, fmt.Sprint(who), one}}
	if one != two {
		all = append(all, []any{"UPDATE blocks SET n = n - $1 WHERE id = $2", by, two})
	}
	switch rng.IntN(20) {
	case 0: // if it is there
		all = append(all, []any{"UPDATE blocks_rare SET n = n + 1 WHERE id = $1", 1})
	case 1:
		all = append(all, []any{"UPDATE blocks SET word = lower(word) WHERE id = $1", one})
	}
	// What each client does to its own row, in one way or the other.
	if rng.IntN(2) == 0 {
		return append(all, []any{"UPDATE blocks_done SET i = $1, at = $2 WHERE who = $3", i, i + 1, who})
	}
	return append(all, []any{"DELETE FROM blocks_done WHERE who = $1", who},
		[]any{"INSERT INTO blocks_done (who, i, at) VALUES ($1, $2, $3)", who, i, i + 1})
}

// TestBlindBlockTells: whatever follows statements that were put off, clients are told what PostgreSQL tells them, and
// find what it has done.
func TestBlindBlockTells(t *testing.T) {
	c := use(t)
	admin := c.Connect(1)
	admin.Do("CREATE TABLE blocktold (id int PRIMARY KEY, n int NOT NULL, word varchar(5) NOT NULL, pad char(4) "+
		"NOT NULL)", "CREATE ROLE block_none",
		"CREATE FUNCTION blocktold_sum() RETURNS bigint LANGUAGE sql AS 'SELECT sum(n) FROM blocktold'")
	const one, two, drop, anew = "UPDATE blocktold SET n = n + 1 WHERE id = $1",
		"UPDATE blocktold SET word = $2, n = 5 WHERE id = $1", "DELETE FROM blocktold WHERE id = $1",
		"INSERT INTO blocktold (id, n, word, pad) VALUES ($1, 9, $2, 'p')"
	s := c.Connect(1)
	run := func(sql string) (string, error) {
		ctx := context.Background()
		word, args, _ := strings.Cut(sql, " ")
		text := map[string]string{"one": one, "two": two, "drop": drop, "anew": anew}[word]
		switch {
		case text == "" && strings.HasPrefix(sql, "SELECT"):
			return s.Get(sql), nil
		case text == "":
			tag, err := s.PgConn().Exec(ctx, sql).ReadAll()
			if err != nil {
				return "", err
			}
			return tag[len(tag)-1].CommandTag.String(), nil
		}
		id, more, _ := strings.Cut(args, " ")
		params := []any{id}
		if more != "" {
			params = append(params, more)
		}
		tag, err := s.Exec(ctx, text, params...)
		return tag.String(), err
	}
	for _, x := range []struct {
		script string // statements, and what each must tell behind a colon, if that is not the usual
		rows   string // what there is then
		unseen int
	}{
		{"BEGIN; one 1; two 2 ab; COMMIT", "1,1,x,x 2,5,ab,x 3,0,x,x", 1},
		{"BEGIN; one 1; drop 2; anew 2 abc; two 3 x; COMMIT", "1,1,x,x 2,9,abc,p 3,5,x,x", 1},
		{"BEGIN; one 1; drop 2; COMMIT", "1,1,x,x 3,0,x,x", 1},
		{"BEGIN; SELECT n FROM blocktold WHERE id = 1: 0; one 1; one 2; COMMIT; SELECT sum(n) FROM blocktold: 2",
			"1,1,x,x 2,1,x,x 3,0,x,x", 1},
		{"BEGIN; one 1; two 2 b; ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; one 1; one 1; one 1; COMMIT", "1,3,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; one 1; SELECT n FROM blocktold WHERE id = 1: 1; one 2; COMMIT", "1,1,x,x 2,1,x,x 3,0,x,x", 1},
		{"BEGIN; one 1; SELECT sum(n) FROM blocktold: 1; one 2; COMMIT", "1,1,x,x 2,1,x,x 3,0,x,x", 0},
		{"BEGIN; one 1; SELECT blocktold_sum(): 1; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; one 1; one 9: UPDATE 0; drop 9: DELETE 0; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; drop 1; one 1: UPDATE 0; drop 1: DELETE 0; COMMIT", "2,0,x,x 3,0,x,x", 0},
		{"BEGIN; drop 1; anew 1 a; one 1; COMMIT", "1,10,a,p 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; drop 1; anew 1 a; anew 1 b: 23505; COMMIT: ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; one 1; anew 2 b: 23505; COMMIT: ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; one 1; two 2 toolong: 22001; COMMIT: ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; one 1; SAVEPOINT a; one 2; ROLLBACK TO a; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; one 1; nonsense: 42601; one 1: 25P02; COMMIT: ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN READ ONLY; one 1: 25006; COMMIT: ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; SET TRANSACTION READ ONLY; one 1: 25006; COMMIT: ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN ISOLATION LEVEL REPEATABLE READ; one 1; two 2 b; COMMIT", "1,1,x,x 2,5,b,x 3,0,x,x", 0},
		{"BEGIN; one 1; SET LOCAL ROLE block_none; one 2: 40001; COMMIT: ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; SET LOCAL ROLE block_none; one 1: 40001; COMMIT: ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; one 1; two 2 b; COMMIT AND CHAIN; two 3 c; one 1; COMMIT", "1,2,x,x 2,5,b,x 3,5,c,x", 2},
		{"BEGIN; one 1; DECLARE k CURSOR FOR SELECT sum(n) FROM blocktold; FETCH k; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x",
			0},
		{"BEGIN; one 1; two 2 b; BEGIN; COMMIT; COMMIT", "1,1,x,x 2,5,b,x 3,0,x,x", 1},
		{"BEGIN; one 1; LOCK TABLE blocktold IN SHARE MODE; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 0},
	} { // 40001 for a right that is gone: so it is with every direct statement, once
		for tries := 4; ; tries-- { // a block that waits for long on a busy machine is carried out as what it is
			s = c.Connect(1)
			admin.Do("DELETE FROM blocktold",
				"INSERT INTO blocktold SELECT i, 0, 'x', 'x' FROM generate_series(1, 3) i")
			for range 3 { // the node and the session learn
				for _, sql := range []string{"BEGIN", "one 3", "two 3 y", "drop 3", "anew 3 z", "COMMIT"} {
					if _, err := run(sql); err != nil {
						t.Fatalf("%s: %v", sql, Explain(err))
					}
				}
			}
			admin.Do("UPDATE blocktold SET n = 0, word = 'x', pad = 'x'")
			c.Everywhere("SELECT sum(n) FROM blocktold", "0")
			before := c.blindBlocks(1)
			for _, sql := range strings.Split(x.script, "; ") {
				sql, want, told := strings.Cut(sql, ": ")
				if !told {
					word, _, _ := strings.Cut(sql, " ")
					want = map[string]string{"one": "UPDATE 1", "two": "UPDATE 1", "drop": "DELETE 1",
						"anew": "INSERT 0 1"}[word]
				}
				got, err := run(sql)
				if err != nil {
					got = Code(err)
				}
				if want != "" && got != want || want == "" && err != nil {
					t.Errorf("%s: %s tells %s, want %s: %v", x.script, sql, got, want, Explain(err))
				}
			}
			c.Everywhere("SELECT string_agg(concat_ws(',', id, n, word, trim(pad)), ' ' ORDER BY id) FROM blocktold",
				x.rows)
			n := c.blindBlocks(1) - before
			if n < x.unseen && tries > 0 {
				continue
			}
			if n != x.unseen {
				t.Errorf("%s: %d blocks were carried out unseen, want %d", x.script, n, x.unseen)
			}
			break
		}
	}
	c.Check()
}

// TestBlindBlockLoses: if a row goes between the statement that has found it and COMMIT, or a sum does not fit, nothing
// has happened, and the client is told so.
func TestBlindBlockLoses(t *testing.T) {
	// The block of a client that is silent for so long is carried out as what it is, and then tells what its statement
	// would.
	const silentMax = 50 * time.Millisecond
	c := use(t)
	other := c.Connect(2)
	for i, x := range []struct{ other, code, rows string }{
		{"DELETE FROM blocklost WHERE id = 2", "40001", "1,0 3,0"},
		{"UPDATE blocklost SET n = 2147483647 WHERE id = 2", "40001 or 22003", "1,0 2,2147483647 3,0"},
		{"DELETE FROM blocklost WHERE id = 3", "", "1,1 2,1"},
		{"UPDATE blocklost SET n = 7 WHERE id = 2", "", "1,1 2,8 3,0"},
		{"UPDATE blocklost SET id = 4 WHERE id = 2", "40001", "1,0 3,0 4,0"},
		{"BEGIN; DELETE FROM blocklost WHERE id = 2; INSERT INTO blocklost VALUES (2, 50); COMMIT", "", "1,1 2,51 3,0"},
		{"TRUNCATE blocklost; INSERT INTO blocklost VALUES (1, 10)", "40001", "1,10"},
		{"ALTER TABLE blocklost ADD CHECK (n < 1) NOT VALID", "40001 or 23514", "1,0 2,0 3,0"},
		{"ALTER TABLE blocklost ADD m int", "", "1,1 2,1 3,0"},
		{"DROP TABLE blocklost; CREATE TABLE blocklost (id int PRIMARY KEY, n int NOT NULL)", "40001", ""},
	} {
		table := fmt.Sprint("blocklost", i)
		of := func(sql string) string { return strings.ReplaceAll(sql, "blocklost", table) }
		other.Do(of("CREATE TABLE blocklost (id int PRIMARY KEY, n int NOT NULL)"),
			of("INSERT INTO blocklost SELECT i, 0 FROM generate_series(1, 3) i"))
		c.Everywhere(of("SELECT count(*) FROM blocklost"), "3")
		s := c.Connect(1)
		put := func() error {
			s.Do("BEGIN")
			for id := range 2 {
				tag, err := s.Exec(context.Background(), of("UPDATE blocklost SET n = n + 1 WHERE id = $1"), id+1)
				if err == nil && tag.RowsAffected() != 1 {
					err = errNone
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
		before := c.blindBlocks(1)
		for range 5 {
			if err := put(); err != nil {
				t.Fatal(Explain(err))
			}
			s.Do("COMMIT")
		}
		if c.blindBlocks(1) == before {
			t.Fatal("nothing is carried out unseen")
		}
		other.Do(of("UPDATE blocklost SET n = 0"))
		c.Everywhere(of("SELECT sum(n) FROM blocklost"), "0")
		began := time.Now()
		if err := put(); err != nil {
			t.Fatal(Explain(err))
		}
		other.Do(of(x.other))
		count := other.Get(of("SELECT count(*), sum(n) FROM blocklost"))
		c.Everywhere(of("SELECT count(*), sum(n) FROM blocklost"), count)
		codes := strings.Split(x.code, " or ")
		err := s.Try("COMMIT")
		if time.Since(began) < silentMax {
			codes = codes[:1]
		}
		if !slices.Contains(codes, Code(err)) {
			t.Errorf("%s: COMMIT says %v, want %s", x.other, Explain(err), x.code)
		}
		s.Do("ROLLBACK")
		c.Everywhere(of("SELECT coalesce(string_agg(concat_ws(',', id, n), ' ' ORDER BY id), '') FROM blocklost"),
			x.rows)
	}
	c.Check()
}
