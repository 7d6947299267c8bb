package semantics

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Subject is something that a definition drops or changes, by the name that its text has for it. Schema is empty if the
// text has none. With Column or Constraint it is that of the relation alone.
type Subject struct {
	Kind       SubjectKind `json:"kind"`
	Schema     string      `json:"schema,omitempty"`
	Name       string      `json:"name"`
	Args       []string    `json:"args"` // types that a function takes, as SQL has them; nil if the text has none
	Column     string      `json:"col,omitempty"`
	Constraint string      `json:"con,omitempty"`
}

// SubjectKind says in which catalog a subject is.
type SubjectKind string

const (
	SubjectRelation  SubjectKind = "relation"
	SubjectType      SubjectKind = "type" // also a domain
	SubjectFunction  SubjectKind = "function"
	SubjectCollation SubjectKind = "collation"
	SubjectExtension SubjectKind = "extension"
)

// Subjects lists what a definition drops or changes: something temporary that depends on one of them may be in its way.
// Of a definition whose text does not say it, and of what is no definition, there are none.
func Subjects(sql string) (out []Subject) {
	tree, err := parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return nil
	}
	n := tree.Stmts[0].Stmt
	switch v := n.GetNode().(type) {
	case *pg.Node_DropStmt:
		return dropSubjects(v.DropStmt)
	case *pg.Node_AlterTableStmt:
		return alterSubjects(v.AlterTableStmt)
	case *pg.Node_AlterDomainStmt:
		return []Subject{named(SubjectType, v.AlterDomainStmt.TypeName)}
	}
	for _, r := range rangeVars(n) {
		out = append(out, Subject{Kind: SubjectRelation, Schema: r.GetSchemaname(), Name: r.GetRelname()})
	}
	return out
}

// subjectKinds are those of what DROP names by its own name.
var subjectKinds = map[pg.ObjectType]SubjectKind{
	pg.ObjectType_OBJECT_TABLE: SubjectRelation, pg.ObjectType_OBJECT_VIEW: SubjectRelation,
	pg.ObjectType_OBJECT_MATVIEW: SubjectRelation, pg.ObjectType_OBJECT_SEQUENCE: SubjectRelation,
	pg.ObjectType_OBJECT_INDEX: SubjectRelation, pg.ObjectType_OBJECT_FOREIGN_TABLE: SubjectRelation,
	pg.ObjectType_OBJECT_TYPE: SubjectType, pg.ObjectType_OBJECT_DOMAIN: SubjectType,
	pg.ObjectType_OBJECT_FUNCTION: SubjectFunction, pg.ObjectType_OBJECT_PROCEDURE: SubjectFunction,
	pg.ObjectType_OBJECT_ROUTINE: SubjectFunction, pg.ObjectType_OBJECT_AGGREGATE: SubjectFunction,
	pg.ObjectType_OBJECT_COLLATION: SubjectCollation, pg.ObjectType_OBJECT_EXTENSION: SubjectExtension,
}

func dropSubjects(d *pg.DropStmt) (out []Subject) {
	kind, ok := subjectKinds[d.RemoveType]
	if !ok {
		return nil
	}
	for _, o := range d.Objects {
		switch v := o.GetNode().(type) {
		case *pg.Node_List:
			out = append(out, named(kind, v.List.Items))
		case *pg.Node_TypeName:
			out = append(out, named(kind, v.TypeName.Names))
		case *pg.Node_String_:
			out = append(out, Subject{Kind: kind, Name: v.String_.Sval})
		case *pg.Node_ObjectWithArgs:
			t := named(kind, v.ObjectWithArgs.Objname)
			if !v.ObjectWithArgs.ArgsUnspecified {
				t.Args = []string{}
				for _, a := range v.ObjectWithArgs.Objargs {
					t.Args = append(t.Args, typeText(a.GetTypeName()))
				}
			}
			out = append(out, t)
		}
	}
	return out
}

// alterSubjects are the columns and constraints that ALTER TABLE drops or changes, or the whole relation.
func alterSubjects(a *pg.AlterTableStmt) (out []Subject) {
	for _, n := range a.Cmds {
		t := Subject{Kind: SubjectRelation, Schema: a.Relation.GetSchemaname(), Name: a.Relation.GetRelname()}
		switch cmd := n.GetAlterTableCmd(); cmd.GetSubtype() {
		case pg.AlterTableType_AT_DropColumn, pg.AlterTableType_AT_AlterColumnType:
			t.Column = cmd.Name
		case pg.AlterTableType_AT_DropConstraint:
			t.Constraint = cmd.Name
		}
		out = append(out, t)
	}
	return out
}

// named makes a subject of a name of one or more parts.
func named(kind SubjectKind, parts []*pg.Node) Subject {
	t := Subject{Kind: kind}
	for _, p := range parts {
		t.Schema, t.Name = t.Name, p.GetString_().GetSval()
	}
	return t
}

// typeText is a type's name as SQL has it, without modifiers.
func typeText(t *pg.TypeName) string {
	var parts []string
	for _, p := range t.GetNames() {
		parts = append(parts, quote(p.GetString_().GetSval()))
	}
	text := strings.Join(parts, ".")
	if len(t.GetArrayBounds()) > 0 {
		text += "[]"
	}
	return text
}

// SpellsFunction reports whether a definition makes a function or procedure of SQL. PostgreSQL has read its body then,
// and locked what the body writes to, but has run nothing of it.
func SpellsFunction(sql string) bool {
	tree, err := parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return false
	}
	f := tree.Stmts[0].Stmt.GetCreateFunctionStmt()
	for _, o := range f.GetOptions() {
		if d := o.GetDefElem(); d.GetDefname() == "language" {
			return d.GetArg().GetString_().GetSval() == "sql"
		}
	}
	return f != nil // whose body is SQL
}

// Renames tells of an ALTER TABLE that gives a table another name (whole), or a column or constraint of it, what the
// table was called. It is false for any other text.
func Renames(sql string) (table string, whole, ok bool) {
	tree, err := parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return "", false, false
	}
	r := tree.Stmts[0].Stmt.GetRenameStmt()
	switch r.GetRenameType() {
	case pg.ObjectType_OBJECT_TABLE:
		return r.GetRelation().GetRelname(), true, true
	case pg.ObjectType_OBJECT_TABCONSTRAINT:
		return r.GetRelation().GetRelname(), false, true
	case pg.ObjectType_OBJECT_COLUMN:
		return r.GetRelation().GetRelname(), false, r.GetRelationType() == pg.ObjectType_OBJECT_TABLE
	}
	return "", false, false
}
