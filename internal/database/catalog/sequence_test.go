package catalog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var ctx = context.Background()

// cut is a sequence as tutti.cut_sequence takes it.
type cut struct {
	home, steps          int
	inc, start, lo, hi   int64
	member               int
	forward, cycles      bool
	v                    int64
	at, chunkLo, chunkHi *int64
}

// TestChunks: every value belongs to one member, whose chunk around it is its alone; and the next own value
// from anywhere is the nearest.
func TestChunks(t *testing.T) {
	s := pgtest.Shared(t)
	c := s.Connect(t, s.NewDatabase(t))
	(&members{t: t}).in(c, func(tx pgx.Tx) error { return Install(ctx, tx) })
	ask := func(q *cut) {
		if err := c.QueryRow(ctx, `SELECT o.at, o.lo, o.hi FROM tutti.own_chunk(tutti.cut_sequence(1, $1, $2, $3, `+
			`$4, $5, $6, $7), $8, $9, $10::int8) o`,
			q.home, q.steps, q.inc, q.start, q.lo, q.hi, q.cycles, q.member, q.forward, q.v).Scan(&q.at, &q.chunkLo,
			&q.chunkHi); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		q    cut
		want string
	}{
		{cut{home: 1, steps: 16, inc: 1, start: 1, lo: 1, hi: math.MaxInt64, member: 1, forward: true, v: 1},
			"1 1 16777216"},
		{cut{home: 1, steps: 16, inc: 1, start: 1, lo: 1, hi: math.MaxInt64, member: 2, forward: true, v: 1},
			"16777217 16777217 33554432"},
		{cut{home: 1, steps: 16, inc: 1, start: 1, lo: 1, hi: math.MaxInt64, member: 1, forward: true, v: 16777217},
			"268435457 268435457 285212672"},
		{cut{home: 3, steps: 16, inc: 10, start: 7, lo: -5, hi: math.MaxInt32, member: 3, forward: true, v: -5},
			"-5 -5 1073741826"},
		{cut{home: 3, steps: 16, inc: 10, start: 7, lo: -5, hi: math.MaxInt32, member: 2, forward: true, v: 0},
			"1308622767 1308622767 1325399976"},
		{cut{home: 3, steps: 16, inc: -1, start: -1, lo: math.MinInt64, hi: -1, member: 4, v: -1},
			"-16777217 -33554432 -16777217"},
		{cut{home: 1, steps: 16, inc: 1, start: 1, lo: 1, hi: 200, member: 1, forward: true, v: 200}, "200 1 200"},
		{cut{home: 1, steps: 16, inc: 1, start: 1, lo: 1, hi: 200, member: 2, forward: true, v: 1}, "none"},
		{cut{home: 1, steps: 16, inc: 1, start: 1, lo: 1, hi: 32767, member: 2, forward: true, v: 1},
			"16384 16384 16639"},
		// backwards
		{cut{home: 1, steps: 16, inc: 1, start: 1, lo: 1, hi: math.MaxInt64, member: 1, v: 16777300},
			"16777216 1 16777216"},
		{cut{home: 1, steps: 16, inc: 1, start: 1, lo: 1, hi: 32767, cycles: true, member: 2, forward: true, v: 1},
			"16388 16388 17479"},
		{cut{home: 1, steps: 16, inc: 1, start: 3, lo: 1, hi: 5, cycles: true, member: 2, forward: true, v: 4},
			"4 1 5"},
	} {
		ask(&x.q)
		got := "none"
		if x.q.at != nil {
			got = fmt.Sprint(*x.q.at, *x.q.chunkLo, *x.q.chunkHi)
		}
		if got != x.want {
			t.Errorf("%+v: %s, want %s", x.q, got, x.want)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		bound := rapid.OneOf(rapid.Int64Range(-3000, 3000), rapid.Int64(),
			rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, math.MaxInt32, math.MaxInt64}))
		q := cut{steps: rapid.IntRange(1, 20).Draw(r, "steps"), lo: bound.Draw(r, "min"), hi: bound.Draw(r, "max")}
		if q.lo >= q.hi {
			r.Skip()
		}
		q.home = rapid.IntRange(1, q.steps).Draw(r, "home")
		q.inc = rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(-50, -1),
			rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1 << 40})).Draw(r, "increment")
		q.start = rapid.Int64Range(q.lo, q.hi).Draw(r, "start")
		q.v = rapid.OneOf(rapid.Int64Range(q.lo, q.hi), rapid.SampledFrom([]int64{q.lo, q.hi, q.start})).Draw(r,
			"value")
		q.forward, q.cycles = rapid.Bool().Draw(r, "forward"), rapid.Bool().Draw(r, "cycles")
		owners, chunks := 0, [][2]int64{}
		for m := range q.steps {
			q.member = m + 1
			ask(&q)
			if q.at == nil {
				continue
			}
			if *q.at == q.v {
				owners++
			}
			if *q.at < *q.chunkLo || *q.at > *q.chunkHi || *q.chunkLo < q.lo || *q.chunkHi > q.hi ||
				q.forward && *q.at < q.v || !q.forward && *q.at > q.v {
				r.Fatalf("%+v: %d in %d..%d", q, *q.at, *q.chunkLo, *q.chunkHi)
			}
			if whole := [2]int64{q.lo, q.hi}; q.cycles && [2]int64{*q.chunkLo, *q.chunkHi} == whole {
				continue // a small one
			}
			for _, c := range chunks {
				if *q.chunkLo <= c[1] && c[0] <= *q.chunkHi {
					r.Fatalf("%+v: %d..%d is also another's: %v", q, *q.chunkLo, *q.chunkHi, c)
				}
			}
			chunks = append(chunks, [2]int64{*q.chunkLo, *q.chunkHi})
			for _, v := range []int64{*q.chunkLo, *q.chunkHi} { // all of the chunk is the member's, from either side
				x := q
				x.v = v
				ask(&x)
				if x.at == nil || *x.at != v || *x.chunkLo != *q.chunkLo || *x.chunkHi != *q.chunkHi {
					r.Fatalf("%+v: %d is not in its chunk", q, v)
				}
			}
			if x := q; q.cycles { // one chunk for each
				x.forward, x.v = true, *q.chunkHi
				if x.v < q.hi {
					x.v++
					if ask(&x); x.at != nil {
						r.Fatalf("%+v: the member has more than a chunk", q)
					}
				}
			}
		}
		if owners != 1 && (owners != q.steps || len(chunks) > 0) {
			r.Fatalf("%+v has %d owners", q, owners)
		}
		q.member, q.v = q.home, q.start
		if ask(&q); q.at == nil || *q.at != q.start {
			r.Fatalf("%+v: START is not its home's", q)
		}
	})
}

type members struct {
	t     *testing.T
	conns []*pgx.Conn
	// copies is how many copies of others' databases the member has taken that is started next.
	copies int
}

func newMembers(t *testing.T, n int) *members {
	m := &members{t: t}
	s := pgtest.Shared(t)
	for range n {
		c := s.Connect(t, s.NewDatabase(t))
		m.conns = append(m.conns, c)
		m.in(c, func(tx pgx.Tx) error { return Install(ctx, tx) })
	}
	return m
}

func (m *members) in(c *pgx.Conn, f func(pgx.Tx) error) {
	m.t.Helper()
	tx, err := c.Begin(ctx)
	if err == nil {
		if err = f(tx); err == nil {
			err = tx.Commit(ctx)
		}
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// newCluster is members with numbers from 1.
func newCluster(t *testing.T, n int) *members {
	m := newMembers(t, n)
	for i, c := range m.conns {
		m.start(c, i+1, 0)
	}
	return m
}

func (m *members) start(c *pgx.Conn, member int, gap int64) {
	m.t.Helper()
	m.in(c, func(tx pgx.Tx) error {
		if err := StartSequences(ctx, tx, member, DefaultStep, gap, m.copies); err != nil {
			return err
		}
		return StartSequences(ctx, tx, member, DefaultStep, 0, m.copies) // changes nothing
	})
}

// ddl runs the same statements everywhere, as made at member 1.
func (m *members) ddl(sql string) {
	m.t.Helper()
	for _, c := range m.conns {
		m.in(c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.home = 1; SET "+
				"LOCAL tutti.tx = on; "+sql); err != nil {
				return err
			}
			_, err := Follow(ctx, tx, nil)
			return err
		})
	}
}

func (m *members) next(i int, seq string) (v int64) {
	m.t.Helper()
	v, err := m.try(i, seq)
	if err != nil {
		m.t.Fatal(err)
	}
	return v
}

// TestCachesOfCrashes: as many sessions as there may be have lost what they had taken at once.
func TestCachesOfCrashes(t *testing.T) {
	m := newCluster(t, 1)
	m.ddl("CREATE SEQUENCE c CACHE 1000; CREATE SEQUENCE d CACHE 1000 INCREMENT -1")
	c, crowd := m.conns[0], int64(0)
	if err := c.QueryRow(ctx, "SELECT 1000 * current_setting('max_connections')::int8").Scan(&crowd); err != nil {
		t.Fatal(err)
	}
	before := map[string]int64{"c": m.next(0, "c"), "d": m.next(0, "d")}
	m.start(c, 1, 10)
	for seq, v := range before {
		if far := m.next(0, seq) - v; max(far, -far) < crowd {
			t.Errorf("%s goes on after %d, and lost may be %d", seq, far, crowd)
		}
	}
}

// TestCycles: a sequence that cycles gives each member's values again, and no other's, whether it was made so or
// altered to.
func TestCycles(t *testing.T) {
	m := newCluster(t, 3)
	m.ddl(`CREATE SEQUENCE c MAXVALUE 32767 CYCLE; CREATE SEQUENCE d MINVALUE -320000 INCREMENT -10 CYCLE; ` +
		`CREATE SEQUENCE tiny MINVALUE 2 MAXVALUE 5 START 4 CYCLE; CREATE SEQUENCE later MAXVALUE 32767;
		CREATE TABLE i(i int GENERATED ALWAYS AS IDENTITY (MAXVALUE 3 CYCLE))`)
	all := map[string][3][2]int64{"c": {{1, 16387}, {16388, 17479}, {17480, 18571}},
		"d": {{-1, -160100}, {-160101, -170760}, {-170761, -181420}}}
	for seq, of := range all {
		for i := range m.conns {
			if v := m.next(i, seq); v != of[i][0] {
				t.Errorf("member %d, %s begins with %d, want %d", i+1, seq, v, of[i][0])
			}
			m.in(m.conns[i], func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT setval($1::text::regclass, $2)", seq, of[i][1])
				return err
			})
			if v := m.next(i, seq); v != of[i][0] {
				t.Errorf("member %d, %s goes on with %d, want %d", i+1, seq, v, of[i][0])
			}
		}
	}
	for i := range m.conns {
		for k, want := range []int64{4, 5, 2, 3, 4} {
			if v := m.next(i, "tiny"); v != want {
				t.Errorf("member %d, tiny: value %d is %d, want %d", i+1, k, v, want)
			}
		}
		if v := m.next(i, "i_i_seq"); v != 1 {
			t.Errorf("member %d, an identity: %d", i+1, v)
		}
	}
	m.ddl("ALTER SEQUENCE later CYCLE; ALTER SEQUENCE c INCREMENT 2")
	for i := range m.conns { // all chunks of each, twice
		given := map[int64]int{}
		for range 2 * 32767 {
			v := m.next(i, "later")
			if given[v]++; given[v] > 2 {
				break
			}
		}
		for v, n := range given {
			if owner := ownerOf(v); owner != i+1 || n < 2 {
				t.Fatalf("member %d gave %d, of member %d, %d times", i+1, v, owner, n)
			}
		}
		if want := []int{17407, 1024, 1024}[i]; len(given) != want {
			t.Errorf("member %d has %d values, want %d", i+1, len(given), want)
		}
	}
	say := func(want string) {
		t.Helper()
		for i, c := range m.conns {
			var cycle string
			if err := c.QueryRow(ctx, "SELECT string_agg(sequencename, ' ' ORDER BY sequencename) FROM pg_sequences "+
				"WHERE schemaname = 'public' AND cycle").Scan(&cycle); err != nil || cycle != want {
				t.Errorf("member %d: %s, %v, want %s", i+1, cycle, err, want)
			}
		}
	}
	say("c d i_i_seq later tiny")
	// It does not go back while somebody may go by the bounds it comes from.
	other := pgtest.Shared(t).Connect(t, m.conns[0].Config().Database)
	m.next(0, "later")
	if _, err := other.Exec(ctx, "BEGIN; SELECT nextval('later')"); err != nil {
		t.Fatal(err)
	}
	m.in(m.conns[0], func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT tutti.bound_sequence('later'::regclass, 32512, 32767), "+
			"tutti.native_setval('later', 32767, true)")
		return err
	})
	_, err := m.conns[0].Exec(ctx, "BEGIN; SET LOCAL lock_timeout = '100ms'; SELECT tutti.advance_sequence('later', "+
		"32767)")
	var locked *pgconn.PgError
	if !errors.As(err, &locked) || locked.Code != "55P03" {
		t.Errorf("it went back under the eyes of a transaction: %v", err)
	}
	for _, c := range []*pgx.Conn{m.conns[0], other} {
		if _, err := c.Exec(ctx, "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	m.ddl("ALTER SEQUENCE later NO CYCLE; ALTER SEQUENCE tiny NO CYCLE; ALTER SEQUENCE c NO CYCLE; ALTER TABLE i " +
		"ALTER i SET NO CYCLE")
	say("d")
	for i := range m.conns {
		for _, seq := range []string{"tiny", "i_i_seq", "c", "later"} {
			if seq == "c" || seq == "later" {
				m.in(m.conns[i], func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "SELECT setval($1::text::regclass, 32766)", seq)
					return err
				})
			}
			var err error
			for range 5 {
				if _, err = m.try(i, seq); err != nil {
					break
				}
			}
			if err == nil {
				t.Errorf("member %d: %s still cycles", i+1, seq)
			}
		}
	}
	m.ddl("ALTER SEQUENCE tiny CYCLE")
	say("d tiny")
	if v := m.next(0, "tiny"); v != 2 {
		t.Errorf("it cycles again, and gives %d", v)
	}
	m.start(m.conns[1], 2, 1<<16) // as after a crash
	if v := m.next(1, "d"); v != -160101 {
		t.Errorf("after a crash: %d", v)
	}
}

// TestCyclesOfMany: a sequence that was altered to cycle within the first chunk, or within fewer steps than it was made
// for, is not every member's: only one of less than 256 values is.
func TestCyclesOfMany(t *testing.T) {
	m := newCluster(t, 3)
	m.ddl("CREATE SEQUENCE shrunk; CREATE SEQUENCE denser MAXVALUE 1000 INCREMENT 10 CYCLE; CREATE SEQUENCE few")
	for i := range m.conns {
		if v := m.next(i, "denser"); v != 1 {
			t.Errorf("member %d: %d", i+1, v)
		}
	}
	m.ddl("ALTER SEQUENCE shrunk MAXVALUE 9999 CYCLE; ALTER SEQUENCE denser INCREMENT 1; ALTER SEQUENCE few MAXVALUE " +
		"200 CYCLE")
	for i := range m.conns {
		for seq, all := range map[string]bool{"shrunk": false, "denser": false, "few": true} {
			if _, err := m.try(i, seq); (err == nil) != (all || i == 0) {
				t.Errorf("member %d, %s: %v", i+1, seq, err)
			}
		}
	}
	m.ddl("ALTER SEQUENCE denser INCREMENT 10; ALTER SEQUENCE shrunk NO MAXVALUE NO CYCLE")
	for i, want := range []int64{2, 1<<24 + 1, 2<<24 + 1} {
		if v := m.next(i, "shrunk"); v != want {
			t.Errorf("member %d goes on with %d, want %d", i+1, v, want)
		}
		m.next(i, "denser")
	}
}

// TestSpentNamesakes: a sequence at its end is not taken for one of the same name that can go on.
func TestSpentNamesakes(t *testing.T) {
	m := newCluster(t, 1)
	m.ddl("CREATE SEQUENCE ends MAXVALUE 2; CREATE SCHEMA other; CREATE SEQUENCE other.ends")
	for range 2 {
		m.next(0, "ends")
		m.next(0, "other.ends")
	}
	var answer *string
	if err := m.conns[0].QueryRow(ctx, "SELECT tutti.advance_sequence('ends', 2)").Scan(&answer); err != nil ||
		answer != nil {
		t.Errorf("the end of one is taken for a step of the other: %v", err)
	}
	if err := m.conns[0].QueryRow(ctx, "SELECT tutti.advance_sequence('ends', 1)").Scan(&answer); err != nil ||
		answer == nil || *answer != "moved" {
		t.Errorf("what is over already is not: %v", err)
	}
}

// ownerOf is the member of three whose chunk a value of a sequence of 1 to 32767 is in, see TestChunks.
func ownerOf(v int64) int {
	if v < 16384 {
		return 1
	}
	return int((v-16384)/256+1)%16 + 1
}

// try is nextval, as often as it takes.
func (m *members) try(i int, seq string) (v int64, err error) {
	m.t.Helper()
	for {
		err = m.conns[i].QueryRow(ctx, "SELECT nextval($1::text::regclass)", seq).Scan(&v)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != capture.SpentState {
			return v, err
		}
		name, bound, ok := capture.Spent(pg.Message)
		if !ok {
			m.t.Fatalf("the message is not understood: %s", pg.Message)
		}
		var answer *string
		if e := m.conns[i].QueryRow(ctx, "SELECT tutti.advance_sequence($1, $2)", name, bound).Scan(&answer); e != nil {
			m.t.Fatal(e)
		}
		if answer == nil || *answer != "moved" {
			return 0, err
		}
	}
}

const chunk = 1 << 24

// TestDenseAtHome: what a sequence gives where it was made, and what it says of itself, is PostgreSQL's.
func TestDenseAtHome(t *testing.T) {
	m := newCluster(t, 3)
	m.ddl(`CREATE SEQUENCE up; CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE tens INCREMENT 10 START 7; CREATE ` +
		`SEQUENCE "q u" CACHE 20; CREATE TABLE s(id serial, i int GENERATED ALWAYS AS IDENTITY (START 100))`)
	for seq, want := range map[string][3]int64{"up": {1, chunk + 1, 2*chunk + 1},
		"down": {-1, -chunk - 1, -2*chunk - 1}, "tens": {7, 10*chunk + 7, 20*chunk + 7},
		`"q u"`: {1, chunk + 1, 2*chunk + 1}, "s_id_seq": {1, chunk + 1, 2*chunk + 1},
		"s_i_seq": {100, chunk + 100, 2*chunk + 100}} {
		for i := range m.conns {
			step := map[string]int64{"down": -1, "tens": 10}[seq]
			if step == 0 {
				step = 1
			}
			for k := range int64(3) {
				if v := m.next(i, seq); v != want[i]+k*step {
					t.Errorf("member %d, %s: %d, want %d", i+1, seq, v, want[i]+k*step)
				}
			}
		}
	}
	m.ddl("ALTER SEQUENCE up INCREMENT 3; ALTER SEQUENCE tens OWNED BY s.id; ALTER SEQUENCE s_id_seq OWNED BY NONE; " +
		"TRUNCATE s RESTART IDENTITY; ALTER TABLE s ALTER i SET MAXVALUE 5000")
	if v := m.next(0, "up"); v != 6 {
		t.Errorf("after a new increment: %d", v)
	}
	if v, w := m.next(0, "tens"), m.next(0, "s_i_seq"); v != 7 || w != 100 {
		t.Errorf("after RESTART IDENTITY: %d, %d", v, w)
	}
	for i, c := range m.conns {
		var got string
		if err := c.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', sequencename, start_value, min_value, max_value, `+
			`increment_by, cache_size), ', ' ORDER BY sequencename) FROM pg_sequences WHERE schemaname = `+
			`'public'`).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if want := "down -1 -9223372036854775808 -1 -1 1, q u 1 1 9223372036854775807 1 20, s_i_seq 100 1 5000 1 1, " +
			"s_id_seq 1 1 2147483647 1 1, tens 7 1 9223372036854775807 10 1, up 1 1 9223372036854775807 3 1"; got !=
			want {
			t.Errorf("member %d says:\n%s\n%s", i+1, got, want)
		}
		if err := c.QueryRow(ctx,
			`SELECT (SELECT string_agg(maximum_value, ' ' ORDER BY sequence_name) FROM `+
				`information_schema.sequences WHERE sequence_schema = 'public') || ' ' ||
			(SELECT identity_maximum FROM information_schema.columns WHERE table_name = 's' AND is_identity = 'YES')`).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if want := "-1 9223372036854775807 2147483647 9223372036854775807 9223372036854775807 5000"; got != want {
			t.Errorf("member %d says:\n%s\n%s", i+1, got, want)
		}
	}
}

// TestSequencesNeverCollide: random definitions and setvals at all members, values at random ones, the
// end of chunks, starts after a crash; what is set back may be given again, and is forgotten.
func TestSequencesNeverCollide(t *testing.T) {
	m, made := newCluster(t, 3), 0
	rapid.Check(t, func(r *rapid.T) {
		made++
		q := fmt.Sprint("q", made)
		options := rapid.SampledFrom([]string{"", "MAXVALUE 3000", "INCREMENT -1 MINVALUE -3000", "AS smallint",
			"INCREMENT 7 START 50 MAXVALUE 20000", "MINVALUE -500 START 3 MAXVALUE 2000 CACHE 5", "MAXVALUE 100"}).Draw(
			r, "options")
		m.ddl("CREATE SEQUENCE " + q + " " + options)
		defer m.ddl("DROP SEQUENCE " + q)
		seen := map[int64]int{}
		for range rapid.IntRange(1, 12).Draw(r, "actions") {
			i := rapid.IntRange(0, 2).Draw(r, "member")
			v := rapid.Int64Range(1, 2000).Draw(r, "value")
			switch rapid.IntRange(0, 9).Draw(r, "action") {
			case 0:
				m.both(fmt.Sprintf("SELECT setval('%s', %d, %v)", q, v, v%2 == 0))
				clear(seen)
			case 1:
				m.both(fmt.Sprintf("ALTER SEQUENCE %s RESTART WITH %d", q, v))
				clear(seen)
			case 2:
				by := rapid.SampledFrom([]int{1, 3, 40}).Draw(r, "increment")
				if strings.HasPrefix(options, "INCREMENT -") {
					by = -by
				}
				m.both(fmt.Sprintf("ALTER SEQUENCE %s INCREMENT %d", q, by))
			case 3:
				m.both(fmt.Sprintf("ALTER SEQUENCE %s MAXVALUE %d", q, 2000+v))
			case 4:
				m.start(m.conns[i], i+1, v)
			case 5: // at one member only, as in a function, and taken back
				tx, err := m.conns[i].Begin(ctx)
				if err == nil {
					_, _ = tx.Exec(ctx, fmt.Sprintf("SELECT setval('%s', %d)", q, 2*v))
					err = tx.Rollback(ctx)
				}
				if err != nil {
					t.Fatal(err)
				}
				for v, by := range seen {
					if by == i {
						delete(seen, v) // its own again
					}
				}
			default:
				for range rapid.IntRange(1, 60).Draw(r, "values") {
					got, err := m.try(i, q)
					if err != nil {
						break
					}
					if by, ok := seen[got]; ok {
						r.Fatalf("member %d gives %d, as did member %d (%s)", i+1, got, by+1, options)
					}
					seen[got] = i
				}
			}
		}
	})
}

// both runs a statement everywhere that fails either nowhere or everywhere.
func (m *members) both(sql string) {
	m.t.Helper()
	var first error
	for i, c := range m.conns {
		_, err := c.Exec(ctx, "BEGIN; SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.home = 1; "+sql+
			"; COMMIT")
		if err != nil {
			if _, e := c.Exec(ctx, "ROLLBACK"); e != nil {
				m.t.Fatal(e)
			}
		}
		if i == 0 {
			first = err
		} else if (err == nil) != (first == nil) {
			m.t.Fatalf("%s: member 1 says %v, member %d %v", sql, first, i+1, err)
		}
	}
}
