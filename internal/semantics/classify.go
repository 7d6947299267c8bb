package semantics

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Classify says what each statement of a query text is. It never returns an empty slice:
// a text without statements is one Empty, a text the grammar does not know one Unknown.
func Classify(sql string) []Statement {
	if s, ok := quick(sql); ok {
		s.Code = mentionsCode(sql)
		return []Statement{s}
	}
	out := grammar(sql)
	for i := range out {
		if !out[i].Rights && out[i].Kind != Refused && strings.Contains(strings.ToLower(out[i].Text), largePrefix) {
			out[i] = Statement{Kind: Refused, Text: out[i].Text, Before: out[i].Before,
				Refusal: refuseLarge("").Refusal}
		}
		out[i].Code = out[i].Code || out[i].Kind == Unknown || mentionsCode(out[i].Text)
	}
	return out
}

// grammar classifies by PostgreSQL's grammar.
func grammar(sql string) []Statement {
	tree, err := parse(ascii(sql))
	if err != nil {
		return []Statement{{Kind: Unknown, Text: sql}}
	}
	if len(tree.Stmts) == 0 {
		return []Statement{{Kind: Empty, Text: sql}}
	}
	out := make([]Statement, 0, len(tree.Stmts))
	counted, chars, begins := 0, 0, 0
	for i, raw := range tree.Stmts {
		s := classify(raw.Stmt)
		s.Text, s.Planned = sql, s.Kind == Refused && planned(raw.Stmt)
		if len(tree.Stmts) > 1 {
			from := int(raw.StmtLocation)
			to := len(sql)
			if raw.StmtLen > 0 {
				to = from + int(raw.StmtLen)
			}
			if i == 0 {
				from = 0
			}
			s.Text = strings.TrimLeft(sql[from:to], " \t\r\n;")
			begins = to - len(s.Text)
			chars += utf8.RuneCountInString(sql[counted:begins])
			counted = begins
			s.Before = chars
		}
		if s.Many = s.Kind == Copy; s.Kind == Write && changes(raw.Stmt) {
			s.Many, s.Compared = many(s.Text)
		}
		if s.Password != nil {
			s.locate()
		}
		if c := raw.Stmt.GetCreateStmt(); c != nil && s.Kind == Definition {
			s.Likes = likes(c, s.Text, begins)
		}
		if s.Detach != nil {
			s.Detach.located(s.Text)
		}
		if s.reworded() {
			if s.Concurrent != nil {
				s.Concurrent.Text = s.Text
			}
			s.Text = steady(s.Text)
		}
		if sel := raw.Stmt.GetSelectStmt(); sel != nil && s.Kind == Read {
			s.Locks = locksOf(sel, s.Text)
		}
		out = append(out, s)
	}
	return out
}

// ascii gives a text in another encoding than UTF-8 a form the parser takes: to the lexer all
// bytes above ASCII are letters.
func ascii(sql string) string {
	if utf8.ValidString(sql) {
		return sql
	}
	b := []byte(sql)
	for i := range b {
		if b[i] >= utf8.RuneSelf {
			b[i] = 'x'
		}
	}
	return string(b)
}

func classify(n *pg.Node) Statement {
	if name := preparedName(n); strings.HasPrefix(name, ReservedPrefix) {
		s := refuse(fmt.Sprintf("the name \"%s\" is reserved for Tutti", name), "")
		s.Refusal.Code = "42501"
		return s
	}
	return classifyNode(n)
}

func classifyNode(n *pg.Node) Statement {
	switch v := n.GetNode().(type) {
	case *pg.Node_TransactionStmt:
		return transaction(v.TransactionStmt)
	case *pg.Node_SelectStmt:
		return selectStatement(n, v.SelectStmt)
	case *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt:
		return calls(n, Write)
	case *pg.Node_CallStmt:
		return procedure(n, v.CallStmt)
	case *pg.Node_ExecuteStmt:
		s := calls(n, Write)
		s.Executes = v.ExecuteStmt.Name
		return s
	case *pg.Node_DoStmt:
		return block(v.DoStmt)
	case *pg.Node_ExplainStmt:
		return explain(n, v.ExplainStmt)
	case *pg.Node_PrepareStmt:
		s := calls(n, Read)
		s.Sticky = true
		return s
	case *pg.Node_DeclareCursorStmt:
		return Statement{Kind: Read, Later: v.DeclareCursorStmt.Options&cursorHold != 0}
	case *pg.Node_FetchStmt, *pg.Node_ClosePortalStmt:
		return Statement{Kind: Read, Sticky: true} // where a holdable cursor stands, and that it is closed
	case *pg.Node_CopyStmt:
		return copyStatement(n, v.CopyStmt)
	case *pg.Node_VariableSetStmt:
		return set(v.VariableSetStmt)
	case *pg.Node_VariableShowStmt:
		if name, ok := strings.CutPrefix(strings.ToLower(v.VariableShowStmt.Name), "tutti."); ok {
			return Statement{Kind: Tutti, Name: name}
		}
		return Statement{Kind: Read, Shows: true}
	case *pg.Node_DiscardStmt:
		return discard(v.DiscardStmt)
	case *pg.Node_DeallocateStmt:
		return Statement{Kind: Local, Forgets: v.DeallocateStmt.Name == "", Deallocates: v.DeallocateStmt.Name,
			Sticky: true}
	case *pg.Node_ListenStmt:
		return Statement{Kind: Local, Listens: true, Channel: v.ListenStmt.Conditionname}
	case *pg.Node_UnlistenStmt:
		return Statement{Kind: Local, Listens: true}
	case *pg.Node_VacuumStmt, *pg.Node_ClusterStmt, *pg.Node_ReindexStmt:
		return maintenance(n)
	case *pg.Node_NotifyStmt, *pg.Node_CheckPointStmt:
		return Statement{Kind: Local}
	case *pg.Node_LoadStmt:
		return Statement{Kind: Local, Sticky: true}
	case *pg.Node_ConstraintsSetStmt:
		return Statement{Kind: InTransaction}
	case *pg.Node_LockStmt:
		return Statement{Kind: InTransaction, LocksTables: tableLock(n, v.LockStmt)}
	case *pg.Node_TruncateStmt:
		if v.TruncateStmt.RestartSeqs {
			return confine(n, Statement{Kind: Definition, Relations: relations(n), Quiet: true, Here: true})
		}
		return Statement{Kind: Write}
	}
	return confine(n, definition(n))
}

// ReservedPrefix begins the names of prepared statements that are Tutti's. Who could run, remove or replace one could
// decide what is replicated.
const ReservedPrefix = "tutti "

// preparedName is the name of the prepared statement that a statement makes, runs or removes; empty for none.
func preparedName(n *pg.Node) string {
	switch v := n.GetNode().(type) {
	case *pg.Node_PrepareStmt:
		return v.PrepareStmt.Name
	case *pg.Node_ExecuteStmt:
		return v.ExecuteStmt.Name
	case *pg.Node_DeallocateStmt:
		return v.DeallocateStmt.Name
	case *pg.Node_ExplainStmt:
		return preparedName(v.ExplainStmt.Query)
	case *pg.Node_CreateTableAsStmt:
		return preparedName(v.CreateTableAsStmt.Query)
	}
	return ""
}

// procedure is CALL.
func procedure(n *pg.Node, c *pg.CallStmt) Statement {
	if s, is := membership(c); is {
		return s
	}
	if s, is := record(c); is {
		return s
	}
	s := calls(n, Write)
	if names := c.GetFunccall().GetFuncname(); len(names) > 0 {
		s.Calls = names[len(names)-1].GetString_().GetSval()
	}
	return s
}

// block is DO. What its text may set, the session asks for. It may commit if it says so, or calls a procedure.
func block(d *pg.DoStmt) Statement {
	s := Statement{Kind: Write, Code: true}
	for _, a := range d.Args {
		text := strings.ToLower(a.GetDefElem().GetArg().GetString_().GetSval())
		if strings.Contains(text, "default_transaction_isolation") ||
			strings.Contains(text, "session characteristics") || strings.Contains(text, "set_config") {
			s.Scope = ResetSession
		}
		s.Commits = s.Commits || strings.Contains(text, "commit") || strings.Contains(text, "rollback") ||
			strings.Contains(text, "call")
	}
	return s
}

func planned(n *pg.Node) bool {
	switch n.GetNode().(type) {
	case *pg.Node_SelectStmt, *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt:
		return true
	}
	return false
}

// changes reports whether a statement is an INSERT, UPDATE, DELETE or MERGE, or a COPY from a file.
func changes(n *pg.Node) bool {
	return n.GetInsertStmt() != nil || n.GetUpdateStmt() != nil || n.GetDeleteStmt() != nil ||
		n.GetMergeStmt() != nil || n.GetCopyStmt() != nil
}

// explain: with ANALYZE it does what it explains.
func explain(n *pg.Node, s *pg.ExplainStmt) Statement {
	if !hasOption(s.Options, "analyze") {
		return calls(n, Read)
	}
	switch s.Query.GetNode().(type) {
	case *pg.Node_CreateTableAsStmt:
		return Statement{Kind: Write}
	case *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt:
		return calls(n, Write)
	}
	return calls(n, Read)
}

func hasOption(options []*pg.Node, name string) bool {
	for _, o := range options {
		if o.GetDefElem().GetDefname() == name {
			return true
		}
	}
	return false
}

func selectStatement(n *pg.Node, s *pg.SelectStmt) Statement {
	if into := s.IntoClause; into != nil {
		if temporary(into.Rel) {
			return Statement{Kind: Temporary}
		}
		return Statement{Kind: Definition, Here: true}
	}
	if s.WithClause != nil && hasNode(s.WithClause.ProtoReflect(), "InsertStmt", "UpdateStmt", "DeleteStmt",
		"MergeStmt") {
		return calls(n, Write)
	}
	if len(s.LockingClause) == 0 && writesLargeObjects(n) {
		return calls(n, Write)
	}
	return calls(n, Read)
}

// largeWriters are the functions that write large objects. Where one is hidden, it says so when it is called.
var largeWriters = map[string]bool{
	"lo_creat": true, "lo_create": true, "lo_from_bytea": true, "lo_import": true, "lo_put": true, "lo_truncate": true,
	"lo_truncate64": true, "lo_unlink": true, "lowrite": true,
}

func writesLargeObjects(n *pg.Node) bool {
	for _, f := range functions(n.ProtoReflect()) {
		if largeWriters[f.name] {
			return true
		}
	}
	return false
}

// calls looks for functions that change state no trigger sees.
func calls(n *pg.Node, kind Kind) Statement {
	s := Statement{Kind: kind}
	for _, f := range functions(n.ProtoReflect()) {
		switch name := f.name; {
		case f.schema == "tutti":
			return refuse("functions of schema tutti are not for clients (function "+name+")", "Use SHOW tutti.status.")
		case name == "setval":
			return setval(n)
		case name == "set_config":
			setConfig(f, &s)
			if s.Kind == Refused {
				return s
			}
		case strings.HasPrefix(name, largePrefix) && (f.schema == "" || f.schema == "pg_catalog"):
			return refuseLarge(" (function " + name + ")")
		}
	}
	return s
}

// largePrefix begins the names that PostgreSQL's own writers of large objects have. They are in no text that is not
// meant to call one, be it in a function.
const largePrefix = "tutti_lo"

func refuseLarge(which string) Statement {
	return refuse("what PostgreSQL writes large objects with is not for clients"+which,
		"Use the function without the first part of its name.")
}

// setval is carried out at every member if it would do the same everywhere.
func setval(n *pg.Node) Statement {
	s := n.GetSelectStmt()
	if s == nil || volatile(n.ProtoReflect()) || hasNode(n.ProtoReflect(), "InsertStmt", "UpdateStmt", "DeleteStmt",
		"MergeStmt") {
		return refuse("setval can only be replicated as a SELECT of its own",
			"Use SELECT setval(…), or ALTER SEQUENCE … RESTART.")
	}
	for _, f := range functions(n.ProtoReflect()) {
		if !steadyFunctions[f.name] {
			return Statement{Kind: Definition, Quiet: true} // what it calls may write, so it runs once at every member
		}
	}
	return Statement{Kind: Write, Notes: true}
}

// steadyFunctions are built-in ones that a setval may call and run at its own member first: they
// write nothing.
var steadyFunctions = map[string]bool{
	"setval": true, "pg_get_serial_sequence": true, "max": true, "min": true, "count": true, "abs": true, "ceil": true,
	"floor":       true,
	"to_regclass": true, "quote_ident": true, "format": true, "concat": true, "lower": true,
}

// Substitute writes literals in the place of a statement's parameters $1, $2 …; a parameter
// without a literal stays.
func Substitute(sql string, literals []string) string {
	scan, err := pg.Scan(ascii(sql))
	if err != nil {
		return sql
	}
	var out strings.Builder
	from := 0
	for _, t := range scan.Tokens {
		if t.Token != pg.Token_PARAM {
			continue
		}
		n, err := strconv.Atoi(sql[t.Start+1 : t.End])
		if err != nil || n < 1 || n > len(literals) {
			continue
		}
		out.WriteString(sql[from:t.Start])
		out.WriteString(" " + literals[n-1] + " ")
		from = int(t.End)
	}
	return out.String() + sql[from:]
}

// setConfig adds to s what a call of set_config does. A name that is not in the text may be any.
func setConfig(f call, s *Statement) {
	if len(f.args) == 0 {
		return
	}
	local := len(f.args) == 3 && f.args[2].GetAConst().GetBoolval().GetBoolval() // ends with the transaction
	switch name, literal := stringConst(f.args[0]); {
	case !literal || strings.EqualFold(name, "default_transaction_isolation"):
		if !local {
			s.Scope = ResetSession
		}
	case protectedSetting(name):
		*s = refuseSetting(name)
	case strings.EqualFold(name, "transaction_isolation"):
		*s = refuse("a transaction's isolation level cannot be set through set_config",
			"Use SET TRANSACTION, or BEGIN ISOLATION LEVEL.")
	}
}

func copyStatement(n *pg.Node, c *pg.CopyStmt) Statement {
	switch {
	case !c.IsFrom:
		kind := Read
		// it cannot be run twice, if its query turns out to write
		if hasNode(c.ProtoReflect(), "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt") ||
			c.Filename != "" && c.Query != nil {
			kind = Write
		}
		s := calls(n, kind)
		s.Sticky = c.Filename != "" // or a program
		return s
	case c.Filename == "" && !c.IsProgram:
		return calls(n, Copy)
	}
	return Statement{Kind: Write, Sticky: c.IsProgram}
}

func discard(v *pg.DiscardStmt) Statement {
	if v.Target != pg.DiscardMode_DISCARD_ALL {
		return Statement{Kind: Local, Sticky: true}
	}
	return Statement{Kind: Local, Forgets: true, Sticky: true, Listens: true, Scope: ResetSession}
}

// maintenance classifies what each member does for itself.
func maintenance(n *pg.Node) Statement {
	switch v := n.GetNode().(type) {
	case *pg.Node_VacuumStmt:
		if v.VacuumStmt.IsVacuumcmd {
			return Statement{Kind: Local, Alone: "VACUUM", Tag: "VACUUM"}
		}
		return Statement{Kind: Local, Tag: "ANALYZE"}
	case *pg.Node_ReindexStmt:
		if hasOption(v.ReindexStmt.Params, "concurrently") {
			return Statement{Kind: Local, Alone: "REINDEX CONCURRENTLY"}
		}
		return Statement{Kind: Local, Tag: "REINDEX"}
	}
	return Statement{Kind: Local, Tag: "CLUSTER"}
}
