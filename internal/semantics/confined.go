package semantics

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Confined says how far a definition reaches. With To it changes what captured rows mean of no other tables than
// those it names and what belongs with them: partitions, parents, the other ends of foreign keys. Apart: not even of
// those. Columns: a table's columns change, and with them its row type. Types: it gives a table columns of a type
// that may be a row type. Large: it is about large objects, or takes away a role that may own some.
// Beside: it does nothing but validate constraints, and writers to its tables go on beside it. Reach: how much of what
// belongs with the tables it names it changes. Keys: it may change by which index rows of its tables are
// known to foreign keys that refer to them. Of: the name of the only one that it changes, as written, if it names
// others, too.
type Confined struct {
	To, Apart, Columns, Types, Large, Beside, Keys bool
	Reach                                          Reach
	Of                                             string
}

// Reach is which tables a definition changes with one that it names. It is no promise: what a definition has locked
// besides is found when it has run.
type Reach uint8

const (
	ReachAround     Reach = iota // its partitions, children and parents, the other ends of its foreign keys
	ReachBelow                   // its partitions and children
	ReachPartitions              // its partitions, but no children
	ReachNone
)

func (r Reach) String() string { return [...]string{"around", "below", "partitions", "none"}[r] }

// confine notes in a definition how far it reaches.
func confine(n *pg.Node, s Statement) Statement {
	if s.Kind != Definition {
		return s
	}
	about := objectType(n)
	switch s.Shared = ofAll(n); {
	case s.Shared:
		s.Confined = Confined{To: true, Apart: true, Large: n.GetDropRoleStmt() != nil ||
			n.GetRenameStmt() != nil && about == pg.ObjectType_OBJECT_ROLE}
	case about == pg.ObjectType_OBJECT_LARGEOBJECT:
		s.Confined = Confined{To: true, Apart: true, Large: true}
	case n.GetDefineStmt() != nil:
		made := fileless[n.GetDefineStmt().Kind]
		s.Confined = Confined{To: made, Apart: made}
	case n.GetRenameStmt() != nil:
		s.Confined = renameConfined(n.GetRenameStmt())
	default:
		s.Confined = confined(n)
		s.Long, s.Ahead, s.Shares = long(n), ahead(n), n.GetIndexStmt() != nil
	}
	return s
}

// fileless are kinds of objects of which no machine needs a file or a locale to make one.
var fileless = map[pg.ObjectType]bool{
	pg.ObjectType_OBJECT_TYPE: true, pg.ObjectType_OBJECT_OPERATOR: true, pg.ObjectType_OBJECT_AGGREGATE: true,
}

func confined(n *pg.Node) Confined {
	to := func(yes bool) Confined { return Confined{To: yes} }
	switch v := n.GetNode().(type) {
	case *pg.Node_CreateStmt:
		c := v.CreateStmt // columns may come from another table
		return Confined{To: true, Types: c.OfTypename != nil || len(c.InhRelations) > 0 ||
			hasNode(n.ProtoReflect(), "TableLikeClause") || userTypes(n.ProtoReflect())}
	case *pg.Node_AlterTableStmt:
		return alterConfined(v.AlterTableStmt)
	case *pg.Node_DropStmt:
		return to(dropConfined(v.DropStmt))
	case *pg.Node_TruncateStmt:
		return to(v.TruncateStmt.Behavior != pg.DropBehavior_DROP_CASCADE)
	case *pg.Node_CreateTableAsStmt:
		return to(v.CreateTableAsStmt.Objtype == pg.ObjectType_OBJECT_MATVIEW)
	case *pg.Node_GrantStmt:
		return Confined{To: v.GrantStmt.Targtype == pg.GrantTargetType_ACL_TARGET_OBJECT, Apart: true}
	case *pg.Node_RefreshMatViewStmt:
		return to(true)
	case *pg.Node_IndexStmt:
		if !v.IndexStmt.Relation.GetInh() { // ON ONLY, which is that of no partition yet
			return Confined{To: true, Reach: ReachNone}
		}
		return Confined{To: true, Reach: ReachBelow, Keys: v.IndexStmt.Unique}
	case *pg.Node_CreateTrigStmt, *pg.Node_RuleStmt, *pg.Node_CreatePolicyStmt, *pg.Node_AlterPolicyStmt,
		*pg.Node_CreateStatsStmt:
		return Confined{To: true, Reach: ReachBelow}
	case *pg.Node_AlterOwnerStmt:
		return Confined{To: objectType(n) != pg.ObjectType_OBJECT_EVENT_TRIGGER, Apart: true}
	case *pg.Node_CreatePublicationStmt:
		return Confined{To: !v.CreatePublicationStmt.ForAllTables && len(v.CreatePublicationStmt.Pubobjects) == 0,
			Apart: true}
	case *pg.Node_AlterPublicationStmt:
		// Who writes to a published table must be able to say which row it was (PostgreSQL's CheckCmdReplicaIdentity),
		// and the lock that is taken when a table is added lets writers pass.
		return Confined{To: v.AlterPublicationStmt.Action == pg.AlterPublicationAction_AP_DropObjects, Apart: true}
	case *pg.Node_ViewStmt:
		if !v.ViewStmt.Replace {
			return Confined{To: true, Apart: true}
		}
		// It may get columns, and tables have its rows in theirs.
		return Confined{To: true, Reach: ReachNone, Columns: true, Of: rangeName(v.ViewStmt.View)}
	case *pg.Node_CommentStmt, *pg.Node_CreateSeqStmt, *pg.Node_CreateFunctionStmt, *pg.Node_AlterFunctionStmt,
		*pg.Node_CreateEnumStmt, *pg.Node_CompositeTypeStmt, *pg.Node_CreateDomainStmt,
		*pg.Node_AlterDefaultPrivilegesStmt, *pg.Node_CreateRangeStmt, *pg.Node_CreateCastStmt,
		*pg.Node_CreateConversionStmt, *pg.Node_CreateOpClassStmt, *pg.Node_CreateOpFamilyStmt,
		*pg.Node_CreateTransformStmt, *pg.Node_CreateAmStmt:
		return Confined{To: true, Apart: true}
	}
	return Confined{}
}

func alterConfined(a *pg.AlterTableStmt) (c Confined) {
	switch a.Objtype {
	case pg.ObjectType_OBJECT_TABLE, pg.ObjectType_OBJECT_INDEX, pg.ObjectType_OBJECT_VIEW,
		pg.ObjectType_OBJECT_MATVIEW:
	default:
		return c
	}
	c.Beside, c.Reach = true, ReachBelow
	if !a.Relation.GetInh() {
		c.Reach = ReachPartitions // ONLY leaves children alone; NOT NULL is looked for in partitions
	}
	for _, n := range a.Cmds {
		cmd := n.GetAlterTableCmd()
		if a.Objtype == pg.ObjectType_OBJECT_INDEX && cmd.GetSubtype() == pg.AlterTableType_AT_AttachPartition {
			// that of its parent becomes valid, and is no other one
			c.Of, c.Keys = rangeName(cmd.Def.GetPartitionCmd().GetName()), true
		} else if !below(cmd) {
			c.Reach = ReachAround
		}
		switch cmd.GetDef().GetConstraint().GetContype() {
		case pg.ConstrType_CONSTR_PRIMARY, pg.ConstrType_CONSTR_UNIQUE:
			c.Keys = true
		}
		c.Beside = c.Beside && cmd.GetSubtype() == pg.AlterTableType_AT_ValidateConstraint
		if cmd.GetBehavior() == pg.DropBehavior_DROP_CASCADE {
			return Confined{}
		}
		switch cmd.GetSubtype() {
		case pg.AlterTableType_AT_AddColumn, pg.AlterTableType_AT_DropColumn, pg.AlterTableType_AT_AlterColumnType:
			c.Columns = true
			c.Types = c.Types || cmd.Def != nil && userTypes(cmd.Def.ProtoReflect())
		case pg.AlterTableType_AT_AddOf, pg.AlterTableType_AT_DropOf:
			return Confined{}
		}
	}
	c.To = true
	return c
}

// renameConfined: a table with a column or constraint of another name is the same table. Keys are known by the names of
// columns, so those that refer to it change, too.
func renameConfined(r *pg.RenameStmt) Confined {
	switch r.RenameType {
	case pg.ObjectType_OBJECT_COLUMN, pg.ObjectType_OBJECT_TABCONSTRAINT:
	default:
		return Confined{}
	}
	if r.RelationType == pg.ObjectType_OBJECT_TABLE || r.RenameType == pg.ObjectType_OBJECT_TABCONSTRAINT {
		return Confined{To: true, Columns: true, Keys: true, Reach: ReachBelow}
	}
	return Confined{}
}

// below reports whether a command changes nothing of parents, and nothing of the other ends of foreign keys.
func below(cmd *pg.AlterTableCmd) bool {
	switch cmd.GetSubtype() {
	case pg.AlterTableType_AT_AddConstraint:
		return cmd.Def.GetConstraint().GetContype() != pg.ConstrType_CONSTR_FOREIGN
	case pg.AlterTableType_AT_ColumnDefault, pg.AlterTableType_AT_SetNotNull, pg.AlterTableType_AT_SetStatistics,
		pg.AlterTableType_AT_SetOptions, pg.AlterTableType_AT_ResetOptions,
		pg.AlterTableType_AT_SetStorage, pg.AlterTableType_AT_SetCompression, pg.AlterTableType_AT_ClusterOn,
		pg.AlterTableType_AT_DropCluster, pg.AlterTableType_AT_SetRelOptions, pg.AlterTableType_AT_ResetRelOptions,
		pg.AlterTableType_AT_EnableTrig, pg.AlterTableType_AT_EnableAlwaysTrig, pg.AlterTableType_AT_EnableReplicaTrig,
		pg.AlterTableType_AT_DisableTrig,
		pg.AlterTableType_AT_EnableRowSecurity, pg.AlterTableType_AT_DisableRowSecurity,
		pg.AlterTableType_AT_ForceRowSecurity, pg.AlterTableType_AT_NoForceRowSecurity:
		return true
	}
	return false
}

func dropConfined(d *pg.DropStmt) bool {
	if d.Behavior == pg.DropBehavior_DROP_CASCADE {
		return false
	}
	switch d.RemoveType {
	case pg.ObjectType_OBJECT_TABLE, pg.ObjectType_OBJECT_INDEX, pg.ObjectType_OBJECT_VIEW,
		pg.ObjectType_OBJECT_MATVIEW, pg.ObjectType_OBJECT_SEQUENCE,
		pg.ObjectType_OBJECT_TRIGGER, pg.ObjectType_OBJECT_RULE, pg.ObjectType_OBJECT_POLICY,
		pg.ObjectType_OBJECT_STATISTIC_EXT,
		pg.ObjectType_OBJECT_FUNCTION, pg.ObjectType_OBJECT_PROCEDURE, pg.ObjectType_OBJECT_AGGREGATE,
		pg.ObjectType_OBJECT_TYPE, pg.ObjectType_OBJECT_DOMAIN, pg.ObjectType_OBJECT_PUBLICATION:
		return true
	}
	return false
}

// builtinTypes are names of types that the grammar does not qualify and that are no row types, unless
// somebody has put one of theirs in front; then it is found to be used when it changes.
var builtinTypes = map[string]bool{
	"text": true, "bytea": true, "uuid": true, "json": true, "jsonb": true, "xml": true, "date": true,
	"timestamptz": true, "timetz": true,
	"name": true, "oid": true, "inet": true, "cidr": true, "macaddr": true, "money": true, "tsvector": true,
	"point":  true,
	"serial": true, "bigserial": true, "smallserial": true, "serial4": true, "serial8": true, "serial2": true,
	"int2": true, "int4": true, "int8": true, "float4": true, "float8": true, "bool": true, "varchar": true,
	"bpchar": true,
}

// userTypes reports whether a type is named below m that may be a user's.
func userTypes(m protoreflect.Message) bool {
	found := false
	walk(m, func(m protoreflect.Message) {
		t, ok := m.Interface().(*pg.TypeName)
		if !ok {
			return
		}
		switch names := t.Names; {
		case len(names) == 2 && names[0].GetString_().GetSval() == "pg_catalog":
		case len(names) == 1 && builtinTypes[names[0].GetString_().GetSval()]:
		default:
			found = true
		}
	})
	return found
}
