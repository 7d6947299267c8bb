package sites

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTree: the network is as the paper describes its own.
func TestTree(t *testing.T) {
	for _, diameter := range []int{22, 45, 90} {
		w := waysOf(tree, diameter)
		if len(w) != 7 {
			t.Fatalf("%d sites", len(w))
		}
		longest := int64(0)
		for a, row := range w {
			for b, ms := range row {
				if longest = max(longest, ms); ms != w[b][a] || (ms == 0) != (a == b) {
					t.Errorf("diameter %d: from site %d to %d: %d ms, and back %d", diameter, a+1, b+1, ms, w[b][a])
				}
			}
			if near := slices.Sorted(slices.Values(row))[len(row)/2]; diameter == paperDiameter && near < 11 {
				t.Errorf("site %d has a majority within %d ms", a+1, near)
			}
		}
		if longest != int64(diameter) {
			t.Errorf("diameter %d: the longest way takes %d ms", diameter, longest)
		}
	}
}

// TestFloor: what the protocol needs in the paper's network, by hand.
func TestFloor(t *testing.T) {
	w := waysOf(tree, paperDiameter)
	var every []int
	for k := range w {
		every = append(every, k)
	}
	best := bestFor(w, every...)
	if best != 3 {
		t.Fatalf("site %d is best for all", best+1)
	}
	for at, want := range []int64{
		62, // 31 to the leader, and back: the entry comes last, a majority's answers are there by then
		50 + 12, 42,
		22, // at the leader: the third of the others is 11 ms away
		36, 48, 42,
	} {
		if got := floor(w, best, at); got != want {
			t.Errorf("an update at site %d needs %d ms, want %d", at+1, got, want)
		}
	}
	for leader, want := range []bool{false, false, true, true, true, false, false} {
		if rests(w, leader) != want {
			t.Errorf("the lead rests at site %d: %v", leader+1, !want)
		}
	}
	if m := mover(w, best); m != 1 || bestFor(w, m) != 1 || floor(w, 1, 1) != 50 {
		t.Errorf("site %d gains most if %d leads: it needs %d ms then", m+1, bestFor(w, m)+1, floor(w, 1, 1))
	}
	if m := mover(w, 0); floor(w, bestFor(w, m), m) >= floor(w, 0, m) {
		t.Errorf("site %d gains nothing", m+1)
	}
}

func TestRules(t *testing.T) {
	w := waysOf(tree, paperDiameter)
	for k, row := range w {
		f := rulesFor(k, row)
		if _, self := f.Delay[uint32(k)+1]; self || len(f.Delay) != 6 {
			t.Errorf("site %d: %v", k+1, f)
		}
		for to, ms := range f.Delay {
			if int64(ms) != w[k][to-1] || to == uint32(k)+1 {
				t.Errorf("from site %d to site %d frames take %d ms", k+1, to, ms)
			}
		}
	}
}

func TestLeads(t *testing.T) {
	rows := []string{"node1|127.0.0.1:1|follower|synced", "node2|127.0.0.1:2|leader|synced", ""}
	if got := leads(rows); got != 1 {
		t.Errorf("site %d leads", got+1)
	}
	if got := leads(rows[:1]); got != -1 {
		t.Errorf("site %d leads, and nobody does", got+1)
	}
}

func TestMedian(t *testing.T) {
	for want, v := range map[time.Duration][]time.Duration{0: nil, 3: {3}, 4: {5, 3}, 5: {9, 5, 1}} {
		if got := median(v); got != want {
			t.Errorf("%v: %v, want %v", v, got, want)
		}
	}
}

// TestMeasured: without figures there is no ratio.
func TestMeasured(t *testing.T) {
	if m := measured(2, nil); m.Ratio != 0 || m.Leader != 3 {
		t.Errorf("%+v", m)
	}
}

// TestReport: ratios are to the protocol's delays, and what people read has every site.
func TestReport(t *testing.T) {
	took := []time.Duration{66 * time.Millisecond, 60 * time.Millisecond, 90 * time.Millisecond}
	a := at(1, 60, took[:1], took)
	if a.Site != 2 || a.Median != 66 || a.Least != 60 || a.Near != 66 || a.Updates != 3 || a.Ratio != 1.1 {
		t.Errorf("%+v", a)
	}
	if none := at(0, 0, nil, nil); none.Ratio != 0 || none.Median != 0 {
		t.Errorf("%+v", none)
	}
	r := Report{Ways: waysOf(tree, paperDiameter), Diameter: paperDiameter, Paper: paperMs,
		Idle: measured(3, []At{a, at(0, 20, nil, []time.Duration{30 * time.Millisecond})})}
	if r.Idle.Ratio != 96.0/80 || r.Idle.Leader != 4 {
		t.Errorf("%+v", r.Idle)
	}
	var out bytes.Buffer
	r.print(&out)
	for _, want := range []string{"7 sites, 45 ms", "site 4 leads",
		"   2                  60 ms          66.0 ms   1.10",
		"all: 1.20 of the delays; the paper's: 268 ms"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}

// TestWrite: what --json writes can be read again.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	r := Report{Diameter: 7, Lost: Lost{Site: 3, Equal: true}}
	if err := errors.Join(r.write(""), r.write(path)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil || back.Diameter != 7 || back.Lost != r.Lost {
		t.Errorf("%v: %s", err, b)
	}
}

func TestOptions(t *testing.T) {
	o := Defaults()
	if err := o.validate(); err != nil {
		t.Error(err)
	}
	o.Diameter, o.Updates = 0, 0
	if err := o.validate(); err == nil || !strings.Contains(err.Error(), "--diameter 0") ||
		!strings.Contains(err.Error(), "--updates 0") {
		t.Errorf("%v", err)
	}
}
