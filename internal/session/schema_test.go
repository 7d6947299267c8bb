package session

import "testing"

// TestDefinitionsFollowedUp: noted definitions are followed up before whatever may depend on them.
func TestDefinitionsFollowedUp(t *testing.T) {
	write, definition := request{}, request{does: doing{defines: true}}
	parse := request{prepares: true}
	for _, c := range []struct {
		what string
		now  schema
		r    *request
		want bool
	}{
		{"nothing was noted", schema{unsure: true, filled: true}, &write, false},
		{"a write", schema{noted: true}, &write, true},
		{"another definition", schema{noted: true}, &definition, false},
		{"another one behind rows that were captured", schema{noted: true, unsure: true}, &definition, true},
		{"another one behind a table that was filled anew", schema{noted: true, filled: true}, &definition, true},
		{"nothing but a Parse", schema{noted: true, unsure: true, filled: true}, &parse, false},
	} {
		if got := c.now.due(c.r); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
