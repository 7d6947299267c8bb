package capture

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestSearches: a definition has read its words, those of its search path and who it runs as, but for the name of what
// it makes; and it holds the names that it gives and takes. So it is if what it did was frozen. Beyond so many words it
// has read all names.
func TestSearches(t *testing.T) {
	many := "CREATE VIEW v AS SELECT 1"
	for i := range wordsMax {
		many += ", a" + strings.Repeat("b", i%60) + strings.Repeat("c", i/60)
	}
	for sql, want := range map[string][2]string{
		"CREATE VIEW v AS SELECT x FROM t": {"ann x t view public", "v"},
		"CREATE VIEW t AS SELECT x FROM t": {"ann x t view public", "t"},
		"DROP TABLE t":                     {"ann t public", "t"},
		"ALTER TABLE t RENAME TO u":        {"ann t u rename public", "t u"},
		"CREATE INDEX i ON t(x)":           {"ann t x public", "i"},
		"GRANT SELECT ON t TO r":           {"ann t r public", ""},
		many:                               {"names", "v"},
	} {
		image, err := json.Marshal(Definition{SQL: sql, Role: "Ann",
			Settings: map[string]string{"search_path": `"$user", public`}})
		s, again := &steps{}, &steps{}
		if err == nil {
			err = s.define(image, nil)
		}
		w, err2 := s.writeset()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		again.take(w)
		w2, err := again.writeset()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []*writeset.Writeset{w, w2} {
			held := map[writeset.Mode][]string{}
			for _, k := range w.Keys {
				held[k.Mode] = append(held[k.Mode], strings.TrimPrefix(w.Tables[k.Table].Name, nameOf))
			}
			for _, read := range strings.Fields(want[0]) {
				if !slices.Contains(held[writeset.Read], read) {
					t.Errorf("%.40s: has not read %s, but %q", sql, read, held[writeset.Read])
				}
			}
			given := strings.Fields(want[1])
			if len(given) > 0 {
				given = append(given, namesAll)
			}
			slices.Sort(given)
			slices.Sort(held[writeset.Shared])
			if !slices.Equal(given, held[writeset.Shared]) {
				t.Errorf("%.40s: gives %q, want %q", sql, held[writeset.Shared], given)
			}
			if made := strings.HasPrefix(sql, "CREATE VIEW v"); made && slices.Contains(held[writeset.Read], "v") {
				t.Errorf("%.40s: has looked for what it makes", sql)
			}
		}
	}
}
