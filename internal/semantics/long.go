package semantics

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Long says of a definition whether it may take long, reading or writing tables as a whole, and what must wait for it
// then. Everything else may go on beside it at each member: it shows nothing new to those who read meanwhile, or they
// wait for its locks.
type Long uint8

const (
	// NotLong: what follows waits.
	NotLong Long = iota
	// LongLocked: once it has begun its work it holds locks on all tables it changes. Who writes to them waits.
	LongLocked
	// LongNamed: who writes to a table that it may change waits, whether it holds a lock or not. It locks several, one
	// after the other.
	LongNamed
	// LongFree: it changes nothing of what rows mean. Nobody waits but other definitions.
	LongFree
	// LongAttached: LongLocked, but for one partitioned table that it lets others read, to which rows come with it: who
	// has not read that before waits.
	LongAttached
	// LongSnapshot: LongLocked, and it reads other tables, which it cannot do later as they were.
	LongSnapshot
)

// long tells it of a parse tree. Excluded is what makes something visible of which others, who have seen later
// transactions, have to know, as new tables. And expressions with code of users, which may read other tables, and those
// are not as they were when a member begins with it once more. That of an index is immutable.
func long(n *pg.Node) Long {
	switch v := n.GetNode().(type) {
	case *pg.Node_IndexStmt:
		return LongLocked
	case *pg.Node_RefreshMatViewStmt:
		if !v.RefreshMatViewStmt.SkipData {
			return LongSnapshot
		}
	case *pg.Node_AlterTableStmt:
		return longAlter(v.AlterTableStmt)
	}
	return NotLong
}

func longAlter(a *pg.AlterTableStmt) Long {
	if a.Objtype != pg.ObjectType_OBJECT_TABLE {
		return NotLong
	}
	if !callsPlain(a.ProtoReflect()) {
		return NotLong
	}
	var out []Long
	for _, n := range a.Cmds {
		cmd := n.GetAlterTableCmd()
		if cmd.GetBehavior() == pg.DropBehavior_DROP_CASCADE {
			return NotLong
		}
		switch cmd.GetSubtype() {
		case pg.AlterTableType_AT_ValidateConstraint:
			out = append(out, LongFree)
		case pg.AlterTableType_AT_SetNotNull:
			out = append(out, LongLocked)
		case pg.AlterTableType_AT_AddConstraint, pg.AlterTableType_AT_AddColumn:
			if hasNode(cmd.ProtoReflect(), "RangeVar") { // REFERENCES
				out = append(out, LongNamed)
			} else {
				out = append(out, LongLocked)
			}
		case pg.AlterTableType_AT_AlterColumnType:
			out = append(out, LongNamed)
		case pg.AlterTableType_AT_AttachPartition:
			return LongAttached // the only one, by PostgreSQL's grammar
		default:
			return NotLong
		}
	}
	switch {
	case slices.Contains(out, LongNamed):
		return LongNamed
	case slices.Contains(out, LongLocked):
		return LongLocked
	}
	return LongFree
}

// ahead tells of a parse tree whether the definition gives at its place in the order what it has given before, whatever
// was ordered in between that is no definition, and is kept out by no lock of it: it reads catalogs, and tables that it
// locks against writers.
func ahead(n *pg.Node) bool {
	switch v := n.GetNode().(type) {
	case *pg.Node_CreateStmt, *pg.Node_CreateSeqStmt, *pg.Node_ViewStmt, *pg.Node_CommentStmt, *pg.Node_GrantStmt,
		*pg.Node_CreateEnumStmt, *pg.Node_IndexStmt:
		return true
	case *pg.Node_CreateSchemaStmt:
		return len(v.CreateSchemaStmt.SchemaElts) == 0
	case *pg.Node_AlterTableStmt:
		a := v.AlterTableStmt
		l := longAlter(a)
		return l != NotLong && l != LongAttached || a.Objtype == pg.ObjectType_OBJECT_TABLE &&
			!slices.ContainsFunc(a.Cmds, func(n *pg.Node) bool {
				cmd := n.GetAlterTableCmd()
				return cmd.GetBehavior() == pg.DropBehavior_DROP_CASCADE ||
					!slices.Contains(aheadAlter, cmd.GetSubtype())
			})
	}
	return false
}

// aheadAlter are subcommands of ALTER TABLE that read no rows.
var aheadAlter = []pg.AlterTableType{
	pg.AlterTableType_AT_ColumnDefault, pg.AlterTableType_AT_DropNotNull, pg.AlterTableType_AT_DropColumn,
	pg.AlterTableType_AT_DropConstraint,
	pg.AlterTableType_AT_SetStatistics, pg.AlterTableType_AT_SetStorage, pg.AlterTableType_AT_SetRelOptions,
	pg.AlterTableType_AT_ChangeOwner,
}

// callsPlain reports whether nothing is called below m but functions that read no tables.
func callsPlain(m protoreflect.Message) bool {
	plain := true
	walk(m, func(m protoreflect.Message) {
		if f, ok := m.Interface().(*pg.FuncCall); ok {
			name := f.Funcname[len(f.Funcname)-1].GetString_().GetSval()
			plain = plain && (len(f.Funcname) == 1 || f.Funcname[0].GetString_().GetSval() == "pg_catalog") &&
				slices.Contains(plainFunctions, name)
		}
	})
	return plain
}
