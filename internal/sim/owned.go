package sim

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/wire"
)

// Statements of the model's collector. Each begins with its word.
const (
	ownCollect     = "collect"       // slot, incarnation, sequence, and whether to mark anyway
	ownMark        = "mark"          // slot, incarnation, sequence
	ownDirect      = "direct "       // a client's statement, which returns what it changes
	ownReadThrough = "read-through " // a client's SELECT, at a row that is changed as its last parameter says
	ownProbe       = "probe "        // whether a row is there
	ownDescribe    = "describe "     // a table's shape
)

// modelWho is who all sessions are: role and search_path.
const modelWho = "app\x00public"

// own carries out a statement that looks at no rows: the session's own, and what controls the transaction.
func (b *backend) own(x execution) answer {
	word, rest, _ := strings.Cut(x.text, " ")
	switch {
	case word == "BEGIN":
		if b.t != nil {
			b.s.m.w.violation("%v: a session has begun a transaction in another one", b.s.m)
		}
		b.begin(strings.Contains(x.text, "REPEATABLE READ"))
		return answer{tag: "BEGIN"}
	case word == "COMMIT" || x.text == "ROLLBACK":
		b.rollback()
		return answer{tag: "ROLLBACK"}
	case word == "ROLLBACK" || word == "SAVEPOINT":
		return b.save(word == "ROLLBACK")
	case word == "SET":
		return b.set(x.text)
	case word == "SHOW":
		return oneRow("SHOW", map[string]string{"standard_conforming_strings": "on", "statement_timeout": "0",
			"lock_timeout": "0", "default_transaction_isolation": "read committed"}[rest])
	case word == ownMark:
		b.mark(x.values)
		return oneRow("SELECT 1", "")
	case word == ownCollect:
		return b.collect(x.values)
	case strings.HasPrefix(x.text, ownDescribe):
		t, ok := tableOf(rest)
		if !ok {
			b.s.m.w.violation("%v: there is no table %s", b.s.m, rest)
		}
		return oneRow("SELECT 1", strconv.FormatInt(b.d.shape(t), 10))
	}
	return b.asks(x.text)
}

// set carries out a SET.
func (b *backend) set(sql string) answer {
	switch to, local := strings.CutPrefix(sql, "SET LOCAL tutti.tx = "); {
	case local:
		b.setting = strings.Trim(to, "'")
	case sql == "SET transaction_read_only = on":
		b.reads = true
	}
	return answer{tag: "SET"}
}

// asks carries out what else a session asks.
func (b *backend) asks(sql string) answer {
	switch {
	case sql == "DO $$ BEGIN RAISE EXCEPTION 'refused by Tutti'; END $$":
		return answer{failed: wire.Errorf("P0001", "refused by Tutti")}
	case sql == failing:
		return answer{failed: wire.Errorf("22012", "division by zero")}
	case strings.HasPrefix(sql, "SELECT pg_catalog.current_setting("):
		b.snapshot()
		return oneRow("SELECT 1", "read committed")
	case strings.HasPrefix(sql, "SELECT CURRENT_USER, "):
		role, path, _ := strings.Cut(modelWho, "\x00")
		return oneRow("SELECT 1", role, path, "t")
	case strings.HasPrefix(sql, "SELECT pg_catalog.to_regclass('"):
		t, _ := tableOf(strings.Split(sql, `"`)[1])
		return oneRow("SELECT 1", strconv.FormatUint(uint64(t.oid()), 10))
	}
	b.s.m.w.violation("%v: the model's backend does not know %q", b.s.m, sql)
	return answer{}
}

// failing is a client's statement that fails.
const failing = "SELECT 1/0"

func oneRow(tag string, values ...string) answer {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = []byte(v)
	}
	return answer{rows: [][][]byte{out}, tag: tag, columns: make([]string, len(values))}
}

// save begins a savepoint, of which there is one name, or goes back to the last one.
func (b *backend) save(back bool) answer {
	if !back {
		b.saves = append(b.saves, savepoint{len(b.events), len(b.caught), b.setting})
		return answer{tag: "SAVEPOINT"}
	}
	if len(b.saves) == 0 {
		return answer{failed: wire.Errorf("3B001", "savepoint \"s\" does not exist")}
	}
	p := b.saves[len(b.saves)-1]
	b.events, b.caught, b.setting, b.failed = b.events[:p.events], b.caught[:p.caught], p.setting, false
	b.net()
	return answer{tag: "ROLLBACK"}
}

// snapshot takes the transaction's one snapshot, if it has one and has not taken it.
func (b *backend) snapshot() {
	if b.t != nil && b.t.repeat && !b.snapped {
		b.snapped, b.t.snapshot = true, b.d.visible
	}
}

// number reads a parameter of the collector's.
func number(v []byte) uint64 {
	n, err := strconv.ParseUint(string(v), 10, 64)
	must(err)
	return n
}

// mark says in the database which transaction this is.
func (b *backend) mark(v [][]byte) {
	b.t.marks = []mark{{uint32(number(v[0])), engine.Mark{Incarnation: number(v[1]), Seq: number(v[2])}}}
}

// collect gives what was captured. Nothing can be written afterwards, unless tutti.tx is set anew.
func (b *backend) collect(v [][]byte) answer {
	if b.t == nil {
		b.s.m.w.violation("%v: a session collects outside of a transaction", b.s.m)
	}
	b.snapshot()
	if len(b.caught) > 0 || number(v[3]) == 1 {
		b.mark(v)
	}
	b.setting = "collected"
	level := ""
	if len(b.caught) > 0 || number(v[3]) == 1 {
		if level = "read committed"; b.t.repeat {
			level = "repeatable read"
		}
	}
	row := [][]byte{binary.AppendUvarint(nil, b.d.collect()), []byte(level)}
	for i := range b.caught {
		c := &b.caught[i]
		row = append(row, append([]byte{byte(c.op)}, c.image(b.s.tag())...))
	}
	return answer{rows: [][][]byte{row}, tag: "SELECT 1"}
}

// collect is the position of the log at which a transaction's rows are looked at. What was applied then is kept with
// it.
func (d *database) collect() uint64 {
	d.collects++
	d.passed = append(d.passed, d.progress)
	return d.collects
}

// passedAt is what was applied at such a position.
func (d *database) passedAt(order uint64) uint64 {
	if order == 0 || order > uint64(len(d.passed)) {
		return 0
	}
	return d.passed[order-1]
}

// net brings what the transaction will commit in line with what it has changed.
func (b *backend) net() {
	b.t.changes = nil
	for _, c := range netted(b.events) {
		b.t.changes = append(b.t.changes, tagged{change: c, tag: b.s.tag()})
	}
}

// netted is the net effect of changes on each row, in the order in which rows were changed first.
func netted(events []change) (out []change) {
	for _, c := range events {
		i := slices.IndexFunc(out, func(o change) bool { return o.key == c.key })
		if i < 0 {
			out = append(out, c)
			continue
		}
		c.prev, c.old = out[i].prev, out[i].old
		if c.op = combine(out[i].op, c.op); c.op == 0 {
			out = slices.Delete(out, i, i+1)
			continue
		}
		out[i] = c
	}
	return out
}
