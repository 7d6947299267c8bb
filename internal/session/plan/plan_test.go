package plan

import (
	"math/rand/v2"
	"testing"
)

// all is every fact.
const all = Facts(1<<FactsMax - 1)

// without is a set without some facts.
func without(s Facts, facts ...Fact) Facts { return s &^ Of(facts...) }

// TestRows goes through the table: each row wins where its facts and no more hold. Where one of them is missing the
// plan is another one, and says so, if the row is the first for its shape.
func TestRows(t *testing.T) {
	for i, r := range rows {
		f := r.shape | r.needs
		if p := Choose(f, 0); p.Kind != r.kind {
			t.Errorf("%v: with just its facts it is %v", r.kind, p)
		}
		if Allows(r.kind, f) != true {
			t.Errorf("%v is not allowed with its facts", r.kind)
		}
		for fact := None + 1; fact < FactsMax; fact++ {
			switch {
			case r.shape.Has(Of(fact)):
				if p := Choose(without(f, fact), 0); p.Kind == r.kind || p.Refused == r.kind && p.Because != None {
					t.Errorf("%v: it is not for statements without %d, and is chosen or refused: %v", r.kind, fact, p)
				}
			case r.needs.Has(Of(fact)):
				p := Choose(without(f, fact), 0)
				if p.Kind == r.kind || Allows(r.kind, without(f, fact)) {
					t.Errorf("%v: it is chosen although %s", r.kind, fact)
				}
				if first := firstFor(without(f, fact)); first == i && (p.Refused != r.kind || p.Because != fact) {
					t.Errorf("%v: without %d the plan is %v", r.kind, fact, p)
				}
			}
		}
	}
}

// TestInstead: a kind that was tried is no reason, and one that was not is.
func TestInstead(t *testing.T) {
	alone := without(all, Reads, InBlock, Open, Deferred)
	if p := Instead(Blind, alone); p != (Plan{Kind: Returning}) {
		t.Errorf("tried: %v", p)
	}
	if p := Instead(Blind, without(alone, Proven)); p != (Plan{Returning, Blind, Proven}) {
		t.Errorf("not tried: %v", p)
	}
}

// firstFor is the first row for statements of a shape.
func firstFor(f Facts) int {
	for i, r := range rows {
		if f.Has(r.shape) {
			return i
		}
	}
	return len(rows)
}

// TestChoose: what is chosen of statements as they come.
func TestChoose(t *testing.T) {
	write := without(all, Reads)
	inBlock, alone := without(write, Alone, Deferred), without(write, InBlock, Open, Deferred)
	read := without(all, Changes, Alone)
	for _, c := range []struct {
		name  string
		facts Facts
		tried Kinds
		want  Plan
	}{
		{"an UPDATE by key", alone, 0, Plan{Kind: Blind}},
		{"its row is not there", alone, Kinds(0).With(Blind), Plan{Kind: Returning}},
		{"at SERIALIZABLE", without(alone, Certified, ReadCommitted), 0, Plan{Plain, Blind, Certified}},
		{"at REPEATABLE READ", without(alone, ReadCommitted), 0, Plan{Kind: Blind}},
		{"two in a message", without(alone, Single), 0, Plan{Returning, Blind, Single}},
		{"for the first time", without(alone, Ready, Prepared, Proven, OwnRole), 0, Plan{Plain, Blind, Prepared}},
		{"for the second time", without(alone, Proven), 0, Plan{Returning, Blind, Proven}},
		{"with advisory locks", without(alone, Unlocked), 0, Plan{Returning, Blind, Unlocked}},
		{"in a block", inBlock, 0, Plan{Kind: Defer}},
		{"in a READ ONLY block", without(inBlock, MayWrite), 0, Plan{Delta, Defer, MayWrite}},
		{"behind a write", without(inBlock, Unwritten), 0, Plan{Delta, Defer, Unwritten}},
		{"behind one, not known", without(inBlock, Unwritten), Kinds(0).With(Delta), Plan{Returning, Defer, Unwritten}},
		{"behind captured rows", without(inBlock, Unwritten, Uncaptured), 0, Plan{Plain, Defer, Uncaptured}},
		{"behind a delta", without(inBlock, NothingAdded), 0, Plan{Delta, Defer, NothingAdded}},
		{"behind LOCK TABLE", without(inBlock, Unwritten, LocksNothing), 0, Plan{Returning, Defer, Unwritten}},
		{"at REPEATABLE READ in a block", without(inBlock, ReadCommitted), 0, Plan{Returning, Defer, ReadCommitted}},
		{"a block of one Query", without(inBlock, InBlock), 0, Plan{Kind: Returning}},
		{"a SELECT by key", read, 0, Plan{Kind: ReadThrough}},
		{"a SELECT before anything", without(read, Deferred), 0, Plan{Kind: Plain}},
		{"a SELECT behind a delta", without(read, NothingAdded), 0, Plan{Plain, ReadThrough, NothingAdded}},
		{"another SELECT", without(read, Reads), 0, Plan{Kind: Plain}},
		{"nothing", 0, 0, Plan{Kind: Plain}},
	} {
		if got := Choose(c.facts, c.tried); got != c.want {
			t.Errorf("%s: %v, %v refused because %s; want %v", c.name, got.Kind, got.Refused, got.Because, c.want)
		}
	}
}

// TestAlways: whatever holds there is a plan (P2), the same each time (P1), that its facts allow, and the reason
// against a better one is none that holds (P3).
func TestAlways(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[Kind]bool{}
	for range 200_000 {
		f := all
		for range r.IntN(8) {
			f &^= Of(Fact(1 + r.IntN(int(FactsMax)-1)))
		}
		tried := Kinds(r.Uint32()) & Kinds(r.Uint32())
		tried &^= 1 << Plain
		p := Choose(f, tried)
		if p != Choose(f, tried) || !Allows(p.Kind, f) || tried.Has(p.Kind) {
			t.Fatalf("of %b, tried %b: %v", f, tried, p)
		}
		if p.Because != None && (f.Has(Of(p.Because)) || tried.Has(p.Refused) || p.Refused >= p.Kind) {
			t.Fatalf("of %b, tried %b: %v is refused because %s", f, tried, p.Refused, p.Because)
		}
		seen[p.Kind] = true
	}
	if len(seen) != int(KindsMax) {
		t.Errorf("only %v were chosen", seen)
	}
	texts := map[string]bool{}
	for f := None + 1; f < FactsMax; f++ {
		texts[f.String()] = true
	}
	if len(texts) != int(FactsMax)-1 || texts[""] {
		t.Error("facts share a text, or have none")
	}
}
