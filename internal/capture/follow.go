package capture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// FollowQuery asks, in a transaction that has noted definitions, for what Follow needs. It runs
// through tutti.privileged.
func FollowQuery() string {
	return "SELECT json_build_object('tables', (" + DescribeQuery() + ")::json, 'rewritten', " +
		"pg_catalog.string_to_array(pg_catalog.rtrim(pg_catalog.current_setting('tutti.rewritten', true), ','), " +
		"',')::pg_catalog.int8[], 'events', " + EventsQuery + ", 'stands', tutti.views_stand(), 'views', " +
		filledViews + ")::text"
}

// State is the answer to FollowQuery.
type State struct {
	Tables    json.RawMessage `json:"tables"`    // for DecodeDescribe
	Rewritten []uint32        `json:"rewritten"` // tables whose rows are to be captured anew
	Events    bool            `json:"events"`    // there are event triggers of users
	Views     []Definition    `json:"views"`     // that fill materialized views which this transaction has filled
}

// Follow returns the statements, as one text, that follow up what was noted: triggers are made to fit,
// rows that new tables have already, and those of tables that were filled, are captured, and restarted
// sequences give the member's own values.
// It runs through tutti.privileged.
func Follow(state State) (string, error) {
	c, err := DecodeDescribe(state.Tables)
	if err != nil {
		return "", err
	}
	out := append(Refresh(c), SettleSequences)
	if state.Events {
		out = []string{Unseen(out)}
	}
	recaptured := len(out)
	for i := range c.Tables {
		switch t := &c.Tables[i]; {
		case slices.Contains(state.Rewritten, t.OID):
			name, err := json.Marshal([2]string{t.Schema, t.Name})
			if err != nil {
				return "", err
			}
			out = append(out, putText(opEmptied, string(name)), triggerCode{t}.recapture())
		case t.Trigger == "":
			out = append(out, triggerCode{t}.recapture())
		}
	}
	if len(out) > recaptured { // the rows come after the views that a function has made of them
		for i := range state.Views {
			data, err := json.Marshal(&state.Views[i])
			if err != nil {
				return "", err
			}
			out = append(out, "SELECT tutti.note(convert_to("+literal(string(data))+", 'UTF8'))")
		}
	}
	// By now its new triggers have locked a table whose keys have changed, which the definition may not have.
	out = append(out, fmt.Sprintf("SELECT tutti.put('', %d::int2, NULL, NULL, convert_to(tutti.touched()::text, "+
		"'UTF8'))", opTouched),
		"SELECT tutti.rearm()", "SELECT tutti.adopt_definitions()")
	return strings.Join(out, ";\n"), nil
}

// EventsQuery asks whether there are event triggers of users.
const EventsQuery = `EXISTS (SELECT FROM pg_catalog.pg_event_trigger e JOIN pg_catalog.pg_proc p ON p.oid ` +
	`OPERATOR(pg_catalog.=) e.evtfoid
  WHERE e.evtenabled OPERATOR(pg_catalog.<>) 'D' AND p.pronamespace OPERATOR(pg_catalog.<>) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid)`

// Unseen returns a statement that runs definitions of Tutti's such that users' event triggers do not fire for them.
// Without event triggers it is not worth it: PostgreSQL forgets a session's plans. Run it as a superuser.
func Unseen(statements []string) string {
	return "SELECT tutti.unseen(" + literal(strings.Join(statements, ";\n")) + ")"
}

// SilenceEvents disables users' event triggers until RestoreEvents, in one transaction; the rows it returns, OID and
// state, are RestoreEvents' parameters as arrays. Between them no definition may concern event triggers. Run both as a
// superuser.
const SilenceEvents = `UPDATE pg_catalog.pg_event_trigger e SET evtenabled = 'D' FROM ` +
	`pg_catalog.pg_event_trigger o, pg_catalog.pg_proc p
  WHERE o.oid OPERATOR(pg_catalog.=) e.oid AND o.evtenabled OPERATOR(pg_catalog.<>) 'D' AND p.oid OPERATOR(pg_catalog.=) e.evtfoid
    AND p.pronamespace OPERATOR(pg_catalog.<>) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid RETURNING o.oid, o.evtenabled::pg_catalog.text`

// RestoreEvents is the end of SilenceEvents. Event triggers may have been dropped meanwhile.
const RestoreEvents = `UPDATE pg_catalog.pg_event_trigger e SET evtenabled = x.state::pg_catalog."char"
  FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog._oid), pg_catalog.unnest($2::pg_catalog._text)) AS x(oid, state) WHERE e.oid OPERATOR(pg_catalog.=) x.oid`

func putText(op int, text string) string {
	return fmt.Sprintf("SELECT tutti.put('', %d::int2, NULL, NULL, convert_to(%s, 'UTF8'))", op, literal(text))
}
