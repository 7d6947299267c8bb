package session

import (
	"testing"

	"github.com/tuttidb/tutti/internal/semantics"
)

// TestSites: where a definition runs, by its text and by what is around it.
func TestSites(t *testing.T) {
	plain := surroundings{}
	to := semantics.Confined{To: true}
	for _, c := range []struct {
		what   string
		around surroundings
		st     semantics.Statement
		active bool
		want   site
	}{
		{"tables that are named", plain, semantics.Statement{Confined: to}, false, inOrder},
		{"tables that nobody can name", plain, semantics.Statement{}, false, hereFirst},
		{"nor where it must be alone", plain, semantics.Statement{Alone: "VACUUM"}, false, inOrder},
		{"others have locked them", surroundings{locked: true}, semantics.Statement{Confined: to}, false, hereFirst},
		{"but it may take long", surroundings{locked: true, large: true},
			semantics.Statement{Confined: to, Long: semantics.LongLocked}, false, inOrder},
		{"long, of a small table", surroundings{locked: true},
			semantics.Statement{Confined: to, Long: semantics.LongLocked}, false, hereFirst},
		{"temporary objects beside", surroundings{private: true, large: true},
			semantics.Statement{Confined: to, Long: semantics.LongLocked}, false, hereFirst},
		{"nothing but temporary relations, in a block", surroundings{temporary: true}, semantics.Statement{}, true,
			amongTemporary},
		{"a block", surroundings{private: true}, semantics.Statement{Confined: to}, true, inTransaction},
		{"one that must run here", plain, semantics.Statement{Confined: to, Here: true}, false, inTransaction},
		{"event triggers", surroundings{watched: true}, semantics.Statement{Confined: to}, false, inTransaction},
		{"that do not fire for it", surroundings{watched: true, locked: true},
			semantics.Statement{Confined: to, Quiet: true}, false, inOrder},
	} {
		if got := c.around.site(&c.st, c.active); got != c.want {
			t.Errorf("%s: %d instead of %d", c.what, got, c.want)
		}
	}
}
