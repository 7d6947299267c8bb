package txn

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tuttidb/tutti/internal/wire"
)

// events are what a session tells a machine, by name.
var events = map[string]func(*Machine){
	"begin":          func(m *Machine) { m.Begin(true) },
	"begin-implicit": func(m *Machine) { m.Begin(false) },
	"promote":        (*Machine).Promote,
	"opens":          (*Machine).Opens,
	"began":          (*Machine).Began,
	"early":          (*Machine).Early,
	"touch":          (*Machine).Touch,
	"snapshot":       (*Machine).TakeSnapshot,
	"collect":        (*Machine).Collect,
	"reopen":         (*Machine).Reopen,
	"submit":         (*Machine).Submit,
	"decide":         (*Machine).Decide,
	"order":          (*Machine).Order,
	"ordered":        (*Machine).Ordered,
	"end":            (*Machine).End,
	"condemn":        func(m *Machine) { m.Condemn(wire.Errorf(wire.CodeSerializationFailure, "lost")) },
	"spare":          func(m *Machine) { m.Condemn(nil) },
	"absolve":        (*Machine).Absolve,
	"alone":          (*Machine).Alone,
	"retry":          (*Machine).Retry,
	"fail":           (*Machine).Fail,
	"restore":        (*Machine).Restore,
	"reset":          (*Machine).Reset,
}

// show is a machine in one line.
func show(m *Machine) string {
	facts := []string{m.State().String(), string(m.Status())}
	for name, is := range map[string]bool{
		"open": m.Open(), "implicit": m.Implicit(), "has its snapshot": m.HasSnapshot(), "gone": m.Gone(),
		"condemned": m.Reason() != nil,
	} {
		if is {
			facts = append(facts, name)
		}
	}
	// The first two stand first; the others are few and sorted by the alphabet.
	for i := 2; i < len(facts); i++ {
		for j := i; j > 2 && facts[j] < facts[j-1]; j-- {
			facts[j], facts[j-1] = facts[j-1], facts[j]
		}
	}
	return strings.Join(facts, ", ")
}

// TestTranscripts plays the transactions of testdata, an event a line.
func TestTranscripts(t *testing.T) {
	datadriven.RunTest(t, "testdata/transactions.txt", func(t *testing.T, d *datadriven.TestData) string {
		var m Machine
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			name := strings.TrimSpace(line)
			event := events[name]
			if event == nil {
				d.Fatalf(t, "no event has the name %q", name)
			}
			event(&m)
			fmt.Fprintf(&out, "%-15s %s", name, show(&m))
			if m.Broken() != nil {
				fmt.Fprintf(&out, " (%v)", m.Broken())
				m.broken = nil
			}
			out.WriteByte('\n')
		}
		return out.String()
	})
}

// TestMoves shows the table of moves, so that a change of it is seen.
func TestMoves(t *testing.T) {
	datadriven.RunTest(t, "testdata/moves.txt", func(*testing.T, *datadriven.TestData) string {
		var out strings.Builder
		for from := range states {
			var to []string
			for s := range states {
				if moves[from].has(s) {
					to = append(to, s.String())
				}
			}
			fmt.Fprintf(&out, "%-10s → %s\n", from, strings.Join(to, " "))
		}
		return out.String()
	})
}

// TestReachable: each state is reached from idle, and idle from each (nothing is stuck).
func TestReachable(t *testing.T) {
	reach := func(from State) set {
		seen := of(from)
		for range states {
			for s := range states {
				if seen.has(s) {
					seen |= moves[s]
				}
			}
		}
		return seen
	}
	for s := range states {
		if !reach(Idle).has(s) {
			t.Errorf("%v is never reached", s)
		}
		if !reach(s).has(Idle) {
			t.Errorf("%v is never left", s)
		}
	}
}

// TestStrict: what breaks the table panics, or is kept until it is asked for, and the move happens.
func TestStrict(t *testing.T) {
	var m Machine
	m.Decide()
	if m.Broken() == nil || m.State() != Committing {
		t.Errorf("an idle transaction that commits is %v, and broken: %v", m.State(), m.Broken())
	}
	defer func() {
		if r := recover(); r == nil {
			t.Error("a strict machine does not panic")
		}
	}()
	strict := Machine{Strict: true}
	strict.Decide()
}

// TestInvariants plays random events. Whatever they are, what is asked of the machine agrees with its state (X2–X4).
func TestInvariants(t *testing.T) {
	names := make([]string, 0, len(events))
	for n := range events {
		names = append(names, n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var m Machine
		for range 12 {
			before := m
			name := names[r.IntN(len(names))]
			events[name](&m)
			if m.broken != nil { // such a machine ends
				break
			}
			if fault := unsound(&before, &m, name); fault != "" {
				t.Fatalf("%s: from %s\n to %s: %s", name, show(&before), show(&m), fault)
			}
		}
	}
}

// unsound says what does not agree after an event.
func unsound(before, m *Machine, event string) string {
	kinds := 0
	for _, is := range []bool{m.Idle(), m.Active(), m.Failed()} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return "it is not just one of idle, active and failed"
	case m.Open() != open.has(m.state):
		return "open is not what the state says (X2)"
	case m.Collected() && event != "collect" && !before.Collected():
		return "it is collected by itself (X3)"
	case m.snapshot && !m.Open():
		return "a snapshot outlives its transaction"
	case m.state == Doomed && m.reason == nil:
		return "it is doomed for no reason"
	case before.reason != nil && m.reason == nil && event != "absolve" && event != "spare" && event != "alone" &&
		event != "retry" && event != "reset":
		return "the reason is forgotten (X4)"
	case m.Gone() && m.state != Doomed && m.state != Lost:
		return "it is gone, and its state does not say so"
	case m.Idle() && m.state == Buffering:
		return "it buffers outside of a block"
	}
	return ""
}
