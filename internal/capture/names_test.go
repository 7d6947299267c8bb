package capture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestSearches: a definition has read the names that it searches for, those of its search path and who it runs as; and
// it holds the names that it gives and takes. So it is if what it did was frozen. Beyond so many, or if nobody can
// tell, it has read all names.
func TestSearches(t *testing.T) {
	many := "CREATE VIEW v AS SELECT 1"
	for i := range namesMax {
		many += fmt.Sprintf(", f%d()", i)
	}
	path := "object ann,object public"
	for sql, want := range map[string][2]string{
		"CREATE VIEW v AS SELECT x FROM t": {path + ",relation t", "v"},
		"CREATE VIEW t AS SELECT x FROM t": {path + ",relation t", "t"},
		"DROP DOMAIN t":                    {path + ",object t", "t"},
		"ALTER TABLE t RENAME TO u":        {path + ",relation t", "t u"},
		"CREATE INDEX i ON t(x)":           {path + ",relation t", "i"},
		"GRANT SELECT ON t TO r":           {path + ",relation t", ""},
		"not a statement":                  {"names", ""},
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
			slices.Sort(held[writeset.Read])
			got := slices.DeleteFunc(held[writeset.Read], func(n string) bool { return n == "object $user" })
			if read := strings.Join(got, ","); read != want[0] {
				t.Errorf("%.40s: has read %s, want %s", sql, read, want[0])
			}
			var given []string
			for _, name := range strings.Fields(want[1]) {
				given = append(given, "relation "+name, "object "+name, namesAll)
			}
			given = slices.Compact(slices.Sorted(slices.Values(given)))
			slices.Sort(held[writeset.Shared])
			if !slices.Equal(given, held[writeset.Shared]) {
				t.Errorf("%.40s: gives %q, want %q", sql, held[writeset.Shared], given)
			}
		}
	}
}
