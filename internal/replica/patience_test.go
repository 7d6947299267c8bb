package replica

import "testing"

// order is a submission as the engine knows it.
type order struct {
	sent              int
	back, undecided   bool
	behind            uint64
	withdrawn, looked bool
}

func (o *order) Sent(uint64) int       { o.looked = true; return o.sent }
func (o *order) Withdraw(uint64) bool  { o.withdrawn = o.back; return o.back }
func (o *order) Undecided(uint64) bool { return o.undecided }
func (o *order) Behind() uint64        { return o.behind }

func TestPatience(t *testing.T) {
	const begun, most = 100, 50
	for _, c := range []struct {
		name  string
		most  int64
		now   int64
		order order
		want  Wait
	}{
		{"it is not over yet", most, 149, order{back: true}, GoOn},
		{"not proposed", most, 150, order{back: true}, NotOrdered},
		{"proposed, without an answer", most, 150, order{undecided: true}, Unknown},
		{"decided, and about to be told", most, 150, order{}, GoOn},
		{"this member has yet to take in what is decided", most, 150, order{undecided: true, behind: 1}, GoOn},
		{"a large one leaves", most, 150, order{sent: 7, undecided: true}, GoOn},
		{"it waits for ever", 0, 1 << 40, order{back: true}, GoOn},
		{"less than nothing is for ever", -1, 1 << 40, order{back: true}, GoOn},
	} {
		p := NewPatience(begun, c.most)
		if at, ends := p.Next(); ends != (c.most > 0) || ends && at != begun+most {
			t.Errorf("%s: looks at %d, %v", c.name, at, ends)
		}
		if got := p.Look(c.now, &c.order, 1); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
		if c.order.withdrawn != (c.want == NotOrdered) {
			t.Errorf("%s: withdrawn is %v", c.name, c.order.withdrawn)
		}
	}
}

// TestPatienceGoesOn: what goes on is looked at again after as long, and no sooner.
func TestPatienceGoesOn(t *testing.T) {
	p, o := NewPatience(0, 50), &order{sent: 7, undecided: true}
	for _, step := range []struct {
		now  int64
		sent int
		want Wait
	}{
		{70, 7, GoOn},     // some has left; it was looked at late
		{99, 7, GoOn},     // not yet
		{100, 8, GoOn},    // more has left
		{260, 9, GoOn},    // more has left; it was looked at very late
		{299, 9, GoOn},    // not yet
		{301, 9, Unknown}, // nothing any more
	} {
		o.sent = step.sent
		if got := p.Look(step.now, o, 1); got != step.want {
			t.Errorf("at %d with %d bytes sent: %d, not %d", step.now, step.sent, got, step.want)
		}
	}
}
