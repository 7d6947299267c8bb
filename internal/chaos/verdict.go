package chaos

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// judge looks at everything when nothing runs any more, and prints the verdict.
func (r *run) judge() {
	for _, n := range r.known() {
		if bad := n.accident(); bad != "" {
			r.problems = append(r.problems, fmt.Sprintf("log of %s: %s", n.name(), bad))
		}
	}
	for _, odd := range r.rec.odd[:min(tellMax, len(r.rec.odd))] {
		r.problems = append(r.problems, "an answer that may not be given: "+odd)
	}
	began := time.Now()
	r.problems = append(r.problems, Judge(&r.rec.history)...)
	fmt.Fprintf(r.out, "\n%d transactions judged in %.1f s; answers: %s\n", len(r.rec.history.Txs),
		time.Since(began).Seconds(), r.answers())
	rows, perFault := r.rec.measured(r.beats).measure(r.windows, r.rec.at, r.end)
	r.printGaps(rows)
	r.judgeGaps(perFault)
	r.printNodes()
	verdict, what := "PASS", "none lost, no anomaly, all copies equal"
	switch {
	case len(r.problems) > 0:
		verdict, what = "FAIL", "but:"
	case len(r.slow) > 0:
		verdict, what = "SLOW", what+", but:"
	}
	fmt.Fprintf(r.out, "\n%s  seed %d: %d faults, %d commits acknowledged, %s\n", verdict, r.o.Seed, len(r.windows),
		r.rec.counts["ok"], what)
	for _, p := range append(r.problems, r.slow...) {
		fmt.Fprintf(r.out, "  - %s\n", p)
	}
}

func (r *run) answers() string {
	var parts []string
	for code, n := range r.rec.counts {
		parts = append(parts, fmt.Sprintf("%s %d", code, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func (r *run) printGaps(rows []gaps) {
	slices.SortFunc(rows, func(a, b gaps) int { return strings.Compare(a.name(), b.name()) })
	fmt.Fprintln(r.out, "\nLongest time without a commit, by kind of fault:")
	w := tabwriter.NewWriter(r.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "FAULT\tTIMES\tSURVIVORS\tVICTIMS\tBACK AFTER\tONE ANSWER\tTHE MACHINE")
	for _, g := range rows {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", g.name(), g.count, seconds(g.survivors), seconds(g.victims),
			seconds(g.recovery), seconds(g.answer), seconds(g.machine))
	}
	_ = w.Flush() // out is a terminal or a buffer
	fmt.Fprintln(r.out, "SURVIVORS and VICTIMS: the longest time without a commit at one of these nodes. BACK AFTER: "+
		"from healing until every node has committed.")
	fmt.Fprintln(r.out, "ONE ANSWER: the longest a client of a survivor waited for a transaction. THE MACHINE: the "+
		"longest a program that only syncs a little file stood still.")
}

func (g gaps) name() string {
	if g.led && g.kind != "kill-all" {
		return g.kind + " (leader)"
	}
	return g.kind
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// judgeGaps compares with the limits, fault by fault. Without survivors there is none.
func (r *run) judgeGaps(perFault []gaps) {
	for i, g := range perFault {
		limit := r.o.GapOther
		if g.led && g.kind != "delay" && g.kind != "slow-fsync" { // those leave the leader where it is
			limit = r.o.GapLeader
		}
		if g.survivors > limit && g.machine > limit {
			fmt.Fprintf(r.out, "not judged: %s without a commit after fault #%d, %s, while the machine itself stood "+
				"still for %s\n",
				seconds(g.survivors), r.windows[i].fault.Number, g.name(), seconds(g.machine))
		} else if g.survivors > limit {
			r.slow = append(r.slow, fmt.Sprintf("clients of the survivors saw no commit for %s between fault #%d, "+
				"%s, and the next; the limit is %s (the machine itself stood still for %s)",
				seconds(g.survivors), r.windows[i].fault.Number, g.name(), seconds(limit), seconds(g.machine)))
		}
	}
}

// comings says who was a member for a time only.
func (r *run) comings() string {
	var joined []int
	for _, n := range r.known() {
		if n.k > r.o.Nodes {
			joined = append(joined, n.k)
		}
	}
	removed := numbersOf(r.inStages(stageRemoved))
	if len(joined)+len(removed) == 0 {
		return ""
	}
	return fmt.Sprintf("Joined: %s. Removed: %s.\n", nodeNames(joined), nodeNames(removed))
}

// printNodes shows what the nodes held, and how often they ended by themselves.
func (r *run) printNodes() {
	fmt.Fprintln(r.out, "\nNodes, idle before any load → idle at the end (most meanwhile):")
	w := tabwriter.NewWriter(r.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tMEMORY\tGROWTH IN THE LONGEST LIFE\tOPEN FILES\tGOROUTINES\tPOSTGRESQL PROCESSES\tENDED "+
		"BY ITSELF")
	for _, n := range r.members() {
		b, a, all := r.before[n.k], r.after[n.k], r.samples[n.k]
		perMinute, life := trend(all)
		change := func(of func(sample) int64) string {
			return fmt.Sprintf("%d → %d (%d)", of(b), of(a), most(all, of))
		}
		fmt.Fprintf(w, "%s\t%s MiB\t%+.1f MiB/min in %s\t%s\t%s\t%s\t%d\n", n.name(),
			change(func(s sample) int64 { return s.rss >> 20 }), perMinute, life.Round(time.Second),
			change(func(s sample) int64 { return int64(s.files) }),
			change(func(s sample) int64 { return int64(s.goroutines) }),
			change(func(s sample) int64 { return int64(s.backends) }), len(n.byItself()))
	}
	_ = w.Flush() // out is a terminal or a buffer
	fmt.Fprint(r.out, r.comings())
}
