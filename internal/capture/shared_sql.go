package capture

import (
	"fmt"
	"strings"
)

// Roles, what they may do to databases, their settings and comments belong to all databases of a server, and PostgreSQL
// calls no event trigger for what changes them. What a client's own statements do is noted by the session. What a
// function or DO block does is found in the catalogs before the next definition and before the collect step: PostgreSQL
// counts what a transaction writes to them. It is noted as what the others shall look like afterwards.

// SharedNotice is the message of the INFO, with DefinedState, that says that such a note was made.
const SharedNotice = "roles or databases were changed"

// sharedTag is that of such a note.
const sharedTag = "ALTER ROLE"

// Nor does it call one for REASSIGN OWNED, which a function may run in whatever form. Three statements look up in
// pg_shdepend what names a role: DROP ROLE, DROP OWNED and that one, and PostgreSQL counts the scans. If there was one,
// and rows of pg_shdepend have changed, the owners of all that the transaction has changed are noted.
const (
	ownedTag     = "REASSIGN OWNED"
	ownedMessage = "owners were changed"
	sharedDepend = 1214 // pg_shdepend
	dependByRole = 1233 // its index by what is depended on
)

// sharedSetting is how many changes of the transaction's are noted; the counts may begin with those of earlier ones.
const sharedSetting = "tutti.shared"

// sharedCatalogs are pg_authid, pg_auth_members, pg_db_role_setting, pg_shdescription, pg_database and pg_shseclabel.
var sharedCatalogs = []int{1260, 1261, 2964, 2396, 1262, 3592}

// sharedCount is SQL for how many changes of rows of them, and of scans for what names a role, the session has counted.
func sharedCount() string {
	return "(" + countOf(sharedCatalogs, "inserted", "updated", "deleted") + " OPERATOR(pg_catalog.+) " +
		fmt.Sprintf("pg_catalog.pg_stat_get_xact_numscans(%d))", dependByRole)
}

// countOf is that of any catalogs.
func countOf(catalogs []int, kinds ...string) string {
	var terms []string
	for _, kind := range kinds {
		for _, c := range catalogs {
			terms = append(terms, fmt.Sprintf("pg_catalog.pg_stat_get_xact_tuples_%s(%d)", kind, c))
		}
	}
	return "(" + strings.Join(terms, " OPERATOR(pg_catalog.+) ") + ")"
}

// sharedChanged is SQL, whatever the search_path, for whether there may be something to note.
func sharedChanged() string {
	return sharedCount() +
		" OPERATOR(pg_catalog.<>) pg_catalog.concat('0', pg_catalog.current_setting('" + sharedSetting +
		"', true))::pg_catalog.int8"
}

func sharedSchema() string {
	return install("shared.sql", words{
		"setting":       sharedSetting,
		"count":         sharedCount(),
		"own":           ownSettings,
		"undone":        countOf(sharedCatalogs, "updated", "deleted"),
		"by_role":       dependByRole,
		"reowned":       countOf([]int{sharedDepend}, "updated", "deleted"),
		"owned_tag":     ownedTag,
		"owned_message": ownedMessage,
		"tag":           sharedTag,
		"schema":        SchemaName,
		"large":         LargeName,
		"defined":       definedSetting,
		"message":       SharedNotice,
		"state":         DefinedState,
	})
}

// sql/shared.sql: tutti.note_shared may be called by anybody: it notes what is so. Locks on the catalogs last as long
// as the changes, but for pg_database, where nothing is removed. Rows that were removed leave nothing to be found, and
// renamed roles do not tell their old name, so then all of them are told, and of those that have changed which things
// are theirs: that tells who has got another name. tutti.assume_shared runs at the other members as a superuser. Roles'
// rows are written as they are, since no command sets VALID UNTIL back; rights on databases by GRANT, which keeps
// account of what depends on roles.
