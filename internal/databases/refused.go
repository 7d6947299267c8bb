package databases

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// Known is what a member knows of the databases where a statement asks to change them.
type Known struct {
	Main, Current string // that of the configuration, and that of the session
	There, Limit  int    // how many there are, dropped ones included, and may be
	Clients       int    // sessions at all members in the one that is to be changed
}

// Refused says why a statement may not do to a database what it asks for, where it comes from; nil: it may, as far as
// that can be told.
func Refused(d semantics.Database, x Known) *wire.SQLError {
	if d.Does == semantics.CreatesDatabase {
		if x.There < x.Limit {
			return nil
		}
		return wire.Errorf(wire.CodeConfigurationLimit, "there are %d databases already (limits.databases)", x.There).
			WithDetail("Dropped ones count until every member has dropped them.")
	}
	switch {
	case d.Name == x.Current && d.Does == semantics.DropsDatabase:
		return wire.Errorf(wire.CodeObjectInUse, "cannot drop the currently open database")
	case d.Name == x.Current:
		return wire.Errorf(wire.CodeFeatureNotSupported, "current database cannot be renamed")
	case d.Name == x.Main:
		return wire.Errorf(wire.CodeFeatureNotSupported,
			"database %q can neither be dropped nor renamed: its order has what all databases share", d.Name)
	case x.Clients == 0 || d.Force:
		return nil
	}
	detail := "There is 1 other session using the database."
	if x.Clients > 1 {
		detail = fmt.Sprintf("There are %d other sessions using the database.", x.Clients)
	}
	return wire.Errorf(wire.CodeObjectInUse, "database %q is being accessed by other users", d.Name).WithDetail("%s",
		detail)
}
