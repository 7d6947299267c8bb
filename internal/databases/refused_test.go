package databases

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestRefused: the main database and the one of the session are neither dropped nor renamed, one that others use only
// if these are to be ended, and there are no more than there may be. It is said as PostgreSQL says it.
func TestRefused(t *testing.T) {
	does := func(what semantics.DatabaseChange, name string, force bool) semantics.Database {
		return semantics.Database{Does: what, Name: name, Force: force}
	}
	for what, x := range map[string]struct {
		d              semantics.Database
		there, clients int
		code, says     string
	}{
		"one that nobody uses": {d: does(semantics.DropsDatabase, "x", false)},
		"one that another session uses": {d: does(semantics.DropsDatabase, "x", false), clients: 1,
			code: wire.CodeObjectInUse, says: "There is 1 other session"},
		"a used one, renamed": {d: does(semantics.RenamesDatabase, "x", false), clients: 3,
			code: wire.CodeObjectInUse, says: "There are 3 other sessions"},
		"one whose users end": {d: does(semantics.DropsDatabase, "x", true), clients: 3},
		"its own": {d: does(semantics.DropsDatabase, "own", true), code: wire.CodeObjectInUse,
			says: "currently open"},
		"its own, by a new name": {d: does(semantics.RenamesDatabase, "own", false),
			code: wire.CodeFeatureNotSupported, says: "cannot be renamed"},
		"the main one": {d: does(semantics.DropsDatabase, "main", true), code: wire.CodeFeatureNotSupported,
			says: "all databases share"},
		"one more":      {d: does(semantics.CreatesDatabase, "y", false), there: 3},
		"one too many":  {d: does(semantics.CreatesDatabase, "y", false), there: 4, code: wire.CodeConfigurationLimit},
		"much too many": {d: does(semantics.CreatesDatabase, "y", false), there: 5, code: wire.CodeConfigurationLimit},
	} {
		e := Refused(x.d, Known{Main: "main", Current: "own", There: x.there, Limit: 4, Clients: x.clients})
		if e == nil {
			if x.code != "" {
				t.Errorf("%s: it is not refused", what)
			}
		} else if e.Code != x.code || !strings.Contains(e.Message+e.Detail, x.says) {
			t.Errorf("%s: it is told %s %q, %q", what, e.Code, e.Message, e.Detail)
		}
	}
}
