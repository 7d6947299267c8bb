package semantics

import pg "github.com/pganalyze/pg_query_go/v6"

// temporarySchema is the session's own schema, under the name that every session knows it by.
const temporarySchema = "pg_temp"

// temporaryNames reports whether a definition of something that is no relation names objects in
// the session's temporary schema, and nothing else.
func temporaryNames(n *pg.Node) bool {
	switch v := n.GetNode().(type) {
	case *pg.Node_CompositeTypeStmt:
		return v.CompositeTypeStmt.Typevar.GetSchemaname() == temporarySchema
	case *pg.Node_CreateEnumStmt:
		return inTemporary(v.CreateEnumStmt.TypeName)
	case *pg.Node_CreateRangeStmt:
		return inTemporary(v.CreateRangeStmt.TypeName)
	case *pg.Node_CreateDomainStmt:
		return inTemporary(v.CreateDomainStmt.Domainname)
	case *pg.Node_CreateStatsStmt:
		return inTemporary(v.CreateStatsStmt.Defnames)
	case *pg.Node_AlterStatsStmt:
		return inTemporary(v.AlterStatsStmt.Defnames)
	case *pg.Node_DefineStmt:
		return inTemporary(v.DefineStmt.Defnames)
	case *pg.Node_CreateFunctionStmt:
		return inTemporary(v.CreateFunctionStmt.Funcname)
	case *pg.Node_AlterFunctionStmt:
		return inTemporary(v.AlterFunctionStmt.Func.GetObjname())
	case *pg.Node_AlterEnumStmt:
		return inTemporary(v.AlterEnumStmt.TypeName)
	case *pg.Node_AlterDomainStmt:
		return inTemporary(v.AlterDomainStmt.TypeName)
	case *pg.Node_AlterTypeStmt:
		return inTemporary(v.AlterTypeStmt.TypeName)
	case *pg.Node_RenameStmt:
		return temporaryObject(v.RenameStmt.Object)
	case *pg.Node_AlterOwnerStmt:
		return temporaryObject(v.AlterOwnerStmt.Object)
	case *pg.Node_CommentStmt:
		return temporaryObject(v.CommentStmt.Object)
	case *pg.Node_DropStmt:
		for _, o := range v.DropStmt.Objects {
			if !temporaryObject(o) {
				return false
			}
		}
		return len(v.DropStmt.Objects) > 0
	}
	return false
}

// temporaryObject is temporaryNames of one object, as DROP and ALTER name it.
func temporaryObject(o *pg.Node) bool {
	switch v := o.GetNode().(type) {
	case *pg.Node_List:
		return inTemporary(v.List.Items)
	case *pg.Node_TypeName:
		return inTemporary(v.TypeName.Names)
	case *pg.Node_ObjectWithArgs:
		return inTemporary(v.ObjectWithArgs.Objname)
	}
	return false
}

// inTemporary reports whether a name is qualified with the temporary schema.
func inTemporary(name []*pg.Node) bool {
	return len(name) > 1 && name[0].GetString_().GetSval() == temporarySchema
}
