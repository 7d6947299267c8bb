package semantics

import (
	"errors"
	"fmt"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ErrFills is for an ALTER TABLE whose columns cannot be filled alike at every member.
var ErrFills = errors.New("semantics: columns that are filled differently at each member")

// Fills reports whether a text is one ALTER TABLE with defaults that may be other values at each member.
func Fills(sql string) bool {
	_, alter, err := parseAlter(sql)
	return err == nil && fills(alter)
}

// Filled gives an ALTER TABLE in the form in which it does at every member what it did at the first.
// values are, by name, what the columns that it added got in the rows that were there, nil for NULL:
// they become the columns' defaults while the columns are added, and the defaults are set afterwards.
// A column that is not in values was there already.
func Filled(sql string, values map[string]*string) (string, error) {
	tree, alter, err := parseAlter(sql)
	if err != nil {
		return "", err
	}
	var later []*pg.Node
	for _, c := range alter.Cmds {
		cmd := c.GetAlterTableCmd()
		column := cmd.Def.GetColumnDef()
		if cmd.GetSubtype() != pg.AlterTableType_AT_AddColumn || !fillsRows(column) {
			continue
		}
		v, known := values[column.Colname]
		set := ownDefault(column)
		switch {
		case known && set != nil:
			later = append(later, &pg.Node{Node: &pg.Node_AlterTableCmd{AlterTableCmd: &pg.AlterTableCmd{
				Subtype: pg.AlterTableType_AT_ColumnDefault, Name: column.Colname, Def: set.RawExpr,
				Behavior: pg.DropBehavior_DROP_RESTRICT}}})
			set.RawExpr = constant(v, column.TypeName)
		case !cmd.MissingOk && set != nil:
			return "", fmt.Errorf("%w: column %s", ErrFills, column.Colname)
		}
	}
	alter.Cmds = append(alter.Cmds, later...)
	return deparse(tree)
}

// Refills reports ErrFills if an ALTER TABLE also demands something of the values that it fills in at
// each member before they are replaced by those of the first.
func Refills(sql string) error {
	_, alter, err := parseAlter(sql)
	if err != nil {
		return err
	}
	for _, c := range alter.Cmds {
		cmd := c.GetAlterTableCmd()
		constraints := cmd.Def.GetColumnDef().GetConstraints()
		if cmd.GetSubtype() == pg.AlterTableType_AT_AddConstraint {
			constraints = []*pg.Node{cmd.Def}
		}
		for _, k := range constraints {
			switch k.GetConstraint().GetContype() {
			case pg.ConstrType_CONSTR_CHECK, pg.ConstrType_CONSTR_FOREIGN, pg.ConstrType_CONSTR_EXCLUSION:
				return fmt.Errorf("%w: a constraint looks at them", ErrFills)
			}
		}
	}
	return nil
}

func parseAlter(sql string) (*pg.ParseResult, *pg.AlterTableStmt, error) {
	tree, err := parse(sql)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFills, err)
	}
	if len(tree.Stmts) == 1 {
		if a := tree.Stmts[0].Stmt.GetAlterTableStmt(); a != nil {
			return tree, a, nil
		}
	}
	return nil, nil, fmt.Errorf("%w: no ALTER TABLE of its own", ErrFills)
}

// ownDefault is a column's DEFAULT clause.
func ownDefault(c *pg.ColumnDef) *pg.Constraint {
	for _, k := range c.Constraints {
		if v := k.GetConstraint(); v.GetContype() == pg.ConstrType_CONSTR_DEFAULT {
			return v
		}
	}
	return nil
}

// constant is a literal of a type; nil is NULL.
func constant(text *string, of *pg.TypeName) *pg.Node {
	if text == nil {
		return &pg.Node{Node: &pg.Node_AConst{AConst: &pg.A_Const{Isnull: true}}}
	}
	return &pg.Node{Node: &pg.Node_TypeCast{TypeCast: &pg.TypeCast{Arg: pg.MakeAConstStrNode(*text, -1),
		TypeName: proto.Clone(of).(*pg.TypeName), Location: -1}}}
}

// deparse gives a tree's text, and an error if the text means anything else.
func deparse(tree *pg.ParseResult) (string, error) {
	sql, err := pg.Deparse(tree)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFills, err)
	}
	again, err := parse(sql)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFills, err)
	}
	unplaced(tree.ProtoReflect())
	unplaced(again.ProtoReflect())
	if !proto.Equal(tree, again) {
		return "", fmt.Errorf("%w: its text cannot be written anew", ErrFills)
	}
	return sql, nil
}

// unplaced forgets where in the text things stood.
func unplaced(m protoreflect.Message) {
	walk(m, func(m protoreflect.Message) {
		fields := m.Descriptor().Fields()
		for _, name := range []protoreflect.Name{"location", "stmt_location", "stmt_len"} {
			if f := fields.ByName(name); f != nil && f.Kind() == protoreflect.Int32Kind {
				m.Clear(f)
			}
		}
	})
}
