package sim

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// tableNames are those of the tables that clients of production sessions use.
var tableNames = map[string]table{"accounts": tAccount, "lists": tList, "counters": tCounter}

func tableOf(name string) (table, bool) {
	t, ok := tableNames[name]
	return t, ok
}

func (t table) sql() string {
	return map[table]string{tAccount: "accounts", tList: "lists", tCounter: "counters"}[t]
}

// oid is what it is named by in what is returned.
func (t table) oid() uint32 { return 20_000 + uint32(t) }

// dataVerb is what a statement of a client does.
type dataVerb uint8

const (
	dataRead dataVerb = iota
	dataScan
	dataAdd
	dataSet
	dataAppend
	dataInsert
	dataDelete
)

// dataStatement is a client's statement as the model reads it. Its arguments are parameters, or digits.
type dataStatement struct {
	verb  dataVerb
	table table
	id, n string
	minus bool
	shows bool // RETURNING n
}

// grammar is what the model understands of SQL.
var grammar = []struct {
	verb dataVerb
	re   *regexp.Regexp
}{
	{dataRead, regexp.MustCompile(`^SELECT (?:n|list), tag FROM (?P<table>\w+) WHERE id = (?P<id>\S+)$`)},
	{dataScan, regexp.MustCompile(`^SELECT id, n, tag FROM (?P<table>\w+)$`)},
	{dataAdd, regexp.MustCompile(`^UPDATE (?P<table>\w+) SET n = n (?P<sign>[+-]) (?P<n>\S+) WHERE id = (?P<id>\S+)$`)},
	{dataSet, regexp.MustCompile(`^UPDATE (?P<table>\w+) SET n = (?P<n>\S+) WHERE id = (?P<id>\S+)$`)},
	{dataAppend, regexp.MustCompile(`^UPDATE (?P<table>\w+) SET list = list \|\| (?P<n>\S+) WHERE id = (?P<id>\S+)$`)},
	{dataInsert, regexp.MustCompile(`^INSERT INTO (?P<table>\w+) \(id, n\) VALUES \((?P<id>\S+), (?P<n>\S+)\)$`)},
	{dataDelete, regexp.MustCompile(`^DELETE FROM (?P<table>\w+) WHERE id = (?P<id>\S+)$`)},
}

// returningN ends a statement that shows what it has made.
const returningN = " RETURNING n"

// understood are texts with parameters that were read before. One simulation runs at a time.
var understood = map[string]*dataStatement{}

// understand reads a statement; nil if it is none that looks at rows.
func understand(sql string) *dataStatement {
	if st, ok := understood[sql]; ok {
		return st
	}
	var out *dataStatement
	text, shows := strings.CutSuffix(sql, returningN)
	for _, g := range grammar {
		m := g.re.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		out = &dataStatement{verb: g.verb, shows: shows}
		for i, name := range g.re.SubexpNames() {
			switch name {
			case "table":
				t, ok := tableOf(m[i])
				if !ok {
					return nil
				}
				out.table = t
			case "id":
				out.id = m[i]
			case "n":
				out.n = m[i]
			case "sign":
				out.minus = m[i] == "-"
			}
		}
		break
	}
	if strings.Contains(sql, "$") || out == nil {
		understood[sql] = out
	}
	return out
}

// formOf splits what was made of a client's statement from the statement.
func formOf(sql string) (form, text string) {
	for _, f := range []string{ownDirect, ownReadThrough, ownProbe} {
		if rest, ok := strings.CutPrefix(sql, f); ok {
			return f, rest
		}
	}
	return "", sql
}

// takesTime reports whether a statement looks at rows.
func takesTime(sql string) bool {
	_, text := formOf(sql)
	return understand(text) != nil
}

// columnsOf are the columns that a statement returns.
func columnsOf(sql string) (columns []string) {
	form, text := formOf(sql)
	if form != "" {
		columns = append(columns, "tutti")
	}
	st := understand(text)
	switch {
	case st == nil || form == ownProbe:
	case st.shows:
		return append(columns, "n")
	case st.verb == dataScan:
		return append(columns, "id", "n", "tag")
	case st.verb == dataRead && st.table == tList:
		return append(columns, "list", "tag")
	case st.verb == dataRead:
		return append(columns, "n", "tag")
	}
	return columns
}

// argument is the value of an argument with the parameters of an execution.
func argument(arg string, values [][]byte) int64 {
	if p, ok := strings.CutPrefix(arg, "$"); ok {
		i, err := strconv.Atoi(p)
		must(err)
		arg = string(values[i-1])
	}
	n, err := strconv.ParseInt(arg, 10, 64)
	must(err)
	return n
}

// key is the row that a statement is about, and by the value that it gives or adds.
func (st *dataStatement) key(values [][]byte) rowKey {
	return rowKey{st.table, uint32(argument(st.id, values))}
}

func (st *dataStatement) by(values [][]byte) int64 {
	if st.n == "" {
		return 0
	}
	n := argument(st.n, values)
	if st.minus {
		n = -n
	}
	return n
}

// data runs a statement that looks at rows. When it waits it will be called again from the start.
func (b *backend) data(x execution) (a answer, waits bool) {
	form, text := formOf(x.text)
	st := understand(text)
	writes := st.verb >= dataAdd && form != ownProbe
	switch {
	case b.t == nil && writes || writes && b.setting == "":
		return answer{failed: wire.Errorf(wire.CodeTuttiReplicationRefused, "a write outside of a transaction")}, false
	case writes && b.reads:
		return answer{failed: wire.Errorf(wire.CodeReadOnlyTransaction, "a write in a READ ONLY transaction")}, false
	case writes && b.setting == "collected":
		b.s.m.w.violation("%v: a transaction writes that was collected", b.s.m)
	}
	if b.t == nil { // a transaction of its own
		b.begin(false)
		defer b.rollback()
	}
	b.snapshot()
	switch {
	case form == ownProbe:
		return b.probe(st, x.values), false
	case st.verb == dataScan:
		b.s.a.told.looked++
		return b.scan(st), false
	case st.verb == dataRead:
		b.s.a.told.looked++
		return b.read(st, x.values, form == ownReadThrough), false
	case st.verb == dataInsert:
		return b.insert(st, x.values, form == ownDirect)
	}
	return b.update(st, x.values, form == ownDirect)
}

// shows are the values of a row that a client sees.
func (v *version) shows(t table) [][]byte {
	n := strconv.FormatInt(v.v.n, 10)
	if t == tList {
		n = strings.Trim(fmt.Sprint(v.v.list), "[]")
	}
	return [][]byte{[]byte(n), []byte(strconv.FormatUint(v.tag, 10))}
}

func (b *backend) scan(st *dataStatement) answer {
	a := answer{columns: columnsOf("SELECT id, n, tag FROM " + st.table.sql())}
	for id := range rowsOf[st.table] {
		if v := b.t.read(rowKey{st.table, id}); !v.gone {
			a.rows = append(a.rows, append([][]byte{[]byte(strconv.Itoa(int(id)))}, v.shows(st.table)...))
		}
	}
	a.tag = fmt.Sprint("SELECT ", len(a.rows))
	return a
}

// read is a SELECT of one row, or a glance at it.
func (b *backend) read(st *dataStatement, values [][]byte, through bool) answer {
	v := b.t.read(st.key(values))
	a := answer{columns: []string{"n", "tag"}, tag: "SELECT 0"}
	if st.table == tList {
		a.columns[0] = "list"
	}
	if last := len(values) - 1; through && len(values[last]) > 0 {
		c, tag := parseImage(writeset.OpSet, values[last])
		if v.v, v.gone = v.after(c); !v.gone {
			v.tag = mix(v.tag ^ mix(tag))
		}
	}
	if v.gone {
		return a
	}
	row := v.shows(st.table)
	if through {
		row = append([][]byte{[]byte(modelWho)}, row...)
	}
	a.rows, a.tag = [][][]byte{row}, "SELECT 1"
	return a
}

// after is a version's value behind a blind change; gone if there is none.
func (v *version) after(c change) (out value, gone bool) {
	out, ok := v.blindly(c)
	return out, !ok
}

// probe tells whether a row is there.
func (b *backend) probe(st *dataStatement, values [][]byte) answer {
	if b.t.read(st.key(values)).gone {
		return answer{tag: "SELECT 0"}
	}
	return answer{rows: [][][]byte{{[]byte(modelWho)}}, tag: "SELECT 1"}
}

func (b *backend) insert(st *dataStatement, values [][]byte, direct bool) (a answer, waits bool) {
	k := st.key(values)
	if !b.lock(k, writeset.Exclusive) {
		return a, true
	}
	cur := b.t.latest(k)
	if !cur.gone {
		return answer{failed: wire.Errorf(wire.CodeUniqueViolation, "duplicate key value")}, false
	}
	a.tag = "INSERT 0 1"
	b.changed(&a, change{key: k, op: writeset.OpInsert, v: value{n: st.by(values)}}, cur, direct, st.shows)
	return a, false
}

// update runs an UPDATE or DELETE of one row.
func (b *backend) update(st *dataStatement, values [][]byte, direct bool) (a answer, waits bool) {
	k, word := st.key(values), "UPDATE "
	mode, op := writeset.Update, writeset.OpUpdate
	if st.verb == dataDelete {
		mode, op, word = writeset.Exclusive, writeset.OpDelete, "DELETE "
	}
	none := answer{tag: word + "0", columns: columnsOf(b.runs.text)}
	if b.t.read(k).gone {
		return none, false
	}
	if !b.lock(k, mode) {
		return a, true
	}
	cur := b.t.latest(k)
	switch {
	case b.t.repeat && cur.visible > b.t.snapshot:
		return answer{failed: wire.Errorf(wire.CodeSerializationFailure, "concurrent update")}, false
	case cur.gone:
		return none, false
	}
	c := change{key: k, op: op, prev: cur.tag, old: cur.v.n, v: cur.v}
	switch st.verb {
	case dataAdd:
		c.v.n += st.by(values)
	case dataSet:
		c.v.n = st.by(values)
	case dataAppend:
		c.v.list = append(cur.v.list[:len(cur.v.list):len(cur.v.list)], uint64(st.by(values)))
	}
	a.tag = word + "1"
	if b.s.commits() {
		return b.adds(a, c, cur, st.by(values)), false
	}
	b.changed(&a, c, cur, direct, st.shows)
	return a, false
}

// changed notes what a statement has changed: it is captured, or returned.
func (b *backend) changed(a *answer, c change, cur version, direct, shows bool) {
	if len(b.events) == 0 {
		b.s.shape = b.d.at(shapeKey, b.d.visible).v.n
	}
	b.events = append(b.events, c)
	b.net()
	var shown [][]byte
	if shows {
		v := version{v: c.v}
		a.columns, shown = []string{"n"}, v.shows(c.key.t)[:1]
		a.rows = [][][]byte{shown}
	}
	caught := !direct || b.setting != "quiet_direct"
	if direct {
		r := returned{change: c, tag: b.s.tag(), root: cur.root, order: b.d.collect(), caught: caught,
			alone: len(b.caught) == 0}
		a.rows = [][][]byte{append([][]byte{r.append(nil)}, shown...)}
	}
	if caught {
		b.caught = append(b.caught, c)
	}
}

// adds makes an addition of a transaction that commits.
func (b *backend) adds(a answer, c change, cur version, by int64) answer {
	s := b.s
	for _, x := range s.handed.try.adds {
		if x.key != c.key {
			continue
		}
		if x.v.n != by {
			s.m.w.violation("%v: a session adds %d to %v, and has ordered %d", s.m, by, x.key, x.v.n)
		}
		if err := b.t.apply(x, s.tag()); err != nil {
			s.m.w.violation("%v: transaction with tag %d %v", s.m, s.tag(), err)
		}
		r := returned{change: c, tag: s.tag(), root: cur.root, order: b.d.collect(), alone: true}
		a.rows = [][][]byte{{r.append(nil)}}
		return a
	}
	s.m.w.violation("%v: a session changes %v, which it has not ordered, when it commits", s.m, c.key)
	return a
}

// append is a returned row's own column.
func (r *returned) append(b []byte) []byte {
	b = append(b, byte(r.op), bit(r.caught), bit(r.alone))
	b = binary.AppendUvarint(b, r.order)
	b = binary.AppendUvarint(b, r.root)
	return append(b, r.image(r.tag)...)
}
