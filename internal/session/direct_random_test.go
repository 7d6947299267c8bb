package session_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// copyOf is what another member would have of t (id int, v text): a map kept by writesets alone.
type copyOf map[int32]string

func (c copyOf) apply(t testing.TB, w *writeset.Writeset) {
	for _, step := range w.Steps {
		if step.Rows != nil {
			c.apply(t, step.Rows)
		}
	}
	for _, r := range w.Rows {
		if w.Tables[r.Table].Name != "t" || r.Op == writeset.OpLock {
			continue
		}
		if r.Op == writeset.OpTruncate {
			clear(c)
			continue
		}
		id, v := record(t, r.Image)
		_, there := c[id]
		switch r.Op {
		case writeset.OpInsert:
			if there {
				t.Errorf("row %d is inserted twice", id)
			}
			c[id] = v
		case writeset.OpUpdate, writeset.OpReplace:
			if !there {
				t.Errorf("row %d is updated and not there", id)
			}
			c[id] = v
		case writeset.OpDelete:
			if !there {
				t.Errorf("row %d is deleted and not there", id)
			}
			delete(c, id)
		}
	}
}

// record reads the binary form of a row of t.
func record(t testing.TB, b []byte) (id int32, v string) {
	if len(b) < 24 || binary.BigEndian.Uint32(b) != 2 {
		t.Fatalf("image %x", b)
	}
	id = int32(binary.BigEndian.Uint32(b[12:]))
	if n := int32(binary.BigEndian.Uint32(b[20:])); n >= 0 {
		v = string(b[24 : 24+n])
	}
	return id, v
}

// TestDirectRandom runs random transactions of direct statements, others, hidden writes, savepoints, definitions,
// errors, dooms and losses. What is submitted makes the table that is there.
func TestDirectRandom(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomDirect(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func randomDirect(t *testing.T, r *rand.Rand) {
	s, l := direct(t)
	ctx := context.Background()
	table := func() copyOf {
		got := copyOf{}
		rows, err := s.admin.Query(ctx, "SELECT id, coalesce(v, '') FROM t")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id int32
			var v string
			if err := rows.Scan(&id, &v); err != nil {
				t.Fatal(err)
			}
			got[id] = v
		}
		return got
	}
	member, mark := table(), uint64(0)
	l.host.onSubmit = func(x session.Submission) *session.Decision {
		if r.IntN(12) == 0 {
			return &session.Decision{Retry: true, Err: lost()}
		}
		member.apply(t, x.Writeset)
		mark = x.Seq
		return nil
	}
	var put uint32
	if err := s.admin.QueryRow(ctx, "SELECT 'put'::regproc::oid").Scan(&put); err != nil {
		t.Fatal(err)
	}
	l.do("Q CREATE TABLE other (id int)\nQ CREATE SEQUENCE q")
	l.do("P sel|SELECT v FROM t WHERE id = $1\nP some|UPDATE t SET v = $1 WHERE id % 3 = $2|25,23\nS")
	var log []string
	var written uint64
	say := func(lines string) {
		log = append(log, lines)
		l.do(lines)
	}
	for n := range 150 {
		log = log[:0]
		switch r.IntN(3) {
		case 0:
			say(randomStep(r, put, n))
		default:
			say("Q BEGIN" + []string{"", " ISOLATION LEVEL REPEATABLE READ"}[r.IntN(2)])
			for range 1 + r.IntN(7) {
				say(randomStep(r, put, n))
				if r.IntN(40) == 0 {
					log = append(log, "doom")
					l.host.kill(lost())
				}
			}
			say([]string{"Q COMMIT", "Q COMMIT", "Q COMMIT", "Q ROLLBACK"}[r.IntN(4)])
		}
		if l.host.committed > 0 {
			// more, if it wrote and changed nothing
			if err := s.admin.QueryRow(ctx, "SELECT seq FROM tutti.mark WHERE slot = 1").Scan(&written); err != nil ||
				written < mark {
				t.Fatalf("after transaction %d\n%s\nthe mark says %d, want %d (%v)", n, strings.Join(log, "\n"),
					written, mark, err)
			}
		}
		if got := table(); !maps.Equal(got, member) {
			t.Fatalf("after transaction %d\n%s\nthe table is\n%v\nand what was submitted makes\n%v", n,
				strings.Join(log, "\n"), got, member)
		}
	}
	if l.host.orphans > 0 || l.host.committed < 15 {
		t.Errorf("%d transactions committed, %d of them could not", l.host.committed, l.host.orphans)
	}
}

func randomStep(r *rand.Rand, put uint32, n int) string {
	id := r.IntN(12)
	fresh := 100 + r.IntN(10000)
	steps := []string{
		"B |ins|%[4]d|i%[2]d\nE |0\nS", "B |upd|u%[2]d|%[1]d\nE |0\nS", "B |upd|v%[2]d|%[1]d\nE |0\nS",
		"B |upd|w%[2]d|%[1]d\nE |0\nS", "B |del|%[1]d\nE |0\nS",
		"B |upd|a%[2]d|%[1]d\nE |0\nB |del|%[1]d\nE |0\nB |ins|%[1]d|b%[2]d\nE |0\nS",
		"B |ins|%[1]d|c%[2]d\nE |0\nB |ins|%[4]d|d%[2]d\nE |0\nS",
		"P |UPDATE t SET v = 'un' WHERE id > $1|23\nB ||%[1]d\nD P \nE |0\nS",
		"P |DELETE FROM t WHERE id = $1|23\nB ||%[1]d\nE |0\nS",
		// As a whole, or directly.
		"B |some|m%[2]d|1\nE |0\nS", "B |upd|e%[2]d|%[1]d\nE |0\nB |some|n%[2]d|%[1]d\nE |0\nB |del|%[1]d\nE |0\nS",
		"P |DELETE FROM t WHERE id %% 9 = $1|23\nB ||%[1]d\nE |0\nS",
	}
	switch r.IntN(4) {
	case 0:
		steps = []string{"Q SAVEPOINT a", "Q ROLLBACK TO a", "Q RELEASE a", "Q RESET ALL", "Q SET tutti.tx = 'x'"}
		if r.IntN(4) == 0 {
			steps = []string{"Q ALTER TABLE other ADD c%[2]d int", "Q SELECT setval('q', 1 + %[2]d)",
				"Q SAVEPOINT b\nQ ALTER TABLE other ADD c%[2]d int\nQ ROLLBACK TO b",
				"Q SAVEPOINT b\nQ ALTER TABLE other ADD id int\nQ ROLLBACK TO b",
				"Q SAVEPOINT b\nQ SELECT setval('q', 1 + %[2]d)\nQ ROLLBACK TO b"}
		}
	case 1:
		steps = []string{
			"Q SELECT 1", "B |sel|%[1]d\nE |0\nS", "Q SELECT put(%[4]d, 'p%[2]d')", "F %[3]d|%[4]d|f%[2]d",
			"Q INSERT INTO t VALUES (%[4]d, 'q%[2]d')", "Q UPDATE t SET v = 's%[2]d' WHERE id <= %[1]d",
			"Q DELETE FROM t WHERE id = %[1]d",
			"Q UPDATE t SET id = id + 20 WHERE id = %[1]d",
			"Q UPDATE t SET id = id - 20 WHERE id BETWEEN 20 AND 39 AND id - 20 NOT IN (SELECT id FROM t)",
			"Q SET LOCAL row_security = off", "Q UPDATE t SET v = 'o%[2]d' WHERE id %% 2 = 0",
			"Q DELETE FROM t WHERE id > 5000",
			"Q WITH x AS (DELETE FROM t WHERE id = %[1]d RETURNING id) INSERT INTO t SELECT id + 40, 'x%[2]d' FROM x " +
				"WHERE id + 40 NOT IN (SELECT id FROM t)",
			"Q INSERT INTO t SELECT g, 'g%[2]d' FROM generate_series(0, 11) g ON CONFLICT DO NOTHING",
		}
	}
	if r.IntN(60) == 0 {
		steps = []string{"Q TRUNCATE t", "Q SELECT 1/0", "Q CREATE TEMP TABLE IF NOT EXISTS tt (id int)",
			"Q DISCARD TEMP", "Q DO $$ BEGIN PERFORM put(%[1]d, 'do'); EXCEPTION WHEN OTHERS THEN NULL; END $$"}
	}
	step := steps[r.IntN(len(steps))]
	if !strings.Contains(step, "%[") {
		return step
	}
	return fmt.Sprintf(step, id, n, put, fresh)
}
