package semantics

import (
	"errors"

	pg "github.com/pganalyze/pg_query_go/v6"
)

const (
	// deepTextMin is how long a text is, at least, that can be deep: a level takes two bytes.
	deepTextMin = 2 * deepMax
	// deepMax levels are taken at most. The parser takes twice as many on the stack of a thread, but hands over no
	// tree of more than half.
	deepMax = 10_000
)

var errDeep = errors.New("semantics: the text is nested too deeply")

// parse is PostgreSQL's parser. On a text like 1+1+…, whose tree is very deep, it would end the process.
func parse(sql string) (*pg.ParseResult, error) {
	if len(sql) >= deepTextMin && deep(sql) {
		return nil, errDeep
	}
	return pg.Parse(sql)
}

// deep reports whether the tree of a text may have more than deepMax levels. Parentheses and whatever else stands to
// the left the grammar bounds itself; what is counted is operators and words behind an operand, and sets and joins.
func deep(sql string) bool {
	x := scanner{sql: sql}
	at := &nested{}
	for name := false; ; name = x.kind == '.' { // what follows a dot is a name, whatever word it is
		switch x.next(); {
		case x.kind == 0:
			return false
		case name:
			at.chain++
		case x.opens():
			at = &nested{outer: at, before: at.before + at.chain + at.sets, words: x.kind == wordToken}
		case at.outer != nil && x.closes(at.words):
			at.flush()
			at.outer.chain += at.most + at.sets
			at = at.outer
		default:
			at.count(&x)
		}
		if at.before+max(at.chain, at.most)+at.sets > deepMax {
			return true
		}
	}
}

func (x *scanner) opens() bool { return x.kind == '(' || x.kind == '[' || x.is("case") }

func (x *scanner) closes(words bool) bool {
	return words && x.is("end") || !words && (x.kind == ')' || x.kind == ']')
}

// nested is what was counted between parentheses or the words CASE and END, or outside of them.
type nested struct {
	outer  *nested
	before int // in those outside of it
	words  bool
	chain  int // since the last comma, or what else stands between trees of their own
	most   int // of the chains before
	sets   int
}

// count counts the word that was read last.
func (n *nested) count(x *scanner) {
	switch {
	case x.kind == ',' || x.kind == ';' || x.is("and") || x.is("or"):
		if n.flush(); x.kind == ';' {
			n.sets = 0
		}
	case x.is("union") || x.is("except") || x.is("intersect") || x.is("join"):
		n.flush()
		n.sets++
	case x.kind == operatorToken || x.kind == ':' || x.kind == wordToken:
		n.chain++
	}
}

func (n *nested) flush() { n.most, n.chain = max(n.most, n.chain), 0 }
