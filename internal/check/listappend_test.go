package check

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// parse reads a history, one transaction per line: session level outcome ops; where a1=2
// appends 2 to key 1 and r1=2,3 reads it. "final" lines are nodes' last reads.
func parse(t *testing.T, text string) ([]ListTransaction, ListOptions) {
	t.Helper()
	var h []ListTransaction
	var o ListOptions
	num := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for n, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.Fields(line)
		var ops []ListOp
		isFinal, from := f[0] == "final", 3
		if isFinal {
			from = 1
		}
		for _, w := range f[from:] {
			key, arg, _ := strings.Cut(w[1:], "=")
			op := ListOp{Key: num(key)}
			if w[0] == 'a' {
				op.Append = num(arg)
			} else if arg != "" {
				for _, x := range strings.Split(arg, ",") {
					op.Read = append(op.Read, num(x))
				}
			}
			ops = append(ops, op)
		}
		if isFinal {
			o.Final = append(o.Final, ops)
			continue
		}
		level, ok := map[string]Level{"rc": ReadCommitted, "si": Snapshot, "ser": Serializable}[f[1]]
		outcome, known := map[string]Outcome{"ok": OK, "fail": Fail, "info": Unknown}[f[2]]
		if !ok || !known {
			t.Fatalf("bad line %q", line)
		}
		h = append(h, ListTransaction{Session: int(num(f[0])), Level: level, Outcome: outcome, Ops: ops,
			Start: int64(10 * n), End: int64(10*n + 5)})
	}
	return h, o
}

// concurrent makes every transaction of the history overlap every other.
func concurrent(h []ListTransaction) {
	for i := range h {
		h[i].Start, h[i].End = 0, 1000
	}
}

func TestListAppend(t *testing.T) {
	for _, c := range []struct{ name, want, history string }{
		{"nothing wrong", "", `
			1 si ok a1=1
			2 si ok r1=1 a1=2
			3 si ok r1=1,2
			final r1=1,2
			final r1=1,2`},
		{"G2 needs all in the circle serializable", "", `
			1 ser ok r1= a2=1
			2 si ok r2= a1=2
			3 si ok r1=2 r2=1`},
		{"RC may build on an old read", "", `
			1 rc ok r1= a1=1
			2 rc ok r1= a1=2
			3 si ok r1=1,2`},
		{"RC statements may move", "", `
			1 rc ok a1=1
			2 rc ok r1= r1=1`},
		{"lost write", "lost write", `
			1 rc ok a1=1
			final r1=`},
		{"unknown may be lost", "", `
			1 rc info a1=1
			final r1=`},
		{"divergence", "divergence", `
			1 rc ok a1=1
			final r1=1
			final r1=`},
		{"appending twice spoils the test", "history", `
			1 rc ok a1=1
			2 rc ok a1=1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, o := parse(t, c.history)
			concurrent(h)
			expect(t, ListAppend(h, o), c.want)
		})
	}
}

// expect wants the first anomaly to be of a kind, or none.
func expect(t *testing.T, as []Anomaly, kind string) {
	t.Helper()
	got := ""
	if len(as) > 0 {
		got = as[0].Kind
	}
	if got != kind {
		t.Errorf("want %q, got %v", kind, as)
	}
}

func TestListAppendStrong(t *testing.T) {
	h, o := parse(t, `
		1 si ok a1=1
		2 si ok r1=
		3 si ok r1=1`)
	o.Strong = true
	expect(t, ListAppend(h, o), "G-single")
	concurrent(h)
	expect(t, ListAppend(h, o), "")
}

func TestAnomalyNamesTransactions(t *testing.T) {
	h, o := parse(t, `
		1 si ok a1=1
		2 si ok a2=2
		3 si ok r1=1 r2=
		4 si ok r1= r2=2
		5 si ok r1=1 r2=2`)
	a := ListAppend(h, o)[0]
	if len(a.Transactions) != 4 {
		t.Errorf("a long fork has four transactions: %v", a)
	}
}

// serial makes a correct history of n transactions over k keys.
func serial(n, k int) []ListTransaction {
	lists := make([][]uint64, k)
	h := make([]ListTransaction, n)
	x := uint64(1)
	for i := range h {
		h[i] = ListTransaction{Session: i % 20, Level: Serializable, Outcome: OK, Start: int64(i), End: int64(i)}
		for j := range 4 {
			x = x*6364136223846793005 + 1442695040888963407
			key := int(x>>33) % k
			op := ListOp{Key: uint64(key)}
			if j%2 == 0 {
				op.Append = uint64(4*i + j + 1)
				lists[key] = append(lists[key], op.Append)
			} else {
				op.Read = lists[key][:len(lists[key]):len(lists[key])]
			}
			h[i].Ops = append(h[i].Ops, op)
		}
	}
	return h
}

// A correct history with one read made stale must be noticed at every place.
func TestListAppendNoticesStaleReads(t *testing.T) {
	found := 0
	for i := 50; i < 150; i++ {
		h := serial(200, 5)
		op := &h[i].Ops[3]
		if len(op.Read) < 5 {
			t.Fatalf("transaction %d reads too little", i)
		}
		op.Read = op.Read[:len(op.Read)-4]
		if len(ListAppend(h, ListOptions{})) > 0 {
			found++
		}
	}
	if found != 100 {
		t.Errorf("found %d of 100 stale reads", found)
	}
}

func ExampleListAppend() {
	h := []ListTransaction{
		{Session: 1, Level: Snapshot, Outcome: OK, Ops: []ListOp{{Key: 1}, {Key: 1, Append: 1}}},
		{Session: 2, Level: Snapshot, Outcome: OK, Ops: []ListOp{{Key: 1}, {Key: 1, Append: 2}}},
		{Session: 3, Level: Snapshot, Outcome: OK, Ops: []ListOp{{Key: 1, Read: []uint64{1, 2}}}},
	}
	what, why, _ := strings.Cut(fmt.Sprint(ListAppend(h, ListOptions{})[0]), ", ")
	fmt.Printf("%s,\n%s\n", what, why)
	// Output:
	// lost update: key 1 was read up to 0 values,
	// but the append built on it came as number 2 (transactions [0 1])
}
