package replica

import (
	"slices"
	"testing"
)

func TestLease(t *testing.T) {
	for _, c := range []struct {
		name    string
		ordered []int64 // when that was proposed which has its place now
		now     int64
		since   int64
		over    bool
	}{
		{"nothing was ordered", nil, 0, 0, true},
		{"half a lease from the proposal", []int64{1000}, 1050, 0, false},
		{"longer", []int64{1000}, 1051, 0, true},
		{"from the last proposal", []int64{1000, 1040}, 1090, 0, false},
		{"they have their places in any order", []int64{1040, 1000}, 1090, 0, false},
		{"over, but not for so long", []int64{1000}, 1070, 20, false},
		{"over for so long", []int64{1000}, 1071, 20, true},
	} {
		l := NewLease(100)
		for _, at := range c.ordered {
			l.Ordered(at)
		}
		if got := l.Over(c.now, c.since); got != c.over {
			t.Errorf("%s: over is %v", c.name, got)
		}
	}
}

// TestRenewal: one at a time, and another one when half a lease has gone without an answer.
func TestRenewal(t *testing.T) {
	l := NewLease(100)
	for _, step := range []struct {
		now     int64
		needed  bool
		renewed bool // the one under way has its place by then
		want    bool
	}{
		{0, false, false, false},
		{5, true, false, true},
		{54, true, false, false}, // under way
		{55, true, false, true},  // half a lease later
		{60, true, true, true},   // it has its place
		{65, false, false, false},
		{70, true, false, true}, // needed again: what was under way does not count
	} {
		if step.renewed {
			l.Renewed()
		}
		if got := l.Renews(step.now, step.needed); got != step.want {
			t.Errorf("at %d: %v", step.now, got)
		}
	}
	if l.Over(105, 0) || !l.Over(106, 0) {
		t.Error("it does not last for half a lease from when the renewal was proposed")
	}
	m := NewLease(100)
	if m.Renewed(); !m.Over(0, 0) {
		t.Error("it is renewed by nothing")
	}
}

func TestWatch(t *testing.T) {
	a, b, self := Tenant{2, 1, 7}, Tenant{3, 1, 1}, Tenant{1, 1, 1}
	a2, a3 := Tenant{2, 1, 8}, Tenant{2, 2, 0}
	w := NewWatch(1, 100)
	for _, step := range []struct {
		name    string
		now     int64
		tenants []Tenant
		want    []Tenant
	}{
		{"seen first", 0, []Tenant{self, a}, nil},
		{"another", 50, []Tenant{self, a, b}, nil},
		{"nearly a lease", 99, []Tenant{self, a, b}, nil},
		{"a lease", 100, []Tenant{self, a, b}, []Tenant{a}},
		{"once only", 120, []Tenant{self, a, b}, nil},
		{"something came of it, of the other nothing", 150, []Tenant{self, a2, b}, []Tenant{b}},
		{"another life counts from its first sight", 200, []Tenant{self, a3, b}, nil},
		{"and has a lease of its own", 300, []Tenant{a3}, []Tenant{a3}},
		{"who had nothing for a while is seen anew", 400, nil, nil},
		{"and so has a whole lease", 401, []Tenant{b}, nil},
		{"this member is no matter", 900, []Tenant{self}, nil},
	} {
		if got := w.Look(step.now, step.tenants); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, not %v", step.name, got, step.want)
		}
	}
}
