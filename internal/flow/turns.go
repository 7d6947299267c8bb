package flow

// Turns decides how many transactions of a member that write may run at once while too many of them
// lose against other members' (Middle-R adapts its multiprogramming level so): what is certain to
// lose costs what others need. The zero value limits nothing. Not safe for concurrent use.
type Turns struct {
	limit int
	calm  int
}

// Outcomes is what happened in a short period.
type Outcomes struct {
	Won, Lost int
	Most      int  // transactions that ran at once
	Waited    bool // some for their turn
}

const (
	outcomesMin = 10 // of which a share is taken
	calmMax     = 20 // periods without waiting before the limit is lifted
)

// Next takes the outcomes of a period and gives the limit for the next; zero is none. percent is
// how many of a hundred may lose.
func (t *Turns) Next(o Outcomes, percent int) int {
	n := o.Won + o.Lost
	switch {
	case o.Waited || t.limit == 0:
		t.calm = 0
	default:
		if t.calm++; t.calm >= calmMax {
			t.limit, t.calm = 0, 0
		}
	}
	switch {
	case n < outcomesMin:
	case 100*o.Lost > percent*n:
		if t.limit == 0 {
			t.limit = o.Most
		}
		t.limit = max(1, min(t.limit-1, t.limit*3/4))
	case t.limit > 0 && 200*o.Lost < percent*n:
		t.limit++
	}
	return t.limit
}
