package membership

import (
	"context"
	"fmt"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
)

// TestAwaitLeave: a member that was removed leaves when it gets no log any more, or when it has been refused for long;
// not while it begins, nor because nobody is there.
func TestAwaitLeave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct { // order-free: each for itself
		sees  []Seen // one look after the other, the last one for ever
		least int    // looks
	}{
		"left out":            {[]Seen{{Runs: true, Gets: true}, {Runs: true}}, 2},
		"it begins, left out": {[]Seen{{}, {}, {}, {Runs: true}}, 4},
		"it is refused":       {[]Seen{{Runs: true, Gets: true}, {Runs: true, Gets: true, Refuse: 1}}, 10},
		"it begins, refused":  {[]Seen{{}, {Refuse: 1}}, 10},
		"one of three talks":  {[]Seen{{Runs: true, Gets: true, Refuse: 2, Connected: 1}}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks := 0
			left := AwaitLeave(context.Background(), func() Seen {
				looks++
				return c.sees[min(looks, len(c.sees))-1]
			})
			if !left || looks < c.least {
				t.Errorf("it left after %d looks: %t", looks, left)
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*leftOutAfter)
	defer cancel()
	looks := 0
	if AwaitLeave(ctx, func() Seen {
		looks++
		return Seen{Runs: true, Gets: true, Refuse: min(looks%8, 1)} // now and then somebody talks to it
	}) {
		t.Error("one left that may be needed")
	}
	if (Seen{Runs: true, Gets: true, Refuse: 1, Connected: 1}).LeftOut() {
		t.Error("one is left out with whom as many talk")
	}
}

// TestAddresses: a member talks to the members, and to those that were removed as long as they get a log.
func TestAddresses(t *testing.T) {
	c := &config.Config{Member: 1, SequenceStep: 16, Cluster: "c", DataDir: "d", Secret: "a secret of some length",
		Listen: "h:0", MemberListen: "h:1",
		Members: append([]config.Member{{Member: 3, Name: "c", Address: "c:1"}}, first...)}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(Addresses(c, []uint32{1, 2, 3})); got != "map[2:b:1 3:c:1]" {
		t.Errorf("as configured: %s", got)
	}
	c.Becomes(&config.Roster{Members: []config.Member{first[1], {Member: 4, Name: "d", Address: "d:1"}},
		Gone: []config.Member{first[0]}})
	for want, readers := range map[string][][]uint32{ // order-free: each for itself
		"map[4:d:1]":             {{1, 4}, {4}},
		"map[2:b:1 4:d:1]":       {{1, 4}, {1, 2, 4}},
		"map[2:b:1 3:c:1 4:d:1]": {{2}, {3}},
		"map[4:d:1] ":            {{9}},
	} {
		if got := fmt.Sprint(Addresses(c, readers...)); got != want && got+" " != want {
			t.Errorf("with readers %v: %s, want %s", readers, got, want)
		}
	}
}
