package semantics

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// definition classifies what is left: DDL, which runs at every member at its place in the
// order, unless it is temporary or its outcome could differ between members (M3).
func definition(n *pg.Node) Statement {
	if name, found := protectedSet(n); found {
		return refuseSetting(name)
	}
	if temporaryNames(n) {
		return Statement{Kind: Temporary}
	}
	switch v := n.GetNode().(type) {
	case *pg.Node_CreateStmt:
		if temporary(v.CreateStmt.Relation) {
			return Statement{Kind: Temporary}
		}
		if drifts(v.CreateStmt.Partbound) {
			return refuseBound()
		}
	case *pg.Node_ViewStmt:
		if temporary(v.ViewStmt.View) {
			return Statement{Kind: Temporary}
		}
	case *pg.Node_CreateSeqStmt:
		if temporary(v.CreateSeqStmt.Sequence) {
			return Statement{Kind: Temporary}
		}
	case *pg.Node_CreateTableAsStmt:
		return createAs(v.CreateTableAsStmt)
	case *pg.Node_IndexStmt:
		if v.IndexStmt.Concurrent {
			return Statement{Kind: Definition, Relations: relations(n), Alone: "CREATE INDEX CONCURRENTLY",
				Concurrent: concurrent(v.IndexStmt)}
		}
	case *pg.Node_DropStmt:
		if v.DropStmt.Concurrent {
			return Statement{Kind: Definition, Relations: dropped(v.DropStmt), Alone: "DROP INDEX CONCURRENTLY"}
		}
		return Statement{Kind: Definition, Relations: dropped(v.DropStmt), Quiet: quiet(n)}
	case *pg.Node_AlterTableStmt:
		if s := alterTable(v.AlterTableStmt); s.Kind == Refused {
			if !v.AlterTableStmt.MissingOk {
				s.Relations = relations(n)
			}
			return s
		}
		if fills(v.AlterTableStmt) || logs(v.AlterTableStmt) {
			return Statement{Kind: Definition, Here: true}
		}
		if detaches(v.AlterTableStmt) {
			return Statement{Kind: Definition, Relations: relations(n), Alone: "ALTER TABLE ... DETACH CONCURRENTLY",
				Detach: detach(v.AlterTableStmt)}
		}
		if d := detach(v.AlterTableStmt); d != nil {
			return Statement{Kind: Definition, Relations: relations(n), Detach: d}
		}
	case *pg.Node_AlterSystemStmt:
		return refuse("ALTER SYSTEM acts on one member only", "Put the setting into each member's configuration.")
	case *pg.Node_CreateTableSpaceStmt, *pg.Node_DropTableSpaceStmt, *pg.Node_AlterTableSpaceOptionsStmt,
		*pg.Node_AlterTableMoveAllStmt:
		return refuse("tablespaces cannot be replicated", "Use the default tablespace.")
	case *pg.Node_CreateSubscriptionStmt, *pg.Node_AlterSubscriptionStmt, *pg.Node_DropSubscriptionStmt:
		return refuse("subscriptions cannot be replicated: every member would receive the same changes",
			"Feed the changes in through a client.")
	}
	if s, ok := shared(n); ok {
		return s
	}
	_, rights := n.GetNode().(*pg.Node_GrantStmt)
	return Statement{Kind: Definition, Relations: relations(n), Quiet: quiet(n), Rights: rights}
}

// RefusedInside gives the refusal of a definition of tables that a function has carried out: nobody has seen its text
// before.
func RefusedInside(sql string) (r Refusal, refused bool) {
	tree, err := parse(ascii(sql))
	if err != nil || len(tree.Stmts) != 1 {
		return r, false
	}
	switch n := tree.Stmts[0].Stmt; n.GetNode().(type) {
	case *pg.Node_CreateStmt, *pg.Node_AlterTableStmt:
		s := definition(n)
		return s.Refusal, s.Kind == Refused
	}
	return r, false
}

// shared classifies definitions of roles and databases; ok is false for others.
func shared(n *pg.Node) (s Statement, ok bool) {
	switch v := n.GetNode().(type) {
	case *pg.Node_CreateRoleStmt:
		return role(v.CreateRoleStmt.Role, v.CreateRoleStmt.Options), true
	case *pg.Node_AlterRoleStmt:
		return role(v.AlterRoleStmt.Role.GetRolename(), v.AlterRoleStmt.Options), true
	case *pg.Node_CreatedbStmt:
		if s, refused := refusedDatabase(v.CreatedbStmt.Options); refused {
			return s, true
		}
		return database("CREATE DATABASE", Database{Does: CreatesDatabase, Name: v.CreatedbStmt.Dbname}), true
	case *pg.Node_DropdbStmt:
		d := v.DropdbStmt
		return database("DROP DATABASE", Database{Does: DropsDatabase, Name: d.Dbname, IfExists: d.MissingOk,
			Force: hasOption(d.Options, "force")}), true
	case *pg.Node_RenameStmt:
		if v.RenameStmt.RenameType == pg.ObjectType_OBJECT_DATABASE {
			return database("ALTER DATABASE ... RENAME",
				Database{Does: RenamesDatabase, Name: v.RenameStmt.Subname, To: v.RenameStmt.Newname}), true
		}
	case *pg.Node_AlterDatabaseStmt:
		return refusedDatabase(v.AlterDatabaseStmt.Options)
	}
	return Statement{}, false
}

func database(alone string, d Database) Statement {
	return Statement{Kind: Definition, Quiet: true, Alone: alone, Cluster: Cluster{Database: d}}
}

// refusedDatabase says which options of a database cannot be had.
func refusedDatabase(options []*pg.Node) (s Statement, refused bool) {
	for _, o := range options {
		d := o.GetDefElem()
		text, _ := stringConst(d.Arg)
		switch d.GetDefname() {
		case "tablespace":
			return refuse("tablespaces cannot be replicated", "Use the default tablespace."), true
		case "template":
			if text != "template0" && text != "template1" && d.Arg != nil {
				return refuse("a database can be made of template0 and template1 only",
					"Create an empty one, and restore a dump of the other into it."), true
			}
		case "allow_connections":
			if d.Arg == nil || !allows(d.Arg) {
				return refuse("a database that takes no connections cannot be replicated",
					"REVOKE CONNECT, or use CONNECTION LIMIT."), true
			}
		}
	}
	return s, false
}

// allows reads a boolean option.
func allows(n *pg.Node) bool {
	text, _ := stringConst(n)
	switch strings.ToLower(text) {
	case "true", "on", "yes", "1":
		return true
	}
	return n.GetBoolean().GetBoolval() || n.GetInteger().GetIval() == 1
}

// quiet reports whether a definition fires no event trigger, because it is about something that all
// databases share, or about event triggers, or PostgreSQL has none for it.
func quiet(n *pg.Node) bool {
	switch n.GetNode().(type) {
	case *pg.Node_CreateEventTrigStmt, *pg.Node_AlterEventTrigStmt, *pg.Node_ReassignOwnedStmt:
		return true
	}
	return objectType(n) == pg.ObjectType_OBJECT_EVENT_TRIGGER || ofAll(n)
}

// ofAll reports whether a definition is about something that all databases share.
func ofAll(n *pg.Node) bool {
	switch n.GetNode().(type) {
	case *pg.Node_CreateRoleStmt, *pg.Node_AlterRoleStmt, *pg.Node_AlterRoleSetStmt, *pg.Node_DropRoleStmt,
		*pg.Node_GrantRoleStmt,
		*pg.Node_CreatedbStmt, *pg.Node_DropdbStmt, *pg.Node_AlterDatabaseStmt, *pg.Node_AlterDatabaseSetStmt,
		*pg.Node_AlterDatabaseRefreshCollStmt:
		return true
	}
	switch objectType(n) {
	case pg.ObjectType_OBJECT_DATABASE, pg.ObjectType_OBJECT_ROLE, pg.ObjectType_OBJECT_TABLESPACE,
		pg.ObjectType_OBJECT_PARAMETER_ACL:
		return true
	}
	return false
}

// objectType is of what kind the object is that a definition is about, if it may be of many.
func objectType(n *pg.Node) pg.ObjectType {
	switch v := n.GetNode().(type) {
	case *pg.Node_GrantStmt:
		return v.GrantStmt.Objtype
	case *pg.Node_CommentStmt:
		return v.CommentStmt.Objtype
	case *pg.Node_SecLabelStmt:
		return v.SecLabelStmt.Objtype
	case *pg.Node_RenameStmt:
		return v.RenameStmt.RenameType
	case *pg.Node_AlterOwnerStmt:
		return v.AlterOwnerStmt.ObjectType
	case *pg.Node_DropStmt:
		return v.DropStmt.RemoveType
	}
	return pg.ObjectType_OBJECT_TYPE_UNDEFINED
}

func createAs(c *pg.CreateTableAsStmt) Statement {
	if temporary(c.Into.GetRel()) {
		return Statement{Kind: Temporary}
	}
	if c.Objtype != pg.ObjectType_OBJECT_MATVIEW {
		return Statement{Kind: Definition, Here: true}
	}
	if volatile(c.Query.ProtoReflect()) {
		return refuse("a materialized view with a volatile query would differ between members", "Use a view.")
	}
	return Statement{Kind: Definition}
}

// temporary reports whether a new relation goes to the session's temporary schema.
func temporary(r *pg.RangeVar) bool {
	return r.GetRelpersistence() == "t" || r.GetSchemaname() == temporarySchema
}

// dropped gives the names of the relations a DROP names: those of triggers, policies and rules
// are the table's name and one more.
func dropped(d *pg.DropStmt) []string {
	var out []string
	for _, o := range d.Objects {
		var parts []string
		for _, i := range o.GetList().GetItems() {
			parts = append(parts, quote(i.GetString_().GetSval()))
		}
		switch d.RemoveType {
		case pg.ObjectType_OBJECT_TRIGGER, pg.ObjectType_OBJECT_POLICY, pg.ObjectType_OBJECT_RULE:
			parts = parts[:max(0, len(parts)-1)]
		}
		if len(parts) > 0 {
			out = append(out, strings.Join(parts, "."))
		}
	}
	return out
}

// alterTable refuses the forms that fill existing rows with values of their own at each
// member.
func alterTable(a *pg.AlterTableStmt) Statement {
	for _, c := range a.Cmds {
		cmd := c.GetAlterTableCmd()
		switch cmd.GetSubtype() {
		case pg.AlterTableType_AT_AttachPartition:
			if drifts(cmd.Def.GetPartitionCmd().GetBound()) {
				return refuseBound()
			}
		case pg.AlterTableType_AT_AlterColumnType:
			if volatile(cmd.Def.ProtoReflect()) || clockWord(cmd.Def.ProtoReflect()) {
				return refuse("ALTER COLUMN … TYPE with a volatile expression would fill rows differently at each "+
					"member",
					"Add a column, UPDATE it, and drop the old one.")
			}
		case pg.AlterTableType_AT_EnableAlwaysTrig, pg.AlterTableType_AT_EnableReplicaTrig,
			pg.AlterTableType_AT_EnableAlwaysRule, pg.AlterTableType_AT_EnableReplicaRule:
			return refuse("ENABLE ALWAYS and ENABLE REPLICA would fire again at every member that applies the row",
				"Use ENABLE TRIGGER: it fires at the member that executes the statement, and what it writes is "+
					"replicated.")
		case pg.AlterTableType_AT_SetLogged:
			if len(a.Cmds) > 1 {
				return refuse("ALTER TABLE … SET LOGGED cannot be replicated together with other changes: at other "+
					"members the table has other rows until then", "Use two statements.")
			}
		case pg.AlterTableType_AT_SetTableSpace:
			return refuse("tablespaces cannot be replicated", "Use the default tablespace.")
		}
	}
	return Statement{Kind: Definition}
}

// fills reports whether columns are added whose values in existing rows may be other ones at each
// member: the statement runs at one first, and the others get its values.
func fills(a *pg.AlterTableStmt) bool {
	if a.Objtype == pg.ObjectType_OBJECT_FOREIGN_TABLE { // which has no rows here
		return false
	}
	for _, c := range a.Cmds {
		cmd := c.GetAlterTableCmd()
		if cmd.GetSubtype() == pg.AlterTableType_AT_AddColumn && fillsRows(cmd.Def.GetColumnDef()) {
			return true
		}
	}
	return false
}

// logs reports whether a table becomes one whose rows are replicated: the statement runs at one member first, and the
// others get its rows in the place of their own.
func logs(a *pg.AlterTableStmt) bool {
	return a.Objtype == pg.ObjectType_OBJECT_TABLE && len(a.Cmds) == 1 &&
		a.Cmds[0].GetAlterTableCmd().GetSubtype() == pg.AlterTableType_AT_SetLogged
}

// steady takes the word CONCURRENTLY out of a definition, which takes its place in the order and
// runs in a transaction.
func steady(sql string) string {
	scan, err := pg.Scan(ascii(sql))
	if err != nil {
		return sql
	}
	for _, t := range scan.Tokens {
		if t.Token == pg.Token_CONCURRENTLY {
			return sql[:t.Start] + strings.Repeat(" ", int(t.End-t.Start)) + sql[t.End:]
		}
	}
	return sql
}

// drifts reports whether the bounds of a partition are other ones at each member.
func drifts(b *pg.PartitionBoundSpec) bool {
	return b != nil && (volatile(b.ProtoReflect()) || clockWord(b.ProtoReflect()))
}

func refuseBound() Statement {
	return refuse("the bounds of a partition would differ between members", "Write them as literals.")
}

func fillsRows(c *pg.ColumnDef) bool {
	if c == nil {
		return false
	}
	if names := c.TypeName.GetNames(); len(names) > 0 {
		switch names[len(names)-1].GetString_().GetSval() {
		case "serial", "serial2", "serial4", "serial8", "smallserial", "bigserial":
			return true
		}
	}
	for _, k := range c.Constraints {
		switch v := k.GetConstraint(); v.GetContype() {
		case pg.ConstrType_CONSTR_IDENTITY:
			return true
		case pg.ConstrType_CONSTR_DEFAULT:
			if v.RawExpr != nil && (hasNode(v.RawExpr.ProtoReflect(), "FuncCall", "SQLValueFunction", "SubLink") ||
				clockWord(v.RawExpr.ProtoReflect())) {
				return true
			}
		}
	}
	return false
}

// clockWord reports whether a literal such as 'now' is below m, which date and time types
// read as the present.
func clockWord(m protoreflect.Message) bool {
	found := false
	walk(m, func(m protoreflect.Message) {
		if c, ok := m.Interface().(*pg.A_Const); ok {
			switch strings.ToLower(strings.TrimSpace(c.GetSval().GetSval())) {
			case "now", "today", "tomorrow", "yesterday":
				found = true
			}
		}
	})
	return found
}

// volatileFunctions are the built-in functions whose result differs between members.
var volatileFunctions = map[string]bool{
	"random": true, "random_normal": true, "gen_random_uuid": true, "uuidv4": true, "uuidv7": true, "nextval": true,
	"currval": true, "lastval": true,
	"now": true, "clock_timestamp": true, "statement_timestamp": true, "transaction_timestamp": true, "timeofday": true,
	"uuid_generate_v1": true, "uuid_generate_v4": true, "gen_random_bytes": true, "pg_backend_pid": true,
	"txid_current": true, "pg_current_xact_id": true,
}

func volatile(m protoreflect.Message) bool {
	for _, f := range functions(m) {
		if volatileFunctions[f.name] || f.name == "age" && len(f.args) == 1 { // which counts from today
			return true
		}
	}
	return hasNode(m, "SQLValueFunction")
}
