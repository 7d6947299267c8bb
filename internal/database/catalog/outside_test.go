package catalog

import (
	"testing"

	"github.com/tuttidb/tutti/internal/capture"
)

// TestReach: what a statement may do is told by the names in its text, in whatever case and wherever they stand.
func TestReach(t *testing.T) {
	known := &Tables{outside: newOutside([]string{"osends", "hruns", "hboth", "oboth", "oodd name", "h"})}
	elsewhere := &Tables{outside: newOutside([]string{"osends"})} // PostgreSQL refuses what hides
	all := &Tables{outside: newOutside([]string{"h*", "h"})}
	for _, x := range []struct {
		of   *Tables
		sql  string
		want capture.Reach
	}{
		{known, "SELECT Sends()", capture.Reach{Outside: true, MayHide: true}},
		{known, "SELECT runs(1)", capture.Reach{Hides: true, MayHide: true}},
		{known, "SELECT x FROM both", capture.Reach{Outside: true, Hides: true, MayHide: true}},
		{known, "SELECT \"odd name\"()", capture.Reach{Outside: true, MayHide: true}},
		{known, "SELECT query_to_xml('x', true, false, '')", capture.Reach{Hides: true, MayHide: true}},
		{known, "SELECT overruns(1), sendsx", capture.Reach{MayHide: true}},
		{known, "", capture.Reach{MayHide: true}},
		{known, "DO $$ BEGIN COPY t TO PROGRAM 'x'; END $$", capture.Reach{Outside: true, MayHide: true}},
		{elsewhere, "SELECT query_to_xml('x', true, false, '')", capture.Reach{}},
		{elsewhere, "SELECT sends()", capture.Reach{Outside: true}},
		{elsewhere, "SELECT lo_export(1, 'x')", capture.Reach{Outside: true}},
		{all, "SELECT 1", capture.Reach{Hides: true, MayHide: true}},
		{&Tables{}, "SELECT query_to_xml('x', true, false, '')", capture.Reach{}},
	} {
		if got := x.of.Reach(x.sql); got != x.want {
			t.Errorf("%q: %+v, want %+v", x.sql, got, x.want)
		}
	}
}
