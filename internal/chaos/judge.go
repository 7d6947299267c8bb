package chaos

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tuttidb/tutti/internal/check"
)

// judge checks a history. It knows nothing but what stands in it (K3).
type judge struct {
	h        *History
	fate     map[string]map[int64]*Tx // by workload and tag
	problems []string
	counts   map[string]int // problems of each sort
}

// tellMax bounds how many problems of one sort are told.
const tellMax = 5

// Judge returns what is wrong with a history.
func Judge(h *History) []string {
	j := &judge{h: h, fate: map[string]map[int64]*Tx{}, counts: map[string]int{}}
	for i := range h.Txs {
		t := &h.Txs[i]
		if j.fate[t.Workload] == nil {
			j.fate[t.Workload] = map[int64]*Tx{}
		}
		j.fate[t.Workload][t.Tag] = t
	}
	for i := range h.States {
		s := &h.States[i]
		j.transfers(s)
		j.claims(s)
		j.parents(s)
		j.larges(s)
		j.steps(s)
		j.tallies(s)
		j.hits(s)
		j.draws(s)
	}
	j.copies()
	j.same()
	j.sums()
	j.winners()
	j.serials()
	j.lists()
	j.changes()
	for _, sort := range slices.Sorted(maps.Keys(j.counts)) {
		if n := j.counts[sort]; n > tellMax {
			j.problems = append(j.problems, fmt.Sprintf("%s: %d more like this", sort, n-tellMax))
		}
	}
	return j.problems
}

func (j *judge) add(sort, format string, args ...any) {
	if j.counts[sort]++; j.counts[sort] <= tellMax {
		j.problems = append(j.problems, sort+": "+fmt.Sprintf(format, args...))
	}
}

// present checks that a table holds each acknowledged row once and no failed one (K2). gone
// says that a row may or must have been deleted since.
func (j *judge) present(s *State, workload string, rows [][]int64, gone map[int64]check.Outcome) {
	there := map[int64]bool{}
	for _, row := range rows {
		tag := row[0]
		t := j.fate[workload][tag]
		deleted, touched := gone[tag]
		switch {
		case there[tag]:
			j.add("twice", "node%d holds %s %d twice", s.Node, workload, tag)
		case t == nil:
			j.add("unknown row", "node%d holds %s %d, which nobody sent", s.Node, workload, tag)
		case t.Outcome == check.Fail:
			j.add("refused row", "node%d holds %s %d, which was refused with %q", s.Node, workload, tag, t.Code)
		case touched && deleted == check.OK:
			j.add("lost commit", "node%d holds %s %d, whose deletion was acknowledged", s.Node, workload, tag)
		}
		there[tag] = true
	}
	for tag, t := range j.fate[workload] {
		if _, touched := gone[tag]; t.Outcome == check.OK && !there[tag] && !touched {
			j.add("lost commit", "node%d lacks %s %d, acknowledged at node%d after %.3f s", s.Node, workload, tag,
				t.Node, float64(t.End)/1e9)
		}
	}
}

// transfers checks the money of one node against its own rows and the clients.
func (j *judge) transfers(s *State) {
	j.present(s, wTransfer, s.Transfers, nil)
	want := map[int]int64{}
	for id := range s.Accounts {
		want[id] = accountInitial
	}
	for _, row := range s.Transfers {
		if t := j.fate[wTransfer][row[0]]; t != nil && !slices.Equal(row[1:], t.Values) {
			j.add("wrong row", "node%d holds transfer %d as %v, it was sent as %v", s.Node, row[0], row[1:], t.Values)
		}
		want[int(row[1])] -= row[3]
		want[int(row[2])] += row[3]
	}
	if len(s.Accounts) != accounts {
		j.add("balance", "node%d holds %d accounts, not %d", s.Node, len(s.Accounts), accounts)
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if s.Accounts[id] != want[id] {
			j.add("balance", "node%d: account %d has %d, its transfers say %d", s.Node, id, s.Accounts[id], want[id])
		}
	}
}

// sums: every snapshot holds the same money.
func (j *judge) sums() {
	for tag, t := range j.fate[wSum] {
		if t.Outcome == check.OK && t.Values[0] != accounts*accountInitial {
			j.add("sum", "node%d at %.3f s, transaction %d: all accounts together have %d, not %d", t.Node,
				float64(t.Start)/1e9, tag, t.Values[0], accounts*accountInitial)
		}
	}
}

// claims: on each node a key belongs to one transaction.
func (j *judge) claims(s *State) {
	j.present(s, wClaim, s.Claims, nil)
	owner := map[int64]int64{}
	for _, row := range s.Claims {
		tag, key := row[0], row[1]
		if other, ok := owner[key]; ok {
			j.add("unique", "node%d: key %d belongs to %d and to %d", s.Node, key, other, tag)
		}
		owner[key] = tag
		if t := j.fate[wClaim][tag]; t != nil && t.Key != key {
			j.add("wrong row", "node%d holds claim %d with key %d, it was sent with %d", s.Node, tag, key, t.Key)
		}
	}
	for tag, t := range j.fate[wClaim] {
		if _, ok := owner[t.Key]; t.Refused && !ok {
			j.add("refused for nothing", "claim %d at node%d was told that key %d is taken, but node%d does not "+
				"hold it", tag, t.Node, t.Key, s.Node)
		}
	}
}

// winners: at most one claim of a key was acknowledged.
func (j *judge) winners() {
	winner := map[int64]int64{}
	for tag, t := range j.fate[wClaim] {
		if t.Outcome != check.OK {
			continue
		}
		if other, ok := winner[t.Key]; ok {
			j.add("unique", "key %d was given to %d and to %d, both acknowledged", t.Key, min(tag, other),
				max(tag, other))
		}
		winner[t.Key] = tag
	}
}

// parents checks parents, children, and what was deleted.
func (j *judge) parents(s *State) {
	gone := map[int64]check.Outcome{} // parents whose deletion was acknowledged, or may have happened
	for _, t := range j.fate[wDelete] {
		if t.Outcome != check.Fail && gone[t.Key] != check.OK {
			gone[t.Key] = t.Outcome
		}
	}
	j.present(s, wParent, s.Parents, gone)
	j.present(s, wChild, s.Children, nil)
	there := map[int64]bool{}
	for _, row := range s.Parents {
		there[row[0]] = true
		if t := j.fate[wParent][row[0]]; t != nil && t.Outcome == check.OK && !slices.Equal(row[1:], t.Values) {
			j.add("wrong row", "node%d holds parent %d with numbers %v, its client was told %v", s.Node, row[0],
				row[1:], t.Values)
		}
	}
	for _, row := range s.Children {
		if !there[row[1]] {
			j.add("foreign key", "node%d: child %d has no parent %d", s.Node, row[0], row[1])
		}
		if t := j.fate[wChild][row[0]]; t != nil && t.Key != row[1] {
			j.add("wrong row", "node%d holds child %d of parent %d, it was sent with %d", s.Node, row[0], row[1], t.Key)
		}
	}
}

// larges: a large transaction is there with all its rows, and all of them have seen the same updates.
func (j *judge) larges(s *State) {
	gone := map[int64]check.Outcome{}
	for _, t := range j.fate[wLargeDelete] {
		if t.Outcome != check.Fail && gone[t.Key] != check.OK {
			gone[t.Key] = t.Outcome
		}
	}
	j.present(s, wLarge, s.Large, gone)
	sure, most := map[int64]int64{}, map[int64]int64{}
	for _, t := range j.fate[wLargeUpdate] {
		if t.Outcome != check.Fail {
			most[t.Key]++
		}
		if t.Outcome == check.OK {
			sure[t.Key]++
		}
	}
	for _, row := range s.Large {
		tag, rows, least, greatest := row[0], row[1], row[2], row[3]
		if t := j.fate[wLarge][tag]; t != nil && t.Values[0] != rows {
			j.add("torn", "node%d holds %d rows of large transaction %d, which has %d", s.Node, rows, tag, t.Values[0])
		}
		if least != greatest {
			j.add("torn", "node%d: rows of large transaction %d were updated %d to %d times", s.Node, tag, least,
				greatest)
		}
		if greatest < sure[tag] || greatest > most[tag] {
			j.add("lost update", "node%d: large transaction %d was updated %d times, of %d acknowledged and %d tried",
				s.Node, tag, greatest, sure[tag], most[tag])
		}
	}
}

// changes: a statement changes all rows of a large transaction.
func (j *judge) changes() {
	for _, workload := range []string{wLargeUpdate, wLargeDelete} {
		for tag, t := range j.fate[workload] {
			if t.Outcome == check.OK && t.Values[0] != t.Values[1] {
				j.add("torn", "%s %d at node%d changed %d of the %d rows of %d", workload, tag, t.Node, t.Values[0],
					t.Values[1], t.Key)
			}
		}
	}
}

// steps: of what a procedure has committed step by step, a beginning is there, and as much of it as its client was
// told.
func (j *judge) steps(s *State) {
	there := map[int64]int64{}
	all := int64(0)
	for _, row := range s.Steps {
		tag, n, last := row[0], row[1], row[2]
		there[tag] = n
		all += n
		t := j.fate[wSteps][tag]
		switch {
		case t == nil:
			j.add("unknown row", "node%d holds steps of %d, which nobody sent", s.Node, tag)
		case n != last || n > t.Values[0]:
			j.add("torn", "node%d holds %d steps of procedure %d up to the %dth, it has %d", s.Node, n, tag, last,
				t.Values[0])
		}
	}
	for tag, t := range j.fate[wSteps] {
		if n := there[tag]; n < t.Values[1] || t.Outcome == check.OK && n < t.Values[0] {
			j.add("lost commit", "node%d holds %d steps of procedure %d, %d of %d were told, and in the end %q", s.Node,
				n, tag, t.Values[1], t.Values[0], t.Code)
		}
	}
	for _, row := range s.Stepped {
		if row[0] != all {
			j.add("sum", "node%d holds %d steps, and has counted %d", s.Node, all, row[0])
		}
	}
}

// serials: no number was handed out twice, whatever became of the transaction.
func (j *judge) serials() {
	for place, what := range []string{"identity", "sequence"} {
		owner := map[int64]int64{}
		take := func(number, tag int64) {
			if other, ok := owner[number]; ok && other != tag {
				j.add("serial", "%s value %d was given to %d and to %d", what, number, min(tag, other), max(tag, other))
			}
			owner[number] = tag
		}
		for tag, t := range j.fate[wParent] {
			if t.Values[place] != 0 {
				take(t.Values[place], tag)
			}
		}
		for i := range j.h.States {
			for _, row := range j.h.States[i].Parents {
				take(row[1+place], row[0])
			}
		}
	}
}

// copies: of who is a member in the end there is a state, and of nobody else.
func (j *judge) copies() {
	is := map[int]bool{}
	for _, c := range j.h.Changes {
		is[c.Node] = !c.Removed
	}
	for i := range j.h.States {
		k := j.h.States[i].Node
		if member, told := is[k]; told && !member {
			j.add("removed", "node%d was removed, and its copy is compared", k)
		}
		delete(is, k)
	}
	for _, k := range slices.Sorted(maps.Keys(is)) {
		if is[k] {
			j.add("no copy", "node%d is a member in the end, and its copy was not read", k)
		}
	}
}

// same: all nodes hold the same, unknown outcomes included.
func (j *judge) same() {
	for i := range j.h.States {
		first, s := &j.h.States[0], &j.h.States[i]
		for _, c := range []struct {
			what string
			a, b [][]int64
		}{
			{wTransfer, first.Transfers, s.Transfers}, {wClaim, first.Claims, s.Claims},
			{wParent, first.Parents, s.Parents}, {wChild, first.Children, s.Children},
			{wLarge, first.Large, s.Large}, {wSteps, first.Steps, s.Steps}, {wTally, first.Tallies, s.Tallies},
			{wHit, first.Hits, s.Hits}, {"slot", first.Slots, s.Slots},
			{"drawn", first.Drawn, s.Drawn}, {wDraw, first.Draws, s.Draws},
		} {
			if !slices.EqualFunc(c.a, c.b, slices.Equal[[]int64]) {
				j.add("divergence", "node%d and node%d differ in table %s", first.Node, s.Node, c.what)
			}
		}
	}
}

// lists hands the list-append history to the checker.
func (j *judge) lists() {
	var h []check.ListTransaction
	var from []int // transactions of h in the history
	for i := range j.h.Txs {
		t := &j.h.Txs[i]
		if t.Workload == wList {
			h = append(h, check.ListTransaction{Session: t.Session, Level: t.Level, Outcome: t.Outcome, Ops: t.Ops,
				Start: t.Start, End: t.End})
			from = append(from, i)
		}
	}
	o := check.ListOptions{}
	for i := range j.h.States {
		o.Final = append(o.Final, j.h.States[i].Lists)
	}
	for _, a := range check.ListAppend(h, o) {
		var tags []int64
		for _, i := range a.Transactions {
			tags = append(tags, j.h.Txs[from[i]].Tag)
		}
		j.add(a.Kind, "%s (transactions %v)", a.Text, tags)
	}
}
