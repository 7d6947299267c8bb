package outcome

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// words are those of a replica that knows the keys of table a, and that b has none.
func words(m *metrics.Transactions) *Words {
	return &Words{
		Name: func(member uint32) string { return fmt.Sprint("node", member) }, LeaseMs: 700, Metrics: m,
		KeyText: func(t writeset.Table, _ []byte) (columns, values string, ok bool) { return "id", "5", t.Name == "a" },
		Keyless: func(schema, name string) bool { return schema == "public" && name == "b" },
	}
}

var (
	winner = writeset.TxID{Member: 2, Incarnation: 3, Seq: 4}
	locks  = writeset.Table{Schema: capture.SchemaName, Name: "locks of public.c"}
)

// lost is a transaction with a row in each of some tables; the key of the n-th is n+1, that of its table ten times
// that.
func lost(names ...string) *writeset.Writeset {
	ws := &writeset.Writeset{}
	for i, name := range names {
		ws.Tables = append(ws.Tables, writeset.Table{Schema: "public", Name: name, Key: uint64(10 * (i + 1))})
		ws.Rows = append(ws.Rows, writeset.Row{Table: uint32(i), Op: writeset.OpUpdate, Identity: uint64(i + 1)})
	}
	return ws
}

// TestLost: every verdict is code 40001, and names what it is about, and the winner if there is one (OC1).
func TestLost(t *testing.T) {
	w := words(nil)
	key := func(hash uint64, table uint32, mode writeset.Mode) certify.Verdict {
		return certify.Verdict{Reason: certify.KeyConflict, Winner: winner, WinnerOrdinal: 9,
			Key: writeset.Key{Hash: hash, Table: table, Mode: mode}}
	}
	won := "transaction " + winner.String() + " of node node2"
	for _, c := range []struct {
		v       certify.Verdict
		message string
		detail  string
	}{
		{key(1, 0, writeset.Exclusive), "concurrent update", `Key (id)=(5) of table "public.a": ` + won},
		{key(2, 1, writeset.Exclusive), "concurrent update", "A row without primary key, or a unique or foreign key"},
		{key(7, 0, writeset.Exclusive), "concurrent update", "A unique or foreign key (hash 0000000000000007)"},
		{key(7, 0, writeset.Read), "read/write dependencies", "A row that was read, or looked for"},
		{key(10, 0, writeset.Exclusive), "concurrent update", `The whole of table "public.a"`},
		{certify.Verdict{Reason: certify.Barrier, Winner: winner, WinnerOrdinal: 9}, "concurrent update",
			"A schema change, " + won + ", was ordered at 9"},
		{certify.Verdict{Reason: certify.TooOld}, "concurrent update", "certify_keys"},
		{certify.Verdict{Reason: certify.NotAlone}, "read/write dependencies", "SERIALIZABLE"},
		{certify.Verdict{Reason: certify.LocksLost}, "concurrent update", "700 ms"},
		{certify.Verdict{Reason: certify.Malformed}, "concurrent update", "could not be read"},
	} {
		e := w.Lost(lost("a", "b"), c.v)
		if e.Code != wire.CodeSerializationFailure || !strings.Contains(e.Message, c.message) ||
			!strings.Contains(e.Detail, c.detail) || e.Hint == "" {
			t.Errorf("%+v is told as %+v, not with %q", c.v, e, c.detail)
		}
	}
	ws := &writeset.Writeset{Tables: []writeset.Table{locks}}
	if e := w.Lost(ws, key(1, 0, writeset.Exclusive)); !strings.Contains(e.Detail, `A lock on table "public.c"`) {
		t.Errorf("locks of a table are told as %q", e.Detail)
	}
	adds := lost("a")
	adds.Rows[0].Op = writeset.OpAdd
	if e := w.Lost(adds, certify.Verdict{Reason: certify.TooOld}); !strings.Contains(e.Detail, "adds") {
		t.Errorf("of one that adds is told %q", e.Detail)
	}
}

// TestExplain: who blocked a group hears of the key that both have, and that is counted; a table as a whole is none.
func TestExplain(t *testing.T) {
	var d metrics.Database
	w := words(&d.Transactions)
	group := []engine.Task{{Ordinal: 8, Writeset: lost("a"), Item: engine.Item{ID: winner}}}
	e := w.Explain(lost("a"), group)
	if e == nil || !strings.Contains(e.Detail, "Key (id)=(5)") || !strings.Contains(e.Detail, "at ordinal 8") {
		t.Errorf("it is told %v", e)
	}
	other := lost("a")
	other.Rows[0].Identity = 77
	whole := writeset.Key{Hash: 10, Mode: writeset.Shared} // its table's
	other.Keys, group[0].Writeset.Keys = []writeset.Key{whole}, []writeset.Key{whole}
	if e := w.Explain(other, group); e != nil {
		t.Errorf("without a key in common it is told %v", e)
	}
	group[0].Local = true
	if e := w.Explain(lost("a"), group); e != nil {
		t.Errorf("by a session's own transaction it is told %v", e)
	}
	if got := counted(&d); !slices.Equal(got, []string{"[public a blocked] 1"}) {
		t.Errorf("counted are %q", got)
	}
}

// TestBlocked: who blocked a group of which no more is known hears what it is: its last transaction, or a definition.
func TestBlocked(t *testing.T) {
	w := words(nil)
	one := engine.Task{Ordinal: 8, Writeset: lost("a"), Item: engine.Item{ID: winner}}
	keyless := engine.Task{Ordinal: 9, Writeset: &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t"}}}}
	steps := engine.Task{Ordinal: 7, Writeset: &writeset.Writeset{Steps: make([]writeset.Step, 1)},
		Item: engine.Item{Kind: engine.KindStatement, ID: winner}}
	for _, c := range []struct {
		group  []engine.Task
		detail string
	}{
		{nil, ""},
		{[]engine.Task{one}, `Key (id)=(5) of table "public.a": transaction ` + winner.String()},
		{[]engine.Task{one, keyless}, `2 committed transactions up to ordinal 9 need`},
		{[]engine.Task{keyless}, `table "s.t": transaction`},
		{[]engine.Task{steps, one}, "transaction " + winner.String() + " of node node2, was ordered at 7"},
	} {
		e := w.Blocked(c.group)
		if e.Code != wire.CodeSerializationFailure || !strings.Contains(e.Detail, c.detail) ||
			(e.Detail == "") != (c.detail == "") {
			t.Errorf("it is told %q, not %q", e.Detail, c.detail)
		}
	}
	if e := w.Missed(winner); e.Code != wire.CodeSerializationFailure || !strings.Contains(e.Detail, "node2") {
		t.Errorf("who missed a definition is told %+v", e)
	}
}

// counted reads what was counted as conflicts, by the labels but the database.
func counted(d *metrics.Database) (out []string) {
	r := metrics.New()
	defer r.Enter("db", d, nil)()
	r.Read(func(s metrics.Sample) {
		if s.Name == metrics.Prefix+"conflicts_total" {
			out = append(out, fmt.Sprint(s.Values[1:], s.Value))
		}
	})
	return out
}

// TestConflictsByTable: what a verdict names is counted, a table that stands for the locks of another one under that
// one's name, and what names none without a table (OC5).
func TestConflictsByTable(t *testing.T) {
	var d metrics.Database
	w, ws := words(&d.Transactions), lost("a", "b")
	ws.Tables = append(ws.Tables, locks)
	key := func(table uint32, mode writeset.Mode) certify.Verdict {
		return certify.Verdict{Reason: certify.KeyConflict, Key: writeset.Key{Table: table, Mode: mode}}
	}
	for _, v := range []certify.Verdict{key(0, writeset.Exclusive), key(0, writeset.Exclusive), key(1, writeset.Read),
		key(2, writeset.Exclusive), key(7, writeset.Exclusive), {Reason: certify.Barrier}, {Reason: certify.TooOld}} {
		w.Count(ws, v)
	}
	want := []string{"[  ] 1", "[  definition] 1", "[  too_old] 1", "[public a row] 2", "[public b read] 1",
		"[public c lock] 1"}
	if got := counted(&d); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCodes: each of the other errors has the code that says what may be done about it (OC2, OC3, OC4), and only one
// that is told of a transaction that may be committed ends the session.
func TestCodes(t *testing.T) {
	for _, c := range []struct {
		e     *wire.SQLError
		code  string
		fatal bool
		says  string
	}{
		{Ending(), wire.CodeCannotConnectNow, false, "restarting"},
		{Pending(), wire.CodeConfigurationLimit, false, "pending_items"},
		{TooLarge(9, 8), wire.CodeProgramLimit, false, "9 bytes, more than the limit of 8"},
		{NotOrdered("the statement", time.Second), wire.CodeCannotConnectNow, false, "within 1000 ms"},
		{Unknown(winner, NoAnswer(time.Second)), wire.CodeStatementUnknown, true, "within 1000 ms"},
		{Unknown(winner, Restarts), wire.CodeStatementUnknown, true, winner.String()},
		{UnknownStatement(winner, Restarts).Err, wire.CodeStatementUnknown, false, winner.String()},
		{Undefined(certify.Verdict{Reason: certify.Outdated}).Err, wire.CodeTuttiOutdated, false, "again"},
		{Undefined(certify.Verdict{Reason: certify.Malformed}).Err, wire.CodeInternalError, false, "read"},
		{Ahead("b", "it is gone"), wire.CodeSerializationFailure, false, "At node b, which is ahead: it is gone."},
		{Elsewhere("b", "22012", "no", false), wire.CodeFeatureNotSupported, false, "SQLSTATE 22012"},
		{Elsewhere("b", "22012", "no", true), wire.CodeFeatureNotSupported, false, "schema changes"},
	} {
		if c.e.Code != c.code || (c.e.Severity == "FATAL") != c.fatal ||
			!strings.Contains(c.e.Message+c.e.Detail, c.says) {
			t.Errorf("%+v, want code %s with %q", c.e, c.code, c.says)
		}
	}
}
