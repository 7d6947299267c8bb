package semantics

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Like is a plain LIKE clause of a CREATE TABLE: one that takes nothing but names and types of columns. If it names a
// temporary relation, which other members do not have, the columns take its place.
type Like struct {
	Relation string // as written
	from, to int    // bytes of the clause in the statement's text
}

// likes finds them. Text is the statement's, which begins at byte begins of what was parsed.
func likes(c *pg.CreateStmt, text string, begins int) (out []Like) {
	for _, e := range c.GetTableElts() {
		l := e.GetTableLikeClause()
		if l == nil || l.Options != 0 {
			continue
		}
		scan, err := pg.Scan(ascii(text))
		if err != nil {
			return nil
		}
		tokens := slices.DeleteFunc(scan.Tokens, func(t *pg.ScanToken) bool {
			return t.Token == pg.Token_SQL_COMMENT || t.Token == pg.Token_C_COMMENT
		})
		if like, ok := likeAt(tokens, int(l.Relation.Location)-begins, rangeName(l.Relation)); ok {
			out = append(out, like)
		}
	}
	return out
}

// likeAt is the clause whose relation begins at a byte of the text; ok is false if it goes on after the name.
func likeAt(tokens []*pg.ScanToken, at int, relation string) (l Like, ok bool) {
	for i := 1; i < len(tokens); i++ {
		if int(tokens[i].Start) != at || tokens[i-1].Token != pg.Token_LIKE {
			continue
		}
		last := i
		for last+2 < len(tokens) && tokens[last+1].Token == pg.Token_ASCII_46 {
			last += 2
		}
		if last+1 == len(tokens) {
			return l, false
		}
		end := tokens[last+1].Token
		return Like{relation, int(tokens[i-1].Start), int(tokens[last].End)}, end == pg.Token_ASCII_41 ||
			end == pg.Token_ASCII_44
	}
	return l, false
}

// Spell puts columns in the place of the n-th LIKE clause. Those before it, and Relations, stay as they are.
func (s *Statement) Spell(n int, columns string) {
	l := s.Likes[n]
	s.Text = s.Text[:l.from] + columns + s.Text[l.to:]
	var rest []string
	for _, r := range s.Relations {
		if r != l.Relation {
			rest = append(rest, r)
		}
	}
	s.Relations = rest
}
