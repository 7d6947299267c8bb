package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/tuttidb/tutti/internal/capture"
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
	OID              uint32
	Name             string // quoted
	Increment        int64
	Min, Max         int64
	Cycle            bool
	Last             int64
	Called           bool
	Base             int64 // as registered, 0 if not
	Member, StepThen int32
}

func sequences(ctx context.Context, q Querier) ([]sequence, error) {
	var text string
	if err := q.QueryRow(ctx, capture.SequencesQuery()).Scan(&text); err != nil {
		return nil, fmt.Errorf("catalog: reading sequences: %w", err)
	}
	return decodeSequences([]byte(text))
}

func decodeSequences(text []byte) (list []sequence, err error) {
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("catalog: reading sequences: %w", err)
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
	return within(ctx, q, func() error { return align(ctx, q, member, step) })
}

func align(ctx context.Context, q Querier, member, step int) error {
	list, err := sequences(ctx, q)
	if err != nil {
		return err
	}
	statements, err := alignSQL(list, member, step)
	if err != nil {
		return err
	}
	return execute(ctx, q, statements)
}

func execute(ctx context.Context, q Querier, statements []string) error {
	if _, err := q.Exec(ctx, strings.Join(statements, ";\n")); err != nil {
		return fmt.Errorf("catalog: aligning sequences: %w", err)
	}
	return nil
}

// AlignSQL returns the statements AlignSequences would run, given the answer to capture.SequencesQuery.
func AlignSQL(text []byte, member, step int) ([]string, error) {
	list, err := decodeSequences(text)
	if err != nil {
		return nil, err
	}
	return alignSQL(list, member, step)
}

func alignSQL(list []sequence, member, step int) ([]string, error) {
	out := []string{"DELETE FROM tutti.sequences WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_sequence WHERE seqrelid OPERATOR(pg_catalog.=) seq)"}
	for i := range list {
		if list[i].Cycle {
			return nil, &CycleError{list[i].Name}
		}
		statements, err := list[i].align(member, step)
		if err != nil {
			return nil, err
		}
		out = append(out, statements...)
	}
	return out, nil
}

func (s *sequence) align(member, step int) ([]string, error) {
	base := s.Increment
	then, ok := mul(s.Base, int64(s.StepThen))
	aligned := s.Base != 0 && ok && then == s.Increment
	if aligned {
		base = s.Base
	}
	class := int64(member % step)
	if aligned && int(s.StepThen) == step && int(s.Member) == member {
		next, ok := s.Last, true
		if s.Called {
			next, ok = add(s.Last, s.Increment)
		}
		if !ok || next < s.Min || next > s.Max || classOf(next, base, step) == class {
			return nil, nil
		}
	}
	increment, ok := mul(base, int64(step))
	if !ok {
		return nil, fmt.Errorf("catalog: the increment %d of sequence %s times %d is out of range", base, s.Name, step)
	}
	wanted := s.Last
	if s.Called {
		wanted, ok = add(s.Last, base)
	}
	next := int64(0)
	if ok {
		next, ok = firstOf(wanted, base, class, step)
	}
	return append(s.restart(increment, next, ok), fmt.Sprintf(`INSERT INTO tutti.sequences VALUES (%d, %d, %d, %d)
		ON CONFLICT (seq) DO UPDATE SET base = EXCLUDED.base, member = EXCLUDED.member, step = EXCLUDED.step`, s.OID, base, member, step)), nil
}

// restart makes next the sequence's next value; if it does not fit, the sequence is exhausted.
func (s *sequence) restart(increment, next int64, fits bool) (out []string) {
	fits = fits && next >= s.Min && next <= s.Max
	value := next
	if !fits {
		value = s.Max
		if increment < 0 {
			value = s.Min
		}
	}
	if increment != s.Increment || fits {
		// ALTER SEQUENCE … RESTART is transactional, unlike setval.
		out = append(out, fmt.Sprintf("ALTER SEQUENCE %s INCREMENT BY %d RESTART WITH %d", s.Name, increment, value))
	}
	if !fits {
		out = append(out, fmt.Sprintf("SELECT pg_catalog.setval('%s', %d, true)", strings.ReplaceAll(s.Name, "'", "''"), value))
	}
	return out
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
			next := s.Last
			by, ok := mul(gap, s.Increment)
			if ok {
				next, ok = add(s.Last, by)
			}
			if ok && s.Called {
				next, ok = add(next, s.Increment)
			}
			if err := execute(ctx, q, s.restart(s.Increment, next, ok)); err != nil {
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
