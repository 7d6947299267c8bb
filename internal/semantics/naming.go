package semantics

import (
	"regexp"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A name in a definition means what the search path finds first. If something of that name is made, renamed or dropped
// between the moment when its session ran the definition and its place in the order, other members may find something
// else. So a definition says which names it gives and takes, and which it searches for. There are two kinds: relations,
// and all else that is found by the search path (types, functions, operators, collations). A relation is a type, too.

const (
	relationName = "relation "
	objectName   = "object "
)

// Named are the names that a definition gives to objects or takes from them, without their schemas, each behind its
// kind, in lower case: of what it makes, drops, renames or moves. What is named in another way than by the search path,
// as a column, a trigger, a role or statistics, is none of them, and neither is what is dropped along with something.
// The right to use a schema decides what is found as well, so that is a name that is given.
func Named(sql string) (names []string) {
	r, err := parse(sql)
	if err != nil {
		return nil
	}
	for _, s := range r.Stmts {
		n := namer{}
		n.statement(s.Stmt)
		for _, name := range n.names {
			names = append(names, relationName+name, objectName+name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Searched are the names that a definition searches for, as Named has them. It does not search for what it makes, which
// comes first in the schema in which it is made, nor for relations behind a schema, which PostgreSQL locks. False:
// nobody can tell.
func Searched(sql string) (names []string, ok bool) {
	r, err := parse(sql)
	if err != nil {
		return nil, false
	}
	n := namer{}
	for _, s := range r.Stmts {
		n.look(s.Stmt.ProtoReflect())
	}
	slices.Sort(n.names)
	return slices.Compact(n.names), true
}

// namer gathers names.
type namer struct{ names []string }

// making are the statements that make something, and where they name it; taking those that drop, rename or move
// something. Inside are what is renamed inside of something else.
var (
	making = map[protoreflect.Name]string{
		"CreateStmt": "relation", "CreateForeignTableStmt": "base_stmt", "ViewStmt": "view",
		"CreateTableAsStmt": "into",
		"SelectStmt":        "into_clause", "IndexStmt": "idxname", "CreateSeqStmt": "sequence",
		"CreateFunctionStmt": "funcname", "DefineStmt": "defnames", "CompositeTypeStmt": "typevar",
		"CreateEnumStmt": "type_name", "CreateRangeStmt": "type_name", "CreateDomainStmt": "domainname",
		"CreateSchemaStmt": "schemaname authrole", "CreateOpClassStmt": "opclassname",
		"CreateOpFamilyStmt": "opfamilyname", "CreateConversionStmt": "conversion_name",
	}
	taking = map[protoreflect.Name]string{
		"DropStmt": "objects", "RenameStmt": "relation object subname newname",
		"AlterObjectSchemaStmt": "relation object", "GrantStmt": "objects", "AlterOwnerStmt": "object",
	}
	inside = map[pg.ObjectType]bool{
		pg.ObjectType_OBJECT_COLUMN: true, pg.ObjectType_OBJECT_ATTRIBUTE: true,
		pg.ObjectType_OBJECT_TABCONSTRAINT: true,
		pg.ObjectType_OBJECT_DOMCONSTRAINT: true, pg.ObjectType_OBJECT_TRIGGER: true, pg.ObjectType_OBJECT_RULE: true,
		pg.ObjectType_OBJECT_POLICY: true, pg.ObjectType_OBJECT_STATISTIC_EXT: true,
	}
)

// statement takes what a statement gives or takes.
func (n *namer) statement(s *pg.Node) {
	m := s.ProtoReflect()
	of := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	if g, o := s.GetGrantStmt(), s.GetAlterOwnerStmt(); g != nil && g.Objtype != pg.ObjectType_OBJECT_SCHEMA ||
		o != nil && o.ObjectType != pg.ObjectType_OBJECT_SCHEMA {
		return // who may use a schema finds what is in it
	}
	if of == nil || inside[s.GetRenameStmt().GetRenameType()] || inside[s.GetDropStmt().GetRemoveType()] ||
		inside[s.GetAlterObjectSchemaStmt().GetObjectType()] {
		return
	}
	stmt := m.Get(of).Message()
	name := stmt.Descriptor().Name()
	for _, field := range strings.Fields(making[name] + taking[name]) {
		f := stmt.Descriptor().Fields().ByName(protoreflect.Name(field))
		if f != nil && stmt.Has(f) {
			n.field(f, stmt.Get(f))
		}
	}
	for _, e := range s.GetCreateSchemaStmt().GetSchemaElts() {
		n.statement(e)
	}
}

// field takes the names in a field of one: that of a relation, or the last part of each.
func (n *namer) field(f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case f.IsList():
		before, list := len(n.names), v.List()
		for i := range list.Len() {
			n.last(list.Get(i).Message().Interface())
		}
		if f.Name() != "objects" && len(n.names) > before+1 { // the parts of one name
			n.names = append(n.names[:before], n.names[len(n.names)-1])
		}
	case f.Kind() == protoreflect.StringKind:
		n.add(v.String())
	default:
		n.last(v.Message().Interface())
	}
}

func (n *namer) add(name string) {
	if name != "" {
		n.names = append(n.names, strings.ToLower(name))
	}
}

// last takes the last part of what a node names.
func (n *namer) last(m any) {
	switch x := m.(type) {
	case *pg.RangeVar:
		n.add(x.Relname)
	case *pg.IntoClause:
		n.add(x.Rel.GetRelname())
	case *pg.CreateStmt:
		n.add(x.Relation.GetRelname())
	case *pg.RoleSpec: // whose schema it is called after
		n.add(x.Rolename)
	case *pg.String:
		n.add(x.Sval)
	case *pg.TypeName:
		n.lastOf(x.Names)
	case *pg.List:
		n.lastOf(x.Items)
	case *pg.ObjectWithArgs:
		n.lastOf(x.Objname)
	case *pg.Node:
		if f := x.ProtoReflect().WhichOneof(x.ProtoReflect().Descriptor().Oneofs().Get(0)); f != nil {
			n.last(x.ProtoReflect().Get(f).Message().Interface())
		}
	}
}

func (n *namer) lastOf(parts []*pg.Node) {
	if len(parts) > 0 {
		n.last(parts[len(parts)-1])
	}
}

// searching are the lists that name something of no relation's kind, by the field that they are in.
var searching = strings.Fields("names funcname func_name objname collname opclass collation oper_name use_op name " +
	"opclassname opfamilyname order_family defnames cfgname dictname support")

// look takes what is searched for anywhere in a statement.
func (n *namer) look(m protoreflect.Message) {
	if n.itself(m.Interface()) {
		return
	}
	made := strings.Fields(making[m.Descriptor().Name()])
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() != protoreflect.MessageKind:
		case slices.Contains(made, string(f.Name())) && f.Name() != "base_stmt":
		case f.IsList():
			n.list(f, v.List())
		default:
			n.look(v.Message())
		}
		return true
	})
}

// itself takes what a node names itself, and reports whether there is nothing below it.
func (n *namer) itself(m any) bool {
	switch x := m.(type) {
	case *pg.RangeVar:
		if x.Schemaname == "" {
			n.add(relationName + x.Relname)
		}
		return true
	case *pg.ColumnRef:
		return true
	case *pg.DefElem:
		return x.Defname == "as" // a function's body, which is read when it runs
	case *pg.A_Const:
		if f := nameText.FindStringSubmatch(x.GetSval().GetSval()); f != nil {
			n.add(relationName + f[1])
			n.add(objectName + f[1])
		}
		return true
	case *pg.TypeName:
		if x.PctType && len(x.Names) == 2 {
			n.add(relationName + x.Names[0].GetString_().GetSval())
		}
	case *pg.DropStmt:
		return n.drop(x)
	case *pg.List: // a column's or a trigger's begins with that of the relation
		n.one(x.Items, len(x.Items) == 1)
		if len(x.Items) == 2 && x.Items[0].GetString_() != nil {
			n.add(relationName + x.Items[0].GetString_().Sval)
		}
	}
	return false
}

// drop takes the relations that are dropped, if they are some.
func (n *namer) drop(d *pg.DropStmt) bool {
	if subjectKinds[d.RemoveType] != SubjectRelation {
		return false
	}
	for _, o := range d.Objects {
		if items := o.GetList().GetItems(); len(items) == 1 {
			n.one(items, true)
		}
	}
	return true
}

// list looks at what a field has several of.
func (n *namer) list(f protoreflect.FieldDescriptor, list protoreflect.List) {
	var parts []*pg.Node
	for i := range list.Len() {
		if x, ok := list.Get(i).Message().Interface().(*pg.Node); ok {
			parts = append(parts, x)
		}
		n.look(list.Get(i).Message())
	}
	switch {
	case f.Name() == "objects": // of DROP, COMMENT, GRANT: schemas, for one
		for _, p := range parts {
			n.one([]*pg.Node{p}, true)
		}
	case slices.Contains(searching, string(f.Name())):
		n.one(parts, false)
	}
}

// one takes a name, by its last part, unless it is PostgreSQL's own.
func (n *namer) one(parts []*pg.Node, relations bool) {
	if len(parts) == 0 || len(parts) > 1 && parts[0].GetString_().GetSval() == "pg_catalog" ||
		parts[len(parts)-1].GetString_() == nil {
		return
	}
	name := parts[len(parts)-1].GetString_().Sval
	n.add(objectName + name)
	if relations {
		n.add(relationName + name)
	}
}

// nameText is a text that names something, as in nextval('s').
var nameText = regexp.MustCompile(`^"?([\pL_][\pL\pN_$]*)"?(?:\(.*)?$`)

// PathNames are the schemas that a search path names, as Searched has them.
func PathNames(path string) (names []string) {
	for _, schema := range strings.Split(path, ",") {
		schema = strings.ToLower(strings.Trim(strings.TrimSpace(schema), `"`))
		names = append(names, objectName+schema)
	}
	return names
}
