package catalog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/jackc/pgx/v5"
)

// DefaultStep is the usual number of residue classes: the most members a cluster can have
// without re-aligning its sequences.
const DefaultStep = 16

// CycleError says that a sequence has CYCLE, whose values cannot be told apart between members.
// The caller refuses the statement that made it with 0A000 and Hint.
type CycleError struct{ Sequence string }

func (e *CycleError) Error() string {
	return fmt.Sprintf("sequence %s is declared CYCLE, which cannot be replicated", e.Sequence)
}

// Hint is the HINT for the client.
func (e *CycleError) Hint() string { return "Declare the sequence NO CYCLE." }

// sequence is the state of a user sequence. Values are those PostgreSQL shows.
type sequence struct {
	oid              uint32
	name             string // quoted
	increment        int64
	min, max         int64
	cycle            bool
	last             int64
	called           bool
	base             int64 // as registered, 0 if not
	member, stepThen int32
}

const sequencesQuery = `SELECT s.seqrelid, format('%I.%I', n.nspname, c.relname), s.seqincrement, s.seqmin, s.seqmax, s.seqcycle,
  coalesce(r.base, 0), coalesce(r.member, 0), coalesce(r.step, 0)
FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN tutti.sequences r ON r.seq = s.seqrelid
WHERE c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti') ORDER BY 1`

func sequences(ctx context.Context, q Querier) ([]sequence, error) {
	rows, err := q.Query(ctx, sequencesQuery)
	if err != nil {
		return nil, fmt.Errorf("catalog: reading sequences: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (s sequence, err error) {
		err = r.Scan(&s.oid, &s.name, &s.increment, &s.min, &s.max, &s.cycle, &s.base, &s.member, &s.stepThen)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("catalog: reading sequences: %w", err)
	}
	for i := range list {
		s := &list[i]
		if err := q.QueryRow(ctx, "SELECT last_value, is_called FROM "+s.name).Scan(&s.last, &s.called); err != nil {
			return nil, fmt.Errorf("catalog: reading sequence %s: %w", s.name, err)
		}
	}
	return list, nil
}

// AlignSequences gives every user sequence an increment of step times its own, and a next value
// in this member's residue class: the first one at or after the value it would have given
// (D2, D3). It runs in q's open transaction, at start and after every schema change and
// setval. It returns a *CycleError for a sequence with CYCLE.
func AlignSequences(ctx context.Context, q Querier, member, step int) error {
	if step < 1 || step > math.MaxInt32 || member < 0 {
		return fmt.Errorf("catalog: sequence step %d of member %d is out of range", step, member)
	}
	return within(ctx, q, func() error {
		if _, err := q.Exec(ctx, "DELETE FROM tutti.sequences WHERE NOT EXISTS (SELECT FROM pg_sequence WHERE seqrelid = seq)"); err != nil {
			return fmt.Errorf("catalog: %w", err)
		}
		list, err := sequences(ctx, q)
		if err != nil {
			return err
		}
		for _, s := range list {
			if s.cycle {
				return &CycleError{s.name}
			}
			if err := s.align(ctx, q, member, step); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sequence) align(ctx context.Context, q Querier, member, step int) error {
	base := s.increment
	then, ok := mul(s.base, int64(s.stepThen))
	aligned := s.base != 0 && ok && then == s.increment
	if aligned {
		base = s.base
	}
	class := int64(member % step)
	if aligned && int(s.stepThen) == step && int(s.member) == member {
		next, ok := s.last, true
		if s.called {
			next, ok = add(s.last, s.increment)
		}
		if !ok || next < s.min || next > s.max || classOf(next, base, step) == class {
			return nil
		}
	}
	increment, ok := mul(base, int64(step))
	if !ok {
		return fmt.Errorf("catalog: the increment %d of sequence %s times %d is out of range", base, s.name, step)
	}
	wanted := s.last
	if s.called {
		wanted, ok = add(s.last, base)
	}
	next := int64(0)
	if ok {
		next, ok = firstOf(wanted, base, class, step)
	}
	if err := s.restart(ctx, q, increment, next, ok); err != nil {
		return err
	}
	_, err := q.Exec(ctx, `INSERT INTO tutti.sequences VALUES ($1, $2, $3, $4)
		ON CONFLICT (seq) DO UPDATE SET base = EXCLUDED.base, member = EXCLUDED.member, step = EXCLUDED.step`, s.oid, base, member, step)
	if err != nil {
		return fmt.Errorf("catalog: registering sequence %s: %w", s.name, err)
	}
	return nil
}

// restart makes next the sequence's next value; if it does not fit, the sequence is exhausted.
func (s *sequence) restart(ctx context.Context, q Querier, increment, next int64, fits bool) error {
	fits = fits && next >= s.min && next <= s.max
	value := next
	if !fits {
		value = s.max
		if increment < 0 {
			value = s.min
		}
	}
	if increment != s.increment || fits {
		// ALTER SEQUENCE … RESTART is transactional, unlike setval.
		if _, err := q.Exec(ctx, fmt.Sprintf("ALTER SEQUENCE %s INCREMENT BY %d RESTART WITH %d", s.name, increment, value)); err != nil {
			return fmt.Errorf("catalog: aligning sequence %s: %w", s.name, err)
		}
	}
	if !fits {
		if _, err := q.Exec(ctx, "SELECT setval($1::text::regclass, $2, true)", s.name, value); err != nil {
			return fmt.Errorf("catalog: exhausting sequence %s: %w", s.name, err)
		}
	}
	return nil
}

// JumpSequences moves every aligned sequence on by gap values, so that values whose
// use was lost in a crash of the database (asynchronous commit loses nextval too) are
// not given again. A sequence that cannot jump so far is exhausted. It runs in q's open
// transaction, after AlignSequences.
func JumpSequences(ctx context.Context, q Querier, gap int64) error {
	if gap < 0 {
		return errors.New("catalog: sequences cannot jump backwards")
	}
	return within(ctx, q, func() error {
		list, err := sequences(ctx, q)
		if err != nil {
			return err
		}
		for _, s := range list {
			next := s.last
			by, ok := mul(gap, s.increment)
			if ok {
				next, ok = add(s.last, by)
			}
			if ok && s.called {
				next, ok = add(next, s.increment)
			}
			if err := s.restart(ctx, q, s.increment, next, ok); err != nil {
				return err
			}
		}
		return nil
	})
}

// classOf is floor(v / |base|) mod step.
func classOf(v, base int64, step int) int64 {
	return floorMod(floorDiv(v, base), int64(step))
}

// firstOf is the first value of wanted, wanted+base, … that is of the class; it does not
// exist beyond 64 bits.
func firstOf(wanted, base, class int64, step int) (int64, bool) {
	distance := class - classOf(wanted, base, step)
	if base < 0 {
		distance = -distance
	}
	by, ok := mul(floorMod(distance, int64(step)), base)
	if !ok {
		return 0, false
	}
	return add(wanted, by)
}

func floorDiv(v, base int64) int64 {
	if base == math.MinInt64 {
		if v < 0 {
			return -1
		}
		return 0
	}
	if base < 0 {
		base = -base
	}
	d := v / base
	if v%base < 0 {
		d--
	}
	return d
}

func floorMod(v, m int64) int64 {
	r := v % m
	if r < 0 {
		r += m
	}
	return r
}

func add(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0)
}

func mul(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	if (a < 0) != (b < 0) {
		return -int64(lo), true
	}
	return int64(lo), true
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return uint64(-v)
	}
	return uint64(v)
}
