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
		"CALL tutti.add_witness('w', 'h:1')":              "true 4 w h:1 ",
		"CALL tutti.add_witness('w', 'h:1', 'h:2')":       "42883",
		"CALL tutti.demote_member('d')":                   "true 5 d  ",
		"CALL tutti.promote_member('d')":                  "true 6 d  ",
		"CALL tutti.promote_member('d', 'h:1')":           "42883",
		"CALL tutti.rank_member('d', 5)":                  "true 7 d   5 ",
		"CALL tutti.rank_member('d', -5)":                 "true 7 d   -5 ",
		"CALL tutti.rank_member('d', ' -7 ')":             "true 7 d   -7 ",
		"CALL tutti.rank_member('d', 0)":                  "true 7 d  ",
		"CALL tutti.rank_member('d', 1.5)":                "42883",
		"CALL tutti.rank_member('d', 5000000000)":         "42883",
		"CALL tutti.rank_member('d', true)":               "42883",
		"CALL tutti.rank_member('d', 2 + 3)":              "42883",
		"CALL tutti.rank_member('d')":                     "42883",
		"CALL tutti.site_member('d', ' far away ')":       "true 8 d   0 far away",
		"CALL tutti.site_member('d', 5)":                  "42883",
		"CALL tutti.another('d', 'h:1')":                  "0A000",
		"SELECT tutti.add_member('d', 'h:1')":             "0A000",
	} {
		s := Classify(sql)[0]
		m := s.Cluster.Membership
		got := fmt.Sprint(s.Kind == Definition && s.Shared && s.Alone != "", " ", int(m.Does), " ", m.Name, " ",
			m.Address, " ", m.Clients)
		if m.Rank != 0 || m.Site != "" {
			got += fmt.Sprint(" ", m.Rank, " ", m.Site)
		}
		if s.Kind == Refused {
			got = s.Refusal.Code
		}
		if got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}
