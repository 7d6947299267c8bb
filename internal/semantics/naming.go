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
// else. So a definition says which names it gives and takes, and by which words it may go.

// Named are the names that a definition gives to objects or takes from them, without their schemas, in lower case:
// what it makes, drops, renames or moves. Makes: they are those of new objects. What is
// named in another way than by the search path, as a column, a trigger or a role, is none of them, and neither is
// what is dropped along with something.
func Named(sql string) (names []string, makes bool) {
	r, err := parse(sql)
	if err != nil {
		return nil, false
	}
	for _, s := range r.Stmts {
		names = append(names, namesOf(s.Stmt)...)
		makes = s.Stmt.GetDropStmt() == nil && s.Stmt.GetRenameStmt() == nil && s.Stmt.GetAlterObjectSchemaStmt() == nil
	}
	return names, makes
}

func namesOf(n *pg.Node) (names []string) {
	m := n.ProtoReflect()
	of := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	if of == nil || !slices.Contains(naming, string(of.Message().Name())) {
		return nil
	}
	stmt := m.Get(of).Message()
	if r := n.GetRenameStmt(); r != nil && inside[r.RenameType] {
		return nil
	}
	for _, field := range namedFields {
		f := stmt.Descriptor().Fields().ByName(protoreflect.Name(field))
		if f != nil && stmt.Has(f) && (field != "relation" || n.GetIndexStmt() == nil) {
			names = append(names, namesIn(f, stmt.Get(f))...)
		}
	}
	for _, e := range n.GetCreateSchemaStmt().GetSchemaElts() {
		names = append(names, namesOf(e)...)
	}
	return names
}

// inside are what is renamed inside of something else.
var inside = map[pg.ObjectType]bool{
	pg.ObjectType_OBJECT_COLUMN: true, pg.ObjectType_OBJECT_ATTRIBUTE: true, pg.ObjectType_OBJECT_TABCONSTRAINT: true,
	pg.ObjectType_OBJECT_DOMCONSTRAINT: true, pg.ObjectType_OBJECT_TRIGGER: true, pg.ObjectType_OBJECT_RULE: true,
	pg.ObjectType_OBJECT_POLICY: true,
}

// naming are the statements that give names or take them, namedFields where.
var (
	naming = strings.Fields("CreateStmt CreateForeignTableStmt ViewStmt CreateTableAsStmt IndexStmt CreateSeqStmt " +
		"CreateFunctionStmt DefineStmt CompositeTypeStmt CreateEnumStmt CreateRangeStmt CreateDomainStmt " +
		"CreateSchemaStmt CreateOpClassStmt CreateOpFamilyStmt CreateConversionStmt CreateStatsStmt SelectStmt " +
		"DropStmt RenameStmt AlterObjectSchemaStmt")
	namedFields = strings.Fields("relation base_stmt view into into_clause rel idxname sequence funcname defnames " +
		"typevar type_name domainname schemaname opclassname opfamilyname conversion_name objects object subname " +
		"authrole newname")
)

// namesIn are the names that a field of such a statement holds: that of a relation, or the last part of each.
func namesIn(f protoreflect.FieldDescriptor, v protoreflect.Value) (names []string) {
	switch {
	case f.IsList() && f.Kind() == protoreflect.MessageKind:
		list := v.List()
		for i := range list.Len() {
			names = append(names, lastName(list.Get(i).Message().Interface())...)
		}
		if f.Name() != "objects" && len(names) > 0 { // the parts of one name
			names = names[len(names)-1:]
		}
	case f.Kind() == protoreflect.StringKind:
		names = []string{strings.ToLower(v.String())}
	case f.Name() == "type_name": // what a domain is made of
	case f.Kind() == protoreflect.MessageKind:
		names = lastName(v.Message().Interface())
	}
	return names
}

// lastName is the last part of what a node names.
func lastName(m any) []string {
	parts := []*pg.Node(nil)
	switch x := m.(type) {
	case *pg.RangeVar:
		return []string{strings.ToLower(x.Relname)}
	case *pg.IntoClause:
		return lastName(x.Rel)
	case *pg.CreateStmt:
		return lastName(x.Relation)
	case *pg.TypeName:
		parts = x.Names
	case *pg.List:
		parts = x.Items
	case *pg.ObjectWithArgs:
		parts = x.Objname
	case *pg.RoleSpec: // whose schema it is called after
		return []string{strings.ToLower(x.Rolename)}
	case *pg.String:
		return []string{strings.ToLower(x.Sval)}
	case *pg.Node:
		if f := x.ProtoReflect().WhichOneof(x.ProtoReflect().Descriptor().Oneofs().Get(0)); f != nil {
			return lastName(x.ProtoReflect().Get(f).Message().Interface())
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return lastName(parts[len(parts)-1])
}

// Words are those of a definition that may be names to be searched for, in lower case and sorted, each as often as it
// is there; operators are among them. What stands in strings counts, as in nextval('s'), but for long ones: they are
// bodies.
func Words(sql string) (words []string) {
	scan, err := pg.Scan(ascii(sql))
	if err != nil {
		words, scan = word.FindAllString(strings.ToLower(sql), -1), &pg.ScanResult{}
	}
	for _, t := range scan.Tokens {
		text := strings.ToLower(sql[t.Start:t.End])
		switch {
		case t.KeywordKind == pg.KeywordKind_RESERVED_KEYWORD || t.Token == pg.Token_SQL_COMMENT ||
			t.Token == pg.Token_C_COMMENT || t.Token == pg.Token_SCONST && len(text) > bodyMin:
		case t.Token == pg.Token_Op || len(text) == 1 && strings.Contains(operators, text):
			words = append(words, text)
		case t.Token == pg.Token_IDENT:
			words = append(words, strings.ReplaceAll(strings.Trim(text, `"`), `""`, `"`))
		default:
			words = append(words, word.FindAllString(text, -1)...)
		}
	}
	slices.Sort(words)
	return words
}

// bodyMin is from how many bytes on a string is taken for the body of a function.
const bodyMin = 200

const operators = "+-*/<>=~!@#%^&|`?"

var word = regexp.MustCompile(`[a-z_\x{80}-\x{10ffff}][a-z0-9_$\x{80}-\x{10ffff}]*`)
