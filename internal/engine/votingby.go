package engine

import "github.com/tuttidb/tutti/internal/quorum"

// By says how many copies there are to be of what is acknowledged, and after how many ticks of silence a voter is gone
// (Options.Copies, Options.GoneTicks). If that has changed, the rule begins anew.
func (v *Voting) By(copies, goneTicks int) {
	if copies == v.o.Copies && goneTicks == v.o.GoneTicks {
		return
	}
	v.o.Copies, v.o.GoneTicks = copies, goneTicks
	slow := v.rule.Slow()
	v.rule, v.hands, v.first = quorum.New(goneTicks, copies), 0, false
	v.rule.SlowAfter(v.o.SlowTicks)
	v.rule.Inherit(slow)
	v.order.Alone(copies == 1)
}

// Paces says how fast the members carry out what is ordered, and which of them are far too slow, as the leader has told
// last.
func (v *Voting) Paces(paces map[uint32]quorum.Pace, told []quorum.Slow) {
	v.paces, v.told = paces, told
}

// Slow lists the members that are far too slow, by the rule, if this member leads and so decides that.
func (v *Voting) Slow() (list []quorum.Slow, decides bool) {
	never := v.fixed || v.o.GoneTicks <= 0
	return v.rule.Slow(), v.leads || never && v.order.View().Leader == v.o.Member
}
