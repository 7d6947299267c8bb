package session

import (
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// carried are the settings of the session under which a definition runs at every member.
// They shape what the text means; the rest is each member's own business.
var carried = []string{
	"search_path", "DateStyle", "IntervalStyle", "TimeZone", "bytea_output", "extra_float_digits",
	"check_function_bodies", "standard_conforming_strings", "escape_string_warning", "xmloption",
	"default_table_access_method", "default_toast_compression", "row_security", "client_min_messages",
}

func refuseInBlock() *wire.SQLError {
	return wire.Errorf(wire.CodeFeatureNotSupported, "DDL inside a transaction block cannot be replicated yet").
		WithHint("Run the statement by itself, outside BEGIN … COMMIT.")
}

// definition runs DDL: at every member, at its place in the order.
func (s *Session) definition(st semantics.Statement) (bool, error) {
	local, err := s.onlyTemporary(st)
	if err != nil {
		return true, err
	}
	if local {
		var rep reply
		return s.execute(request{frames: wire.AppendQuery(nil, st.Text), write: true, sql: []string{st.Text}}, &rep)
	}
	if s.block == active {
		return true, s.fail(refuseInBlock())
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

// allTemporary reports whether every definition of a Query is of temporary relations.
func (s *Session) allTemporary(list []semantics.Statement) (bool, error) {
	for _, st := range list {
		if st.Kind != semantics.Definition {
			continue
		}
		if local, err := s.onlyTemporary(st); err != nil || !local {
			return false, err
		}
	}
	return true, nil
}

func (s *Session) define(sql string) (bool, error) {
	list := make([]string, 0, len(carried)+1)
	list = append(list, "current_user")
	for _, c := range carried {
		list = append(list, "current_setting('"+c+"')")
	}
	rows, err := s.query("SELECT " + strings.Join(list, ","))
	if err != nil {
		return true, err
	}
	d := Definition{SQL: sql, Settings: []Setting{{"role", string(rows[0][0])}}}
	for i, c := range carried {
		d.Settings = append(d.Settings, Setting{c, string(rows[0][i+1])})
	}
	r := s.host.Define(d)
	return r.Err != nil, s.answer(r, false)
}
