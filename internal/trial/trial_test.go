package trial

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// member is one whose session asks, and notes what that does.
type member struct {
	did        []string
	unreadable bool
	coded      bool
	refused    *wire.SQLError
	enters     map[session.Phase]*wire.SQLError
	interrupts *wire.SQLError
	alone      *wire.SQLError
	answers    []*replay.Tried // of the other member, one after the other
	verdict    certify.Verdict
	defined    uint64 // where others have defined something; 5 is decided
}

func (m *member) do(format string, args ...any) { m.did = append(m.did, fmt.Sprintf(format, args...)) }

func (m *member) Read(*writeset.Writeset) (capture.Verdict, writeset.Table, capture.BadText) {
	if m.unreadable {
		return capture.Unreadable, writeset.Table{Schema: "s", Name: "t"}, capture.BadText{Column: "c"}
	}
	return capture.Readable, writeset.Table{}, capture.BadText{}
}
func (m *member) Wide(*writeset.Writeset) []catalog.Doubt           { return nil }
func (m *member) Coded(*writeset.Writeset) bool                     { return m.coded }
func (m *member) Refused(_, _ []catalog.Doubt) *wire.SQLError       { return m.refused }
func (m *member) Enter(p session.Phase) *wire.SQLError              { m.do("enter %d", p); return m.enters[p] }
func (m *member) Interrupted() *wire.SQLError                       { return m.interrupts }
func (m *member) Behind(ordinal uint64)                             { m.do("behind %d", ordinal) }
func (m *member) Decided() uint64                                   { return 5 }
func (m *member) Defined(since uint64) bool                         { return m.defined > since }
func (m *member) Loses(*session.Submission, uint64) certify.Verdict { return m.verdict }
func (m *member) Alone(_ *session.Submission, most time.Duration) *wire.SQLError {
	m.do("alone for %s", most)
	return m.alone
}

// ask asks whether a transaction is refused, with definitions or not.
func (m *member) ask(steps int, doubts ...catalog.Doubt) (code string) {
	o := Options{
		Try: func(seq uint64, payload []byte, stop func() bool) (r *replay.Tried) {
			m.do("try %d %s", seq, payload)
			if stop() {
				return nil
			}
			if len(m.answers) > 0 {
				r, m.answers = m.answers[0], m.answers[1:]
			}
			return r
		},
		Lost: func(_ *writeset.Writeset, v certify.Verdict) *wire.SQLError {
			return wire.Errorf(wire.CodeSerializationFailure, "lost to %d", v.WinnerOrdinal)
		},
	}
	sub := &session.Submission{Seq: 6, Writeset: &writeset.Writeset{Steps: make([]writeset.Step, steps)}}
	if e := Refused(o, m, m, sub, []byte("payload"), doubts); e != nil {
		return e.Code
	}
	return ""
}

var (
	running   = fmt.Sprintf("enter %d", session.PhaseRunning)
	submitted = fmt.Sprintf("enter %d", session.PhaseSubmitted)
	seen      = fmt.Sprintf("alone for %s", grants.SeenMax)
	again     = fmt.Sprintf("alone for %s", grants.SeenAgain)
)

const try = "try 6 payload"

// TestWhoIsTried: another member tries what has definitions, code of clients, or names of objects (TR2), and nothing
// else; what can be told here is not asked there (TR1).
func TestWhoIsTried(t *testing.T) {
	name := catalog.Doubt{Doubt: capture.Doubt{Column: -1}}
	value := catalog.Doubt{Doubt: capture.Doubt{Column: 2}}
	for what, c := range map[string]struct {
		m      member
		steps  int
		doubts []catalog.Doubt
		code   string
		did    []string
	}{
		"rows":           {},
		"a value":        {doubts: []catalog.Doubt{value}},
		"a name":         {doubts: []catalog.Doubt{value, name}, did: []string{running, try, submitted}},
		"code":           {m: member{coded: true}, did: []string{running, try, submitted}},
		"definitions":    {steps: 1, did: []string{running, try, seen, submitted}},
		"unreadable":     {m: member{unreadable: true, coded: true}, code: wire.CodeCharacterNotInRepertoire},
		"not stored":     {m: member{refused: wire.Errorf("22P03", "no"), coded: true}, code: "22P03"},
		"read elsewhere": {m: member{unreadable: true}, steps: 1, did: []string{running, try, seen, submitted}},
	} {
		if code := c.m.ask(c.steps, c.doubts...); code != c.code || !slices.Equal(c.m.did, c.did) {
			t.Errorf("%s: it is told %q and does %q, want %q", what, code, c.m.did, c.did)
		}
	}
}

// TestRefusedThere: what another member has refused is told in its words, or as unreadable; if it was ahead, or others
// have defined something since, definitions are tried again in their turn (TR3), and who loses to what it has seen is
// told that (TR4).
func TestRefusedThere(t *testing.T) {
	no := func(decided uint64, message string) *replay.Tried {
		return &replay.Tried{Node: "beta", Code: "42704", Message: message, Decided: decided, Applied: 5}
	}
	lost := certify.Verdict{Reason: certify.KeyConflict, WinnerOrdinal: 7}
	for what, c := range map[string]struct {
		m     member
		steps int
		code  string
		did   []string
	}{
		"as far as this one": {m: member{coded: true, answers: []*replay.Tried{no(5, "no")}, verdict: lost},
			code: wire.CodeFeatureNotSupported, did: []string{running, try, submitted}},
		"ahead, and it loses": {m: member{coded: true, answers: []*replay.Tried{no(6, "no")}, verdict: lost},
			code: wire.CodeSerializationFailure, did: []string{running, try, "behind 7", submitted}},
		"ahead, and it does not": {m: member{coded: true, answers: []*replay.Tried{no(6, "no")}},
			code: wire.CodeFeatureNotSupported, did: []string{running, try, submitted}},
		"a large object that is gone": {m: member{coded: true, answers: []*replay.Tried{no(6, "large object 7 gone")}},
			code: wire.CodeSerializationFailure, did: []string{running, try, submitted}},
		"definitions": {m: member{answers: []*replay.Tried{no(5, "no")}}, steps: 1,
			code: wire.CodeFeatureNotSupported, did: []string{running, try, again, submitted}},
		"definitions, ahead": {m: member{answers: []*replay.Tried{no(6, "no"), nil}}, steps: 1,
			did: []string{running, try, again, try, submitted}},
		"definitions, twice": {m: member{answers: []*replay.Tried{no(6, "no"), no(5, "no")}}, steps: 1,
			code: wire.CodeFeatureNotSupported, did: []string{running, try, again, try, submitted}},
		"definitions, and others since": {m: member{defined: 6}, steps: 1,
			did: []string{running, try, seen, try, submitted}},
		"definitions, and others since that are in the way": {
			m: member{defined: 6, answers: []*replay.Tried{nil, no(6, "no")}}, steps: 1,
			code: wire.CodeFeatureNotSupported, did: []string{running, try, seen, try, submitted}},
		"definitions, and others before": {m: member{defined: 5}, steps: 1,
			did: []string{running, try, seen, submitted}},
		"what nobody reads": {m: member{unreadable: true, answers: []*replay.Tried{no(5, "no")}},
			steps: 1, code: wire.CodeCharacterNotInRepertoire, did: []string{running, try, again, submitted}},
	} {
		if code := c.m.ask(c.steps); code != c.code || !slices.Equal(c.m.did, c.did) {
			t.Errorf("%s: it is told %q, want %q, and does %q, want %q", what, code, c.code, c.m.did, c.did)
		}
	}
}

// TestGivesUp: who loses, or is cancelled, while it is tried is told that and takes no turn; whatever else there is, a
// loss comes first (TR5).
func TestGivesUp(t *testing.T) {
	why := wire.Errorf(wire.CodeQueryCanceled, "cancelled")
	m := member{interrupts: why}
	if code := m.ask(1); code != wire.CodeQueryCanceled || !slices.Equal(m.did, []string{running, try, submitted}) {
		t.Errorf("cancelled, it is told %q and does %q", code, m.did)
	}
	m = member{enters: map[session.Phase]*wire.SQLError{session.PhaseRunning: why}}
	if code := m.ask(1); code != wire.CodeQueryCanceled || !slices.Equal(m.did, []string{running}) {
		t.Errorf("lost before, it is told %q and does %q", code, m.did)
	}
	m = member{alone: why}
	did := []string{running, try, seen, submitted}
	if code := m.ask(1); code != wire.CodeQueryCanceled || !slices.Equal(m.did, did) {
		t.Errorf("without its turn it is told %q and does %q", code, m.did)
	}
	m = member{coded: true, answers: []*replay.Tried{{Code: "42704"}},
		enters: map[session.Phase]*wire.SQLError{session.PhaseSubmitted: why}}
	if code := m.ask(0); code != wire.CodeQueryCanceled {
		t.Errorf("lost meanwhile, it is told %q", code)
	}
	over := wire.Errorf(wire.CodeLockNotAvailable, "too long")
	sub := &session.Submission{Writeset: &writeset.Writeset{Steps: make([]writeset.Step, 1)},
		Limits: func(bool) (int64, *wire.SQLError) { return 1, over }}
	m = member{}
	slow := Options{Try: func(uint64, []byte, func() bool) *replay.Tried {
		time.Sleep(5 * time.Millisecond)
		return nil
	}}
	if e := Refused(slow, &m, &m, sub, nil, nil); e != over {
		t.Errorf("behind its limit it is told %v", e)
	}
}
