package semantics

import (
	"fmt"
	"testing"
)

// TestRecord: what changes what holds for the cluster is a definition that stands alone, and is written with literals.
func TestRecord(t *testing.T) {
	for sql, want := range map[string]string{ // order-free: each for itself
		"CALL tutti.finish_upgrade()":        "CALL tutti.finish_upgrade()",
		"call Tutti.Set_Min_Copies(1)":       "CALL tutti.set_min_copies(1)",
		"CALL tutti.set_expel_after('5s')":   "CALL tutti.set_expel_after('5s')",
		"CALL tutti.finish_upgrade(6)":       "42883",
		"CALL tutti.set_min_copies('one')":   "42883",
		"CALL tutti.set_min_copies($1)":      "42883",
		"CALL tutti.set_expel_after(5)":      "42883",
		"CALL tutti.set_expel_after()":       "42883",
		"SELECT tutti.finish_upgrade()":      "0A000",
		"CALL finish_upgrade()":              "",
		"CALL tutti.remove_member('a')":      "",
		"CALL another.set_min_copies(1)":     "",
		"CALL tutti.set_min_copies(1, 2, 3)": "42883",
	} {
		s := Classify(sql)[0]
		got := s.Cluster.Record.String()
		switch {
		case s.Kind == Refused:
			got = s.Refusal.Code
		case got != "" && (s.Kind != Definition || !s.Shared || s.Alone == ""):
			got = fmt.Sprintf("%+v", s)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}
