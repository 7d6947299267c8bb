package semantics

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// QuietTag is the command tag of a statement that fires no event triggers: TRUNCATE, setval, and what concerns roles,
// databases, event triggers and owners (CreateCommandTag of PostgreSQL's tcop/utility.c).
func QuietTag(sql string) string {
	tree, err := parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return ""
	}
	n := tree.Stmts[0].Stmt
	grant := func(is bool) string {
		if is {
			return "GRANT"
		}
		return "REVOKE"
	}
	switch v := n.GetNode().(type) {
	case *pg.Node_SelectStmt:
		return "SELECT 1"
	case *pg.Node_TruncateStmt:
		return "TRUNCATE TABLE"
	case *pg.Node_GrantStmt:
		return grant(v.GrantStmt.IsGrant)
	case *pg.Node_GrantRoleStmt:
		return grant(v.GrantRoleStmt.IsGrant) + " ROLE"
	case *pg.Node_CommentStmt:
		return "COMMENT"
	case *pg.Node_SecLabelStmt:
		return "SECURITY LABEL"
	}
	if tag := quietTag(n); tag != "" {
		return tag
	}
	return quietVerb(n) + " " + strings.ReplaceAll(strings.TrimPrefix(objectType(n).String(), "OBJECT_"), "_", " ")
}

// quietTag is the tag of a statement that concerns neither rights nor an object of any type; empty for others.
func quietTag(n *pg.Node) string {
	switch n.GetNode().(type) {
	case *pg.Node_CreateRoleStmt:
		return "CREATE ROLE"
	case *pg.Node_AlterRoleStmt, *pg.Node_AlterRoleSetStmt:
		return "ALTER ROLE"
	case *pg.Node_DropRoleStmt:
		return "DROP ROLE"
	case *pg.Node_ReassignOwnedStmt:
		return "REASSIGN OWNED"
	case *pg.Node_AlterDatabaseStmt, *pg.Node_AlterDatabaseSetStmt, *pg.Node_AlterDatabaseRefreshCollStmt:
		return "ALTER DATABASE"
	case *pg.Node_CreateEventTrigStmt:
		return "CREATE EVENT TRIGGER"
	case *pg.Node_AlterEventTrigStmt:
		return "ALTER EVENT TRIGGER"
	}
	return ""
}

// quietVerb is how the tag of a statement about an object of any type begins.
func quietVerb(n *pg.Node) string {
	if n.GetDropStmt() != nil {
		return "DROP"
	}
	return "ALTER" // RENAME TO, OWNER TO
}
