package engine

import "github.com/tuttidb/tutti/internal/quorum"

// By says how many copies there are to be of what is acknowledged, and after how many ticks of silence a voter is gone
// (Options.Copies, Options.GoneTicks). If that has changed, the rule begins anew.
func (v *Voting) By(copies, goneTicks int) {
	if copies == v.o.Copies && goneTicks == v.o.GoneTicks {
		return
	}
	v.o.Copies, v.o.GoneTicks = copies, goneTicks
	v.rule, v.hands, v.first = quorum.New(goneTicks, copies), 0, false
	v.order.Alone(copies == 1)
}
