package intent

import (
	"fmt"
	"testing"
)

// never is what inVain says of tables whose writers nobody has waited for.
func never(int) bool { return false }

// TestBlindGivesWay (C2): every use of a table beside a blind transaction of two tables.
func TestBlindGivesWay(t *testing.T) {
	tables := []string{"v", "t"}
	for _, c := range []struct {
		use        Use
		table      string
		may, must  Answer
		afterwards Answer // if to wait for writers of t was in vain
	}{
		{Lock, "t", Refused, Refused, Refused}, {Lock, "v", Refused, Refused, Refused},
		{Lock, "", Refused, Refused, Refused}, {Lock, "u", Goes, Goes, Goes},
		{Write, "t", Waits, Goes, Refused}, {Write, "v", Waits, Goes, Waits},
		{Write, "", Waits, Goes, Refused}, {Write, "u", Goes, Goes, Goes},
		{Add, "t", Goes, Goes, Goes}, {Add, "u", Goes, Goes, Goes},
	} {
		var all Claims
		var other Claim
		all.Note(&other, c.use, c.table)
		ask := func(what string, must bool, inVain func(int) bool, want Answer) {
			t.Helper()
			var x Claim
			got := all.Blind(&x, tables, must, inVain)
			if got != want || x.Has(Add) != (want == Goes) {
				t.Errorf("beside use %d of %q, %s: %s, want %s", c.use, c.table, what, got, want)
			}
			all.End(&x)
		}
		ask("it may", false, never, c.may)
		ask("it must", true, never, c.must)
		ask("it has waited in vain", false, func(i int) bool { return tables[i] == "t" }, c.afterwards)
		if fewer := all.End(&other); fewer != (c.use == Write) || !all.Quiet() {
			t.Errorf("the end of use %d of %q: fewer writers %v", c.use, c.table, fewer)
		}
		ask("the other has ended", false, never, Goes)
	}
}

// TestClaims (C1): a use counts from when it is noted until its transaction ends, however often it was noted, and
// whatever others do.
func TestClaims(t *testing.T) {
	var all Claims
	var one, two Claim
	say := func(want string) {
		t.Helper()
		got := ""
		for _, u := range []Use{Lock, Write, Add} {
			for _, table := range []string{"t", "u", ""} {
				if all.On(u, table) {
					got += fmt.Sprint(u, table, " ")
				}
			}
		}
		if got != want {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	say("")
	for range 3 {
		all.Note(&one, Write, "t")
	}
	all.Note(&one, Lock, "t")
	all.Note(&two, Write, "t")
	all.Note(&two, Add, "u")
	say("0t 0 1t 1 2u 2 ")
	if all.Quiet() {
		t.Error("two write, and nobody is seen")
	}
	if !all.End(&one) {
		t.Error("the end of a writer is not told")
	}
	say("1t 1 2u 2 ")
	all.Note(&one, Lock, "")
	say("0t 0u 0 1t 1 2u 2 ")
	if all.End(&one) {
		t.Error("the end of a writer is told twice")
	}
	all.End(&two)
	say("")
	if all.End(&two); !all.Quiet() || all.On(Write, "") {
		t.Error("a transaction that has ended twice is counted")
	}
}
