package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/check"
)

// recorded is the history of a short run in which everything was killed once and the leader was
// cut off once.
func recorded(t *testing.T) *History {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := ReadHistory(f)
	if err != nil {
		t.Fatal(err)
	}
	invented(h)
	return h
}

// Tags of what invented adds.
const (
	tagLarge = 1<<50 + iota
	tagLargeUnknown
	tagUpdate
	tagUpdateUnknown
	tagUpdateLost
	tagDelete
	tagDeleted
	tagSteps
	tagStepsBroken
	tagStepsLost
	tagTally
	tagTallyToo
	tagHit
	tagHitToo
	tagHitUnknown
	tagHitLost
	tagHitAll
	tagDraw
	tagDrawToo
	tagDrawLost
)

// invented adds large transactions, procedures, tallies and hits, which the recorded run had not: of each kind one that
// succeeded, one of which nobody knows, and one that was refused.
func invented(h *History) {
	add := func(workload string, tag, key int64, o check.Outcome, values ...int64) {
		h.Txs = append(h.Txs, Tx{Workload: workload, Node: 1, Tag: tag, Key: key, Outcome: o, Values: values})
	}
	add(wLarge, tagLarge, 0, check.OK, 100)
	add(wLarge, tagLargeUnknown, 0, check.Unknown, 100)
	add(wLarge, tagDeleted, 0, check.OK, 100)
	add(wLargeUpdate, tagUpdate, tagLarge, check.OK, 100, 100)
	add(wLargeUpdate, tagUpdateUnknown, tagLarge, check.Unknown, 0, 100)
	add(wLargeUpdate, tagUpdateLost, tagLarge, check.Fail, 100, 100)
	add(wLargeDelete, tagDelete, tagDeleted, check.OK, 100, 100)
	add(wSteps, tagSteps, 0, check.OK, 3, 3)
	add(wSteps, tagStepsBroken, 0, check.Unknown, 5, 2)
	add(wSteps, tagStepsLost, 0, check.Fail, 5, 0)
	add(wTally, tagTally, 0, check.OK, 1)
	add(wTally, tagTallyToo, 0, check.OK, 2)
	add(wHit, tagHit, 0, check.OK, 1, 100)
	add(wHit, tagHitToo, 0, check.OK, 2, 1000)
	add(wHit, tagHitUnknown, 0, check.Unknown, 1, 7)
	add(wHit, tagHitLost, 0, check.Fail, 1, 5)
	add(wHit, tagHitAll, 0, check.OK, 3, 50, 1)
	add(wDraw, tagDraw, 1, check.OK, 1)
	add(wDraw, tagDrawToo, 1, check.OK, 2)
	add(wDraw, tagDrawLost, 2, check.Fail, 1)
	for i := range h.States {
		h.States[i].Tallies = [][]int64{{tagTally, 1}, {tagTallyToo, 2}}
		s := &h.States[i]
		s.Hits = [][]int64{{1, 107, tagHitUnknown}, {2, 1000, tagHitToo}, {3, 50, tagHitAll}, {4, 0, 0}, {5, 0, 0},
			{6, 50, tagHitAll}}
		s.Slots = [][]int64{{1, 0}, {2, 0}, {3, tagHitAll}}
		s.Drawn, s.Draws = [][]int64{{1, 2}, {2, 0}}, [][]int64{{tagDraw, 1, 1}, {tagDrawToo, 1, 2}}
		s.Large = [][]int64{{tagLarge, 100, 2, 2}, {tagLargeUnknown, 100, 0, 0}}
		s.Steps = [][]int64{{tagSteps, 3, 3}, {tagStepsBroken, 3, 3}}
		s.Stepped = [][]int64{{6}}
	}
}

func TestJudgeRecorded(t *testing.T) {
	h := recorded(t)
	if len(h.States) != 3 || len(h.Txs) < 300 {
		t.Fatalf("%d transactions, %d nodes", len(h.Txs), len(h.States))
	}
	for _, p := range Judge(h) {
		t.Error(p)
	}
}

// find gives the first transaction that pleases.
func find(t *testing.T, h *History, what string, pleases func(*Tx) bool) *Tx {
	t.Helper()
	for i := range h.Txs {
		if pleases(&h.Txs[i]) {
			return &h.Txs[i]
		}
	}
	t.Fatalf("the recorded history has no %s", what)
	return nil
}

func acknowledged(t *testing.T, h *History, workload string) *Tx {
	t.Helper()
	return find(t, h, "acknowledged "+workload, func(x *Tx) bool {
		return x.Workload == workload &&
			x.Outcome == check.OK
	})
}

// without removes the row of a tag.
func without(rows *[][]int64, tag int64) {
	*rows = slices.DeleteFunc(*rows, func(r []int64) bool { return r[0] == tag })
}

// row finds the row of a tag.
func row(t *testing.T, rows [][]int64, tag int64) []int64 {
	t.Helper()
	i := slices.IndexFunc(rows, func(r []int64) bool { return r[0] == tag })
	if i < 0 {
		t.Fatalf("there is no row %d", tag)
	}
	return rows[i]
}

// removed has the second node have been removed and a fourth one joined in its place, and gives the tag of a transfer
// that the second one has acknowledged.
func removed(t *testing.T, h *History) int64 {
	t.Helper()
	for k := 1; k <= 3; k++ {
		h.Changes = append(h.Changes, Change{Node: k})
	}
	h.Changes = append(h.Changes, Change{Node: 2, At: 1, Removed: true}, Change{Node: 4, At: 2})
	h.States[1].Node = 4
	return find(t, h, "transfer of node2", func(x *Tx) bool {
		return x.Workload == wTransfer && x.Outcome == check.OK && x.Node == 2
	}).Tag
}

// TestJudgeMembers: a member that was removed needs no copy, and one that has joined has one.
func TestJudgeMembers(t *testing.T) {
	h := recorded(t)
	removed(t, h)
	for _, p := range Judge(h) {
		t.Error(p)
	}
}

// TestChangesAreKept: who came and went stands in the file that is judged again (K3).
func TestChangesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	r, err := newRecorder(path, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.change(4, false)
	r.change(2, true)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := ReadHistory(f)
	if err != nil || !slices.Equal(h.Changes, r.history.Changes) || len(h.Changes) != 2 || !h.Changes[1].Removed {
		t.Errorf("%+v, %v", h, err)
	}
}

// spoilings are what the judge must notice: each breaks the recorded history in one way.
var spoilings = []struct {
	name, want string
	spoil      func(t *testing.T, h *History)
}{
	{"one acknowledged row is deleted at one node", "lost commit: node2 lacks transfer",
		func(t *testing.T, h *History) {
			without(&h.States[1].Transfers, acknowledged(t, h, wTransfer).Tag)
		}},
	{"one acknowledged row is deleted at every node", "lost commit: node3 lacks child", func(t *testing.T, h *History) {
		tag := acknowledged(t, h, wChild).Tag
		for i := range h.States {
			without(&h.States[i].Children, tag)
		}
	}},
	{"an unknown row is at some nodes only", "divergence: node1 and node3 differ in table claim",
		func(t *testing.T, h *History) {
			tx := acknowledged(t, h, wClaim)
			tx.Outcome = check.Unknown
			without(&h.States[2].Claims, tx.Tag)
		}},
	{"a row is there twice", "twice: node1 holds claim", func(t *testing.T, h *History) {
		s := &h.States[0]
		s.Claims = append(s.Claims, s.Claims[3])
	}},
	{"a refused row is there", "refused row: node2 holds claim", func(t *testing.T, h *History) {
		x := find(t, h, "refused claim", func(x *Tx) bool { return x.Workload == wClaim && x.Outcome == check.Fail })
		h.States[1].Claims = append(h.States[1].Claims, []int64{x.Tag, 1 << 40})
	}},
	{"a row nobody sent is there", "unknown row: node3 holds parent", func(_ *testing.T, h *History) {
		h.States[2].Parents = append(h.States[2].Parents, []int64{1 << 40, 1 << 40, 1 << 40})
	}},
	{"a row has another content", "wrong row: node1 holds transfer", func(t *testing.T, h *History) {
		row(t, h.States[0].Transfers, acknowledged(t, h, wTransfer).Tag)[3]++
	}},
	{"money is missing", "balance: node2: account 7", func(_ *testing.T, h *History) { h.States[1].Accounts[7]-- }},
	{"a snapshot saw half a transfer", "sum: node",
		func(t *testing.T, h *History) { acknowledged(t, h, wSum).Values[0]++ }},
	{"a key has two owners", "unique: node1: key", func(_ *testing.T, h *History) {
		c := h.States[0].Claims
		c[1][1] = c[0][1]
	}},
	{"two were told that a key is theirs", "both acknowledged", func(t *testing.T, h *History) {
		a := acknowledged(t, h, wClaim)
		find(t, h, "second claim", func(x *Tx) bool {
			return x.Workload == wClaim && x.Outcome == check.OK &&
				x != a
		}).Key = a.Key
	}},
	{"a key is refused that nobody has", "refused for nothing", func(t *testing.T, h *History) {
		find(t, h, "refused claim", func(x *Tx) bool { return x.Workload == wClaim && x.Refused }).Key = 1 << 40
	}},
	{"an identity value is handed out twice", "serial: identity value", func(t *testing.T, h *History) {
		a := acknowledged(t, h, wParent)
		find(t, h, "second parent", func(x *Tx) bool {
			return x.Workload == wParent && x != a &&
				x.Values[0] > 0
		}).Values[0] = a.Values[0]
	}},
	{"a sequence value is handed out again, its transaction failed", "serial: sequence value",
		func(t *testing.T, h *History) {
			a := acknowledged(t, h, wParent)
			h.Txs = append(h.Txs, Tx{Workload: wParent, Tag: 1 << 40, Outcome: check.Fail,
				Values: []int64{1 << 40, a.Values[1]}})
		}},
	{"a child has no parent", "foreign key: node1", func(t *testing.T, h *History) {
		without(&h.States[0].Parents, h.States[0].Children[0][1])
	}},
	{"a deleted parent is there", "whose deletion was acknowledged", func(t *testing.T, h *History) {
		x := find(t, h, "deletion", func(x *Tx) bool { return x.Workload == wDelete && x.Outcome == check.OK })
		h.States[1].Parents = append(h.States[1].Parents, []int64{x.Key, 1 << 40, 1 << 40})
	}},
	{"two have locked each other out and taken one number", "have both taken number 1", func(t *testing.T, h *History) {
		row(t, h.States[1].Tallies, tagTallyToo)[1] = 1
	}},
	{"a number is left out", "has taken number 3 of 2",
		func(t *testing.T, h *History) { row(t, h.States[0].Tallies, tagTallyToo)[1] = 3 }},
	{"a hit is lost", "hits: node1: row 2 has 0", func(t *testing.T,
		h *History) {
		row(t, h.States[0].Hits, 2)[1] = 0
	}},
	{"a hit counts twice", "hits: node2: row 1 has 207",
		func(t *testing.T, h *History) { row(t, h.States[1].Hits, 1)[1] = 207 }},
	{"a part of a hit counts", "hits: node2: row 1 has 103",
		func(t *testing.T, h *History) { row(t, h.States[1].Hits, 1)[1] = 103 }},
	{"a hit that was refused was the last", "which did not",
		func(t *testing.T, h *History) { row(t, h.States[1].Hits, 1)[2] = tagHitLost }},
	{"half of a hit is lost", "hits: node1: row 6 has 0",
		func(t *testing.T, h *History) { row(t, h.States[0].Hits, 6)[1] = 0 }},
	{"a twin was hit alone", "hits: node3: row 5 has 1000",
		func(t *testing.T, h *History) { row(t, h.States[2].Hits, 5)[1] = 1000 }},
	{"a slot was hit alone", "hits: node2: row 4 was last hit by 0, and its slot by",
		func(t *testing.T, h *History) { row(t, h.States[1].Slots, 1)[1] = tagHitAll }},
	{"slots differ", "divergence: node1 and node2 differ in table slot",
		func(t *testing.T, h *History) { row(t, h.States[1].Slots, 1)[1] = tagHitAll }},
	{"hits differ", "divergence: node1 and node3 differ in table hit",
		func(t *testing.T, h *History) { copy(row(t, h.States[2].Hits, 1)[1:], []int64{100, tagHit}) }},
	{"two have drawn one number", "have both drawn number 1 of row 1",
		func(t *testing.T, h *History) { row(t, h.States[0].Draws, tagDrawToo)[2] = 1 }},
	{"a number was drawn that the row has not", "has drawn number 2 of row 1, which has 1",
		func(t *testing.T, h *History) { row(t, h.States[0].Drawn, 1)[1] = 1 }},
	{"a change of a row is not drawn", "row 2 has 1, and 0 numbers were drawn",
		func(t *testing.T, h *History) { row(t, h.States[2].Drawn, 2)[1] = 1 }},
	{"a draw is lost", "lost commit: node2 lacks draw",
		func(_ *testing.T, h *History) { without(&h.States[1].Draws, tagDraw) }},
	{"a draw shows another number than is there", "its client was told 9 of row 1", func(t *testing.T, h *History) {
		find(t, h, "draw", func(x *Tx) bool { return x.Workload == wDraw }).Values[0] = 9
	}},
	{"a refused draw is there", "draw", func(_ *testing.T, h *History) {
		h.States[0].Draws = append(h.States[0].Draws, []int64{tagDrawLost, 2, 1})
	}},
	{"a number is another than was told", "its client was told 7", func(t *testing.T, h *History) {
		find(t, h, "tally", func(x *Tx) bool { return x.Workload == wTally }).Values[0] = 7
	}},
	{"a large transaction is gone at one node", "lost commit: node2 lacks large",
		func(_ *testing.T, h *History) { without(&h.States[1].Large, tagLarge) }},
	{"a large transaction lacks a row", "torn: node1 holds 99 rows",
		func(t *testing.T, h *History) { row(t, h.States[0].Large, tagLarge)[1]-- }},
	{"an update of a large transaction left a row", "torn: node1: rows of large",
		func(t *testing.T, h *History) { row(t, h.States[0].Large, tagLarge)[2]-- }},
	{"an update of a large transaction is lost", "lost update: node3", func(t *testing.T, h *History) {
		copy(row(t, h.States[2].Large, tagLarge)[2:], []int64{0, 0})
	}},
	{"an update that was refused was made", "lost update: node3", func(t *testing.T, h *History) {
		copy(row(t, h.States[2].Large, tagLarge)[2:], []int64{3, 3})
	}},
	{"an update saw a part", "torn: large update", func(t *testing.T, h *History) {
		find(t, h, "update", func(x *Tx) bool { return x.Tag == tagUpdate }).Values[0]--
	}},
	{"a large transaction is there that was deleted", "lost commit: node1 holds large", func(_ *testing.T, h *History) {
		h.States[0].Large = append(h.States[0].Large, []int64{tagDeleted, 100, 0, 0})
	}},
	{"large transactions differ", "divergence: node1 and node2 differ in table large",
		func(_ *testing.T, h *History) { without(&h.States[1].Large, tagLargeUnknown) }},
	{"a step is lost that was told", "lost commit: node2 holds 1 steps", func(t *testing.T, h *History) {
		copy(row(t, h.States[1].Steps, tagStepsBroken)[1:], []int64{1, 1})
	}},
	{"the last step is lost", "lost commit: node2 holds 2 steps", func(t *testing.T, h *History) {
		copy(row(t, h.States[1].Steps, tagSteps)[1:], []int64{2, 2})
		find(t, h, "steps", func(x *Tx) bool { return x.Tag == tagSteps }).Values[1] = 2
	}},
	{"a step in the middle is lost", "torn: node3 holds 2 steps",
		func(t *testing.T, h *History) { row(t, h.States[2].Steps, tagSteps)[1]-- }},
	{"a step that nobody sent is there", "unknown row: node1 holds steps", func(_ *testing.T, h *History) {
		h.States[0].Steps = append(h.States[0].Steps, []int64{1 << 40, 1, 1})
	}},
	{"half a step is there", "sum: node1 holds 6 steps",
		func(_ *testing.T, h *History) { h.States[0].Stepped[0][0]++ }},
	{"a list lacks an acknowledged value", "lost write", func(_ *testing.T, h *History) {
		for i := range h.States {
			l := &h.States[i].Lists[0]
			l.Read = l.Read[:len(l.Read)-1]
		}
	}},
	{"a list has a value twice", "duplicate", func(_ *testing.T, h *History) {
		for i := range h.States {
			l := &h.States[i].Lists[1]
			l.Read = append(l.Read, l.Read[0])
		}
	}},
	{"a list has another order at one node", "divergence: node 2", func(_ *testing.T, h *History) {
		v := slices.Clone(h.States[2].Lists[0].Read)
		slices.Reverse(v)
		h.States[2].Lists[0].Read = v
	}},
	{"a list read misses a value in its middle", "incompatible order", func(t *testing.T, h *History) {
		x := find(t, h, "long read", func(x *Tx) bool {
			return x.Workload == wList && x.Outcome == check.OK &&
				longRead(x) >= 0
		})
		op := &x.Ops[longRead(x)]
		op.Read = slices.Delete(slices.Clone(op.Read), 1, 2)
	}},
	{"what a removed node has acknowledged is lost", "lost commit: node1 lacks transfer",
		func(t *testing.T, h *History) { without(&h.States[0].Transfers, removed(t, h)) }},
	{"who has joined lacks a row", "lost commit: node4 lacks transfer", func(t *testing.T, h *History) {
		removed(t, h)
		without(&h.States[1].Transfers, acknowledged(t, h, wTransfer).Tag)
	}},
	{"a removed node is compared", "removed: node2 was removed", func(t *testing.T, h *History) {
		removed(t, h)
		h.States[1].Node = 2
	}},
	{"who has joined is not compared", "no copy: node4 is a member", func(t *testing.T, h *History) {
		removed(t, h)
		h.States = slices.Delete(h.States, 1, 2)
	}},
	{"a failed append was read", "G1a", func(t *testing.T, h *History) {
		read := h.States[0].Lists[0].Read[0]
		find(t, h, "writer", func(x *Tx) bool {
			return x.Workload == wList &&
				x.Tag == int64(read>>3)
		}).Outcome = check.Fail
	}},
}

// longRead is the operation that read some values and appended nothing before; -1 if none.
func longRead(x *Tx) int {
	if i := slices.IndexFunc(x.Ops, func(o check.ListOp) bool { return o.Append != 0 || len(o.Read) > 3 }); i >= 0 &&
		x.Ops[i].Append == 0 {
		return i
	}
	return -1
}

// TestJudgeNotices spoils a good history in every way the judge is there to notice.
func TestJudgeNotices(t *testing.T) {
	for _, s := range spoilings {
		t.Run(s.name, func(t *testing.T) {
			h := recorded(t)
			s.spoil(t, h)
			if got := strings.Join(Judge(h), "\n"); !strings.Contains(got, s.want) {
				t.Errorf("want %q, got %q", s.want, got)
			}
		})
	}
}
