package semantics

import (
	"fmt"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// cursorHold is PostgreSQL's bit for WITH HOLD among the options of DECLARE.
const cursorHold = 1 << 5

func transaction(t *pg.TransactionStmt) Statement {
	switch t.Kind {
	case pg.TransactionStmtKind_TRANS_STMT_BEGIN:
		return Statement{Kind: Begin, Tag: "BEGIN", Modes: modes(t.Options)}
	case pg.TransactionStmtKind_TRANS_STMT_START:
		return Statement{Kind: Begin, Tag: "START TRANSACTION", Modes: modes(t.Options)}
	case pg.TransactionStmtKind_TRANS_STMT_COMMIT:
		return Statement{Kind: Commit, Tag: "COMMIT", Chain: t.Chain}
	case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK:
		return Statement{Kind: Rollback, Tag: "ROLLBACK", Chain: t.Chain}
	case pg.TransactionStmtKind_TRANS_STMT_SAVEPOINT:
		return Statement{Kind: InTransaction, Tag: "SAVEPOINT"}
	case pg.TransactionStmtKind_TRANS_STMT_RELEASE:
		return Statement{Kind: InTransaction, Tag: "RELEASE SAVEPOINT"}
	case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO:
		return Statement{Kind: InTransaction, Undoes: true, Tag: "ROLLBACK TO SAVEPOINT"}
	}
	return twoPhase(t)
}

// twoPhase gives the answers of a PostgreSQL whose max_prepared_transactions is 0, its default, which is what members
// have.
func twoPhase(t *pg.TransactionStmt) Statement {
	s := refuse("prepared transactions are disabled",
		"Two-phase commit is not replicated. Commit the transaction directly.")
	s.Refusal.Code = "55000"
	if s.Undoes = t.Kind == pg.TransactionStmtKind_TRANS_STMT_PREPARE; s.Undoes {
		return s
	}
	s.Refusal = Refusal{Code: "42704", Message: fmt.Sprintf(
		"prepared transaction with identifier \"%s\" does not exist", t.Gid)}
	if s.Alone = "COMMIT PREPARED"; t.Kind == pg.TransactionStmtKind_TRANS_STMT_ROLLBACK_PREPARED {
		s.Alone = "ROLLBACK PREPARED"
	}
	return s
}

func modes(options []*pg.Node) Modes {
	var m Modes
	for _, o := range options {
		d := o.GetDefElem()
		switch d.GetDefname() {
		case "transaction_isolation":
			text, _ := stringConst(d.Arg)
			m.Isolation = isolation(text)
		case "transaction_read_only":
			m.Access = "READ WRITE"
			if intConst(d.Arg) != 0 {
				m.Access = "READ ONLY"
			}
		case "transaction_deferrable":
			m.Deferrable = "NOT DEFERRABLE"
			if intConst(d.Arg) != 0 {
				m.Deferrable = "DEFERRABLE"
			}
		}
	}
	return m
}

// isolation reads a level's name.
func isolation(text string) Isolation {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "serializable":
		return Serializable
	case "repeatable read":
		return RepeatableRead
	case "read committed":
		return ReadCommitted
	case "read uncommitted":
		return ReadUncommitted
	}
	return Unsaid
}

// ParseIsolation reads a level's name as SHOW transaction_isolation prints it.
func ParseIsolation(text string) Isolation { return isolation(text) }

func set(v *pg.VariableSetStmt) Statement {
	name := strings.ToLower(v.Name)
	switch {
	case v.Kind == pg.VariableSetKind_VAR_RESET_ALL:
		return Statement{Kind: Local, Scope: ResetAll}
	case protectedSetting(name):
		return refuseSetting(name)
	case v.Kind == pg.VariableSetKind_VAR_SET_MULTI && name == "transaction snapshot":
		return refuse("an imported snapshot has no place in the order", "Use BEGIN ISOLATION LEVEL REPEATABLE READ.")
	case v.Kind == pg.VariableSetKind_VAR_SET_MULTI && name == "transaction":
		return Statement{Kind: InTransaction, Scope: ThisTransaction, Modes: modes(v.Args)}
	case v.Kind == pg.VariableSetKind_VAR_SET_MULTI && name == "session characteristics":
		return Statement{Kind: Local, Scope: ThisSession, Modes: modes(v.Args)}
	case name == "transaction_isolation":
		return isolationSet(v, InTransaction, ThisTransaction)
	case name == "default_transaction_isolation" && v.IsLocal:
		return Statement{Kind: InTransaction}
	case name == "default_transaction_isolation" && v.Kind == pg.VariableSetKind_VAR_SET_VALUE:
		return isolationSet(v, Local, ThisSession)
	case name == "default_transaction_isolation", name == "role", name == "session_authorization":
		return Statement{Kind: Local, Scope: ResetSession}
	case v.IsLocal:
		return Statement{Kind: InTransaction}
	}
	return Statement{Kind: Local}
}

func isolationSet(v *pg.VariableSetStmt, kind Kind, scope Scope) Statement {
	s := Statement{Kind: kind}
	if len(v.Args) == 1 {
		text, _ := stringConst(v.Args[0])
		if s.Modes.Isolation = isolation(text); s.Modes.Isolation != Unsaid {
			s.Scope = scope
		}
	}
	return s
}

// protectedSetting names what clients may not change: with it writes would escape.
func protectedSetting(name string) bool {
	name = strings.ToLower(name)
	// by which captured rows are ordered
	return strings.HasPrefix(name, "tutti.") || name == "session_replication_role" || name == "track_counts"
}

func refuseSetting(name string) Statement {
	return refuse("setting "+name+" cannot be changed in a replicated session: writes could escape replication",
		"Leave it at its default.")
}
