package semantics

import (
	"fmt"
	"testing"
)

// TestMembership: what changes the list of members is a definition that stands alone; what is not written as a literal,
// or too much, is refused; other procedures are none of Tutti's.
func TestMembership(t *testing.T) {
	for sql, want := range map[string]string{ // order-free: each for itself
		"CALL tutti.add_member('d', 'h:1')":               "true 1 d h:1 ",
		"CALL tutti.add_member('d', 'h:1', 'h:2')":        "true 1 d h:1 h:2",
		"call Tutti.Remove_Member(' d ')":                 "true 2 d  ",
		"CALL tutti.move_member('d', 'h:1'::text)":        "true 3 d h:1 ",
		"CALL tutti.add_member('d')":                      "42883",
		"CALL tutti.add_member('d', 'h:1', 'h:2', 'h:3')": "42883",
		"CALL tutti.remove_member($1)":                    "42883",
		"CALL tutti.remove_member(current_user)":          "42883",
		"CALL add_member('d', 'h:1')":                     "false 0   ",
		"CALL tutti.another('d', 'h:1')":                  "0A000",
		"SELECT tutti.add_member('d', 'h:1')":             "0A000",
	} {
		s := Classify(sql)[0]
		m := s.Cluster.Membership
		got := fmt.Sprint(s.Kind == Definition && s.Shared && s.Alone != "", " ", int(m.Does), " ", m.Name, " ",
			m.Address, " ", m.Clients)
		if s.Kind == Refused {
			got = s.Refusal.Code
		}
		if got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}
