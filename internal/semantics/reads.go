package semantics

import (
	"slices"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Reads is what one statement reads and writes of tables, as far as its text tells, given that its operators, casts
// and functions are PostgreSQL's own and its tables are plain ones.
type Reads struct {
	Tables    []TableRead
	Functions bool // it calls some, of plainFunctions
}

// TableRead is one table of a statement.
type TableRead struct {
	Relation string   // as SQL
	Named    []string // columns that the statement names as this table's; if one is none, it may be a function
	Verb     Verb     // zero: it is only read
	Sets     []string // columns that an UPDATE sets, also that of ON CONFLICT
	// Looks are the ways in which rows are looked for, of which each that gives values for all columns of a key
	// tells the rows. Without one, anything may have been read. Nil for an INSERT that looks for nothing.
	Looks []Look
	Scans bool // anything may have been read
}

// Look is a row, or rows, that are looked for by the values of columns.
type Look struct {
	Columns []string // nil: the table's own, in order
	Values  [][]Operand
}

// Operand is a value that a column is compared with.
type Operand struct {
	Kind  OperandKind
	Text  string // of a constant
	Param int    // number of the parameter, from 1
	Cast  string // name of the type, of PostgreSQL's own, that it is cast to; empty: none
	// Alone is true for a parameter that occurs once: if nobody has said its type, it is the column's.
	Alone bool
}

// OperandKind tells what an Operand is.
type OperandKind uint8

const (
	OtherOperand  OperandKind = iota // nothing that can be told
	TextOperand                      // a string without type
	NumberOperand                    // an integer
	BoolOperand
	ParamOperand
	ArrayOperand // a parameter, any of whose elements may be meant
)

// readsTextMax bounds the texts that ReadsOf looks at, in bytes; looksMax how many values it tells.
const (
	readsTextMax = 64 << 10
	looksMax     = 1000
)

// harmlessSettings say nothing about what a statement means.
var harmlessSettings = map[string]bool{
	"lock_timeout": true, "statement_timeout": true, "application_name": true,
	"idle_in_transaction_session_timeout": true,
	"idle_session_timeout":                true, "client_min_messages": true, "synchronous_commit": true,
}

// plainFunctions read no tables, if nobody has written others of the same names.
var plainFunctions = append(slices.Clone(directFunctions),
	"count", "sum", "min", "max", "avg", "array_agg", "string_agg", "bool_and", "bool_or", "array_length",
	"cardinality", "unnest", "nextval", "currval")

// PlainFunctions are their names.
func PlainFunctions() []string { return slices.Clone(plainFunctions) }

// readingNodes are those that may stand in a statement that reads, besides harmlessNodes.
var readingNodes = map[protoreflect.Name]bool{
	"SortBy": true, "LockingClause": true, "JoinExpr": true, "FuncCall": true, "OnConflictClause": true,
	"InferClause": true, "IndexElem": true,
}

// ReadsOf tells what one statement reads; nil if that cannot be told from its text.
func ReadsOf(sql string) *Reads {
	if len(sql) > readsTextMax {
		return nil
	}
	tree, err := parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return nil
	}
	return readsOf(tree.Stmts[0].Stmt)
}

func readsOf(n *pg.Node) *Reads {
	switch v := n.GetNode().(type) {
	case *pg.Node_VariableShowStmt, *pg.Node_NotifyStmt:
		return &Reads{}
	case *pg.Node_TransactionStmt:
		switch v.TransactionStmt.Kind {
		case pg.TransactionStmtKind_TRANS_STMT_SAVEPOINT, pg.TransactionStmtKind_TRANS_STMT_RELEASE:
			return &Reads{}
		}
		return nil
	case *pg.Node_VariableSetStmt:
		if harmlessSettings[v.VariableSetStmt.Name] {
			return &Reads{}
		}
		return nil
	}
	r := &reading{params: map[int32]int{}}
	if !r.tables(n) || !r.harmless(n.ProtoReflect()) {
		return nil
	}
	for _, name := range r.named {
		if !r.belongs(name) {
			return nil
		}
	}
	out := &Reads{Functions: r.functions}
	for _, t := range r.list {
		out.Tables = append(out.Tables, t.TableRead)
	}
	return out
}

// reading is a statement that is being looked at.
type reading struct {
	list      []*tableOf
	named     [][]string // columns with what stands before them
	params    map[int32]int
	functions bool
}

type tableOf struct {
	TableRead
	alias, name, schema string
}

// add adds a table of the statement.
func (r *reading) add(v *pg.RangeVar) *tableOf {
	t := &tableOf{alias: v.Relname, name: v.Relname, schema: v.Schemaname}
	t.Relation = quote(v.Relname)
	if v.Schemaname != "" {
		t.Relation = quote(v.Schemaname) + "." + t.Relation
	}
	if v.Alias != nil {
		t.alias = v.Alias.Aliasname
	}
	r.list = append(r.list, t)
	return t
}

// from adds the tables of a FROM clause.
func (r *reading) from(list []*pg.Node) bool {
	for _, n := range list {
		switch v := n.GetNode().(type) {
		case *pg.Node_RangeVar:
			if len(v.RangeVar.Alias.GetColnames()) > 0 || v.RangeVar.Catalogname != "" {
				return false
			}
			r.add(v.RangeVar).Scans = true
		case *pg.Node_JoinExpr:
			if v.JoinExpr.Alias != nil || v.JoinExpr.JoinUsingAlias != nil ||
				!r.from([]*pg.Node{v.JoinExpr.Larg, v.JoinExpr.Rarg}) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// tables finds the tables of a statement and how their rows are looked for.
func (r *reading) tables(n *pg.Node) bool {
	count(n.ProtoReflect(), r.params)
	switch v := n.GetNode().(type) {
	case *pg.Node_SelectStmt:
		return r.sources(v.SelectStmt)
	case *pg.Node_InsertStmt:
		return r.insert(v.InsertStmt)
	case *pg.Node_UpdateStmt:
		s := v.UpdateStmt
		if s.WithClause != nil {
			return false
		}
		t := r.add(s.Relation)
		t.Verb, t.Sets = Update, targets(s.TargetList)
		return r.where(s.WhereClause, s.FromClause)
	case *pg.Node_DeleteStmt:
		if v.DeleteStmt.WithClause != nil {
			return false
		}
		r.add(v.DeleteStmt.Relation).Verb = Delete
		return r.where(v.DeleteStmt.WhereClause, v.DeleteStmt.UsingClause)
	}
	return false
}

func targets(list []*pg.Node) (names []string) {
	for _, t := range list {
		names = append(names, t.GetResTarget().GetName())
	}
	return names
}

// sources adds what a SELECT reads.
func (r *reading) sources(s *pg.SelectStmt) bool {
	if s == nil || s.WithClause != nil || s.IntoClause != nil || s.Op != pg.SetOperation_SETOP_NONE {
		return false
	}
	if len(s.FromClause) == 1 && s.FromClause[0].GetRangeVar() != nil && len(r.list) == 0 {
		if v := s.FromClause[0].GetRangeVar(); len(v.Alias.GetColnames()) == 0 && v.Catalogname == "" {
			r.add(v)
			return r.where(s.WhereClause, nil)
		}
	}
	return r.from(s.FromClause)
}

// where tells how rows of the only table are looked for, if others is empty.
func (r *reading) where(condition *pg.Node, others []*pg.Node) bool {
	t := r.list[0]
	if len(others) > 0 {
		t.Scans = true
		return r.from(others)
	}
	var l Look
	r.equalities(t, condition, &l)
	if len(l.Columns) == 0 {
		t.Scans = true
		return true
	}
	t.Looks = []Look{l}
	return true
}

// equalities adds what all rows that meet a condition are equal to.
func (r *reading) equalities(t *tableOf, n *pg.Node, l *Look) {
	if b := n.GetBoolExpr(); b != nil && b.Boolop == pg.BoolExprType_AND_EXPR {
		for _, a := range b.Args {
			r.equalities(t, a, l)
		}
		return
	}
	x := n.GetAExpr()
	if x == nil || x.Name[len(x.Name)-1].GetString_().GetSval() != "=" {
		return
	}
	column, values := "", []Operand(nil)
	switch x.Kind {
	case pg.A_Expr_Kind_AEXPR_OP:
		left, right := x.Lexpr, x.Rexpr
		if t.column(left) == "" {
			left, right = right, left
		}
		column, values = t.column(left), []Operand{r.operand(right)}
	case pg.A_Expr_Kind_AEXPR_IN:
		column = t.column(x.Lexpr)
		for _, v := range x.Rexpr.GetList().GetItems() {
			values = append(values, r.operand(v))
		}
	case pg.A_Expr_Kind_AEXPR_OP_ANY:
		column = t.column(x.Lexpr)
		o := r.operand(x.Rexpr)
		if o.Kind != ParamOperand || o.Cast != "" {
			return
		}
		o.Kind = ArrayOperand
		values = []Operand{o}
	}
	told := !slices.ContainsFunc(values, func(o Operand) bool { return o.Kind == OtherOperand })
	if column != "" && len(values) > 0 && len(values) <= looksMax && told && !slices.Contains(l.Columns, column) {
		l.Columns, l.Values = append(l.Columns, column), append(l.Values, values)
	}
}

// column is the name of the table's column that an expression is; empty if it is none.
func (t *tableOf) column(n *pg.Node) string {
	f := n.GetColumnRef().GetFields()
	if len(f) == 2 && f[0].GetString_().GetSval() != t.alias || len(f) == 0 || len(f) > 2 {
		return ""
	}
	return f[len(f)-1].GetString_().GetSval()
}

// operand tells what a column is compared with.
func (r *reading) operand(n *pg.Node) Operand {
	switch v := n.GetNode().(type) {
	case *pg.Node_TypeCast:
		o := r.operand(v.TypeCast.Arg)
		cast := v.TypeCast.TypeName
		if o.Cast != "" || len(cast.GetTypmods()) > 0 || len(cast.GetArrayBounds()) > 0 || len(cast.GetNames()) == 0 {
			return Operand{}
		}
		o.Cast = cast.Names[len(cast.Names)-1].GetString_().GetSval()
		return o
	case *pg.Node_ParamRef:
		return Operand{Kind: ParamOperand, Param: int(v.ParamRef.Number), Alone: r.params[v.ParamRef.Number] == 1}
	case *pg.Node_AConst:
		return operandOf(n.GetAConst())
	}
	return Operand{}
}

// operandOf tells a constant. With a backslash, or as a number beyond bigint, it may mean something else to the server.
func operandOf(c *pg.A_Const) Operand {
	switch v := c.GetVal().(type) {
	case *pg.A_Const_Sval:
		if !strings.Contains(v.Sval.Sval, `\`) {
			return Operand{Kind: TextOperand, Text: v.Sval.Sval}
		}
	case *pg.A_Const_Ival:
		return Operand{Kind: NumberOperand, Text: strconv.Itoa(int(v.Ival.Ival))}
	case *pg.A_Const_Fval:
		if n, err := strconv.ParseInt(v.Fval.Fval, 10, 64); err == nil {
			return Operand{Kind: NumberOperand, Text: strconv.FormatInt(n, 10)}
		}
	case *pg.A_Const_Boolval:
		return Operand{Kind: BoolOperand, Text: strconv.FormatBool(v.Boolval.Boolval)}
	}
	return Operand{}
}

// insert tells what an INSERT reads. ON CONFLICT that goes past a row, or may do so, has looked for it.
func (r *reading) insert(s *pg.InsertStmt) bool {
	if s.WithClause != nil {
		return false
	}
	t := r.add(s.Relation)
	t.Verb = Insert
	source := s.SelectStmt.GetSelectStmt()
	values := source.GetValuesLists()
	if s.SelectStmt != nil && len(values) == 0 && !r.sources(source) {
		return false
	}
	c := s.OnConflictClause
	if c == nil {
		return true
	}
	if c.Action == pg.OnConflictAction_ONCONFLICT_UPDATE {
		t.Sets = targets(c.TargetList)
		if c.WhereClause == nil {
			return true // each row is written
		}
	}
	if len(values) == 0 || len(values) > looksMax {
		t.Scans = true
		return true
	}
	for _, row := range values {
		l := Look{Columns: targets(s.Cols)}
		for _, v := range row.GetList().GetItems() {
			l.Values = append(l.Values, []Operand{r.operand(v)})
		}
		t.Looks = append(t.Looks, l)
	}
	return true
}

// harmless is the function of that name for a statement that reads.
func (r *reading) harmless(m protoreflect.Message) bool {
	ok := true
	walk(m, func(m protoreflect.Message) {
		name := m.Descriptor().Name()
		ok = ok && (harmlessNodes[name] || readingNodes[name])
		switch n := m.Interface().(type) {
		case *pg.TypeName:
			ok = ok && !userTypes(m)
		case *pg.A_Expr:
			ok = ok && (len(n.Name) == 1 || n.Name[0].GetString_().GetSval() == "pg_catalog")
		case *pg.IndexElem:
			ok = ok && n.Expr == nil && len(n.Collation) == 0 && len(n.Opclass) == 0
		case *pg.FuncCall:
			r.functions = true
			ok = ok && oneOf(n.Funcname, plainFunctions)
		case *pg.ColumnRef:
			r.name(n)
		}
	})
	return ok
}

// name notes a column.
func (r *reading) name(n *pg.ColumnRef) {
	var parts []string
	for _, f := range n.Fields {
		if f.GetString_() == nil {
			return // all columns
		}
		parts = append(parts, f.GetString_().Sval)
	}
	r.named = append(r.named, parts)
}

// belongs finds the table whose column a name must be: with a table before it, it may be a function of
// the table's rows. A table's own name is a row of it.
func (r *reading) belongs(name []string) bool {
	if len(name) == 1 {
		return !slices.ContainsFunc(r.list, func(t *tableOf) bool { return t.alias == name[0] })
	}
	of := name[len(name)-2]
	for _, t := range r.list {
		whole := t.alias == of && len(name) == 2 || t.name == of && len(name) == 3 && t.schema == name[0]
		if whole || len(name) == 2 && of == "excluded" && t.Verb == Insert {
			t.Named = append(t.Named, name[len(name)-1])
			return true
		}
	}
	return false
}

// count counts how often each parameter occurs below m.
func count(m protoreflect.Message, params map[int32]int) {
	walk(m, func(m protoreflect.Message) {
		if p, ok := m.Interface().(*pg.ParamRef); ok {
			params[p.Number]++
		}
	})
}
