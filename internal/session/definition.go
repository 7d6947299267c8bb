package session

import (
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// RoleSetting names the origin's current role among a definition's settings.
const RoleSetting = "role"

// definition runs DDL: inside the client's transaction if there is one, else at every member at its
// place in the order.
func (s *Session) definition(st semantics.Statement) (bool, error) {
	if st.Alone != "" && s.block != idle {
		return true, s.fail(wire.Errorf(wire.CodeActiveTransaction, "%s cannot run inside a transaction block", st.Alone))
	}
	local, err := s.onlyTemporary(st)
	if err != nil {
		return true, err
	}
	if local {
		var rep reply
		return s.execute(request{frames: wire.AppendQuery(nil, st.Text), write: true, sql: []string{st.Text}}, &rep)
	}
	if s.block == active || st.Here {
		return s.here(st)
	}
	return s.define(st.Text)
}

// onlyTemporary reports whether every relation a definition names is temporary.
func (s *Session) onlyTemporary(st semantics.Statement) (bool, error) {
	if len(st.Relations) == 0 || s.block == failed {
		return false, nil
	}
	if s.block == active {
		if err := s.ensureOpen(true); err != nil {
			return false, err
		}
	}
	names := make([]string, len(st.Relations))
	for i, r := range st.Relations {
		names[i] = "to_regclass('" + strings.ReplaceAll(r, "'", "''") + "')"
	}
	// A name of too many parts fails here; the definition then tells the client why.
	r, rows, err := s.ask("SELECT coalesce(bool_and(relpersistence = 't'), false) FROM pg_catalog.pg_class WHERE oid IN (" + strings.Join(names, ",") + ")")
	return err == nil && r.failed == nil && len(rows) == 1 && string(rows[0][0]) == "t", err
}

func (s *Session) define(sql string) (bool, error) {
	d, err := s.described(sql)
	if err != nil {
		return true, err
	}
	r := s.host.Define(d)
	return r.Err != nil, s.answer(r, false)
}

// described is a definition with the session's settings.
func (s *Session) described(sql string) (Definition, error) {
	carried := s.o.Collector.Carried()
	list := make([]string, 0, len(carried)+1)
	list = append(list, "current_user")
	for _, c := range carried {
		list = append(list, "pg_catalog.current_setting('"+c+"')")
	}
	rows, err := s.query("SELECT " + strings.Join(list, ","))
	if err != nil {
		return Definition{}, err
	}
	d := Definition{SQL: sql, Settings: []Setting{{RoleSetting, string(rows[0][0])}}}
	for i, c := range carried {
		d.Settings = append(d.Settings, Setting{c, string(rows[0][i+1])})
	}
	return d, nil
}
