package semantics

import "strings"

// ManyTextMax is how long a text may be, in bytes, to be expected to change many rows. Who captures such
// statements as a whole looks at the text for every row.
const ManyTextMax = 4 << 10

// listMax is how many values a column may be compared with at most to tell few rows.
const listMax = 16

// Compared is what an UPDATE or DELETE looks for rows by. It is expected to change few if one of the columns
// belongs to a key of the table, and many if none does.
type Compared struct {
	Schema  string // empty if the text does not tell
	Table   string
	Columns []string // all rows that meet the condition have one of few values in each of these
}

// many guesses from the text of an INSERT, UPDATE, DELETE, MERGE or COPY whether it will change many rows:
// it will, or that depends on compared, or, without either, it will not.
func many(sql string) (many bool, compared *Compared) {
	if len(sql) > ManyTextMax {
		return false, nil
	}
	x := scanner{sql: sql}
	switch x.next(); {
	case x.is("insert"):
		return x.queries(), nil
	case x.is("update"):
		x.next()
	case x.is("delete"):
		if x.next(); !x.is("from") {
			return false, nil
		}
		x.next()
	default:
		return true, nil
	}
	if x.is("only") {
		x.next()
	}
	schema, table := x.name()
	if table == "" {
		return false, nil
	}
	if x.joins() || !x.is("where") {
		return true, nil
	}
	x.equal = false
	if x.next(); x.is("current") {
		if x.next(); x.is("of") {
			return false, nil
		}
	}
	found := x.condition()
	switch {
	case found.place:
		return false, nil
	case len(found.pinned) == 0 && !x.equal:
		return true, nil
	}
	return false, &Compared{Schema: schema, Table: table, Columns: found.pinned}
}

// Target is the table that an INSERT, UPDATE, DELETE, MERGE or COPY names first, without a schema if the text has none.
// The table is empty if it names none in that place, as COPY of a query.
func Target(sql string) (schema, table string) {
	x := scanner{sql: sql}
	switch x.next(); {
	case x.is("insert"), x.is("merge"), x.is("delete"):
		if x.next(); !x.is("into") && !x.is("from") {
			return "", ""
		}
	case x.is("update"), x.is("copy"):
	default:
		return "", ""
	}
	if x.next(); x.is("only") {
		x.next()
	}
	return x.name()
}

// queries reports whether an INSERT takes its rows from a query.
func (x *scanner) queries() bool {
	for depth := 0; x.kind != 0; x.next() {
		switch {
		case x.kind == '(':
			depth++
		case x.kind == ')':
			depth--
		case x.is("values") && depth == 0:
			return false
		case x.is("select"):
			return true
		}
	}
	return false
}

// joins goes on to WHERE, or to the end, and reports whether other tables come before it.
func (x *scanner) joins() (joins bool) {
	distinct := false
	for depth := 0; x.kind != 0; x.next() {
		switch {
		case x.kind == '(':
			depth++
		case x.kind == ')':
			depth--
		case depth > 0:
		case x.is("where"):
			return joins
		case x.is("using"), x.is("from") && !distinct: // IS DISTINCT FROM
			joins = true
		}
		distinct = x.is("distinct")
	}
	return joins
}

// operand is a part of a condition that stands between AND, OR, commas, parentheses and comparisons.
type operand struct {
	columns []string // it is nothing but this column, or a row of columns
	pinned  []string // it is a condition, true for few values of each of these columns
	place   bool     // it is a condition, true for rows of few places in the table
	value   bool     // it begins with a value
	list    int      // it is as many values in parentheses; 0: nobody knows how many
	array   int      // and so many if it is an array in parentheses
}

// condition reads alternatives. What is pinned by it is pinned by each of them.
func (x *scanner) condition() operand {
	all := x.alternative()
	for x.is("or") {
		x.next()
		one := x.alternative()
		all = operand{pinned: common(all.pinned, one.pinned), place: all.place && one.place}
	}
	return all
}

func common(a, b []string) (both []string) {
	for _, s := range a {
		for _, t := range b {
			if s == t {
				both = append(both, s)
				break
			}
		}
	}
	return both
}

// alternative reads conditions that are joined by AND.
func (x *scanner) alternative() operand {
	all := x.comparison()
	for x.is("and") {
		x.next()
		one := x.comparison()
		all = operand{pinned: append(all.pinned, one.pinned...), place: all.place || one.place}
	}
	return all
}

// comparison reads one condition.
func (x *scanner) comparison() (out operand) {
	left := x.operand()
	switch {
	case x.kind == operatorToken && x.text() == "=":
		x.next()
		any := x.is("any") || x.is("some")
		if any {
			x.next()
		}
		right := x.operand()
		switch {
		case left.columns != nil && right.columns == nil && (!any || right.array > 0 && right.array <= listMax):
			out.pinned = left.columns
		case right.columns != nil && left.value && !any:
			out.pinned = right.columns
		}
	case x.is("in"):
		x.next()
		if right := x.operand(); right.list > 0 && right.list <= listMax {
			out.pinned = left.columns
		}
	default:
		return left
	}
	for !x.ends() { // what else is said of it
		x.next()
		x.operand()
	}
	for _, c := range out.pinned {
		out.place = out.place || c == "ctid"
	}
	return out
}

// ends reports whether a condition does, or an element of a list.
func (x *scanner) ends() bool {
	switch x.kind {
	case 0, ')', ',', ';':
		return true
	case wordToken:
		return x.is("and") || x.is("or") || x.is("returning")
	}
	return false
}

// operand reads up to what ends it.
func (x *scanner) operand() (out operand) {
	for n := 0; !x.ends() && !(x.kind == operatorToken && x.text() == "=") && !x.is("in"); n++ {
		if n == 1 {
			out = operand{value: out.value}
		}
		switch {
		case x.kind == '(' && n == 0:
			out = x.group()
		case x.kind == '(':
			x.group()
		case n == 0 && (x.kind == valueToken || x.kind == paramToken):
			out.value = true
			x.next()
		case n == 0 && (x.kind == quotedToken || x.kind == wordToken && !x.is("not") && !x.constant()):
			_, name := x.name()
			out.columns = []string{name}
		default:
			x.next()
		}
	}
	return out
}

// constant reports whether the word is a value.
func (x *scanner) constant() bool {
	return x.is("true") || x.is("false") || x.is("null") || x.is("current_date") || x.is("current_timestamp") ||
		x.is("current_user") || x.is("session_user")
}

// group reads what stands in parentheses.
func (x *scanner) group() (out operand) {
	x.next()
	if x.is("select") || x.is("with") || x.is("values") || x.is("table") {
		out.list = x.query()
		out.array = out.list
		x.next()
		return out
	}
	list, array := 1, 1
	switch x.kind {
	case paramToken:
		array = 0
	case valueToken: // which may be an array
		array += strings.Count(x.text(), ",")
	}
	for out = x.condition(); x.kind == ','; list++ {
		x.next()
		one := x.condition()
		columns := append(out.columns, one.columns...)
		if out.columns == nil || one.columns == nil {
			columns = nil
		}
		out = operand{columns: columns}
	}
	if out.list, out.array = list, array; list > 1 {
		out.array = list
	}
	for x.kind != 0 && x.kind != ')' {
		x.next()
	}
	x.next()
	return out
}

// query goes on to the end of a query and tells how many rows it has at most; 0 if it does not say so.
func (x *scanner) query() (rows int) {
	limit := false
	for depth := 0; x.kind != 0; x.next() {
		switch {
		case x.kind == '(':
			depth++
		case x.kind == ')' && depth == 0:
			return rows
		case x.kind == ')':
			depth--
		case depth == 0 && limit && x.kind == valueToken:
			for _, c := range []byte(x.text()) {
				rows = min(10*rows+int(c-'0'), listMax+1)
			}
		}
		limit = x.is("limit")
	}
	return rows
}
