package plan

// Kind is a way to carry out a statement.
type Kind uint8

// Kinds, the cheapest ones first.
const (
	Blind       Kind = iota // ordered as it is, and carried out by every member's applier
	Defer                   // answered, and carried out like that with the block's COMMIT
	Delta                   // answered, and added to the row behind the verdict
	ReadThrough             // run as if what was deferred had been done
	Returning               // run by the backend, and returns what it changes
	Plain                   // run by the backend as it is; what it writes is captured

	// KindsMax is how many there are.
	KindsMax
)

var names = [KindsMax]string{"blind", "deferred", "delta", "read-through", "returning", "plain"}

func (k Kind) String() string { return names[k] }

// Kinds is a set of kinds.
type Kinds uint8

// With is the set with one more.
func (s Kinds) With(k Kind) Kinds { return s | 1<<k }

// Has reports whether a kind is in the set.
func (s Kinds) Has(k Kind) bool { return s&(1<<k) != 0 }

// Plan is what was chosen.
type Plan struct {
	Kind    Kind
	Refused Kind // the best kind for statements of this shape, if Because says why it was refused
	Because Fact // what it needs that does not hold; None if there is no better kind, or it was tried
}

// row is a line of the table.
type row struct {
	kind  Kind
	shape Facts // of what statements it is for
	needs Facts
}

// What a write by key needs to be carried out unseen, or put off, wherever it stands.
var unseen = Of(Single, Unnamed, AllRows, Prepared, Proven, OwnRole, Known, Direct, UTF8, Unlocked)

// rows is the table.
var rows = [...]row{
	{Blind, Of(Changes, Alone), unseen | Of(Certified)},
	{Defer, Of(Changes, InBlock), unseen | Of(ReadCommitted, MayWrite, Uncaptured, FirstTry, Unwritten, Undefined,
		Uncollected, NothingAdded, RoomToDefer, Noted, NotAgain, Affordable)},
	{Delta, Of(Changes, InBlock), Of(Single, Unnamed, AllRows, Ready, Kept, Direct, UTF8, Unlocked, Current, Settled,
		ReadCommitted, Certified, Open, Uncaptured, FirstTry, Undefined, Uncollected, LocksNothing, RoomToAdd)},
	{ReadThrough, Of(Reads, Deferred), Of(Known, Direct, UTF8, Current, Settled, NothingAdded, Repeatable)},
	{Returning, Of(Changes), Of(Ready, Direct, UTF8, Certified, Uncaptured)},
	{Plain, 0, 0},
}

// Allows reports whether a statement of which these facts hold can be carried out in a way.
func Allows(k Kind, f Facts) bool {
	for _, r := range rows {
		if r.kind == k {
			return f.Has(r.shape | r.needs)
		}
	}
	return false
}

// Choose gives the plan of a statement of which these facts hold, if some kinds were tried in vain.
func Choose(f Facts, tried Kinds) Plan {
	p := Plan{Kind: Plain}
	for _, r := range rows {
		switch missing := r.needs &^ f; {
		case !f.Has(r.shape) || tried.Has(r.kind):
		case missing == 0:
			p.Kind = r.kind
			return p
		case p.Because == None:
			p.Refused, p.Because = r.kind, missing.first()
		}
	}
	return p
}

// Instead is Choose if a kind was tried in vain where these facts allow it.
func Instead(k Kind, f Facts) Plan {
	var tried Kinds
	if Allows(k, f) {
		tried = tried.With(k)
	}
	return Choose(f, tried)
}
