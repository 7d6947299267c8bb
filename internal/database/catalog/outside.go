package catalog

import (
	"strings"

	"github.com/tuttidb/tutti/internal/capture"
)

// outside are the names of what may do something outside of the database that ROLLBACK does not undo (see capture).
type outside struct {
	names map[string]bool // in lower case
	odd   []string        // of these, those that are not words
	all   bool            // any text may
}

func newOutside(names []string) *outside {
	o := &outside{names: map[string]bool{}}
	for _, name := range names {
		if o.names[name] = true; name == capture.OutsideAll {
			o.all = true
		} else if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < 0x80 && !wordByte(byte(r)) }) {
			o.odd = append(o.odd, name)
		}
	}
	return o
}

// ofPostgres are PostgreSQL's own functions that do.
var ofPostgres = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range capture.OutsideFunctions {
		names[name] = true
	}
	return names
}()

// some reports whether users have made, or installed, anything of the kind.
func (o *outside) some() bool { return o != nil && len(o.names) > 0 }

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// start is where the first word of a text begins.
func start(sql string) int {
	return len(sql) - len(strings.TrimLeft(sql, " \t\r\n\f\v;("))
}

// nameMax is the longest name in bytes; PostgreSQL cuts longer ones.
const nameMax = 63

// Outside reports whether a statement may do something outside of the database, by the names in its text, wherever they stand.
func (t *Tables) Outside(sql string) bool {
	o := t.outside
	if !o.some() && !strings.ContainsAny(sql, "($'") { // no call, and no DO
		return false
	}
	if o.some() && o.all {
		return true
	}
	var word [nameMax]byte
	block, copies := false, false // it is a DO, and COPY has come
	for at, words := start(sql), 0; at < len(sql); words++ {
		n := 0
		for ; at < len(sql) && wordByte(sql[at]); at++ {
			if c := sql[at]; n < nameMax {
				if c >= 'A' && c <= 'Z' {
					c += 'a' - 'A'
				}
				word[n] = c
				n++
			}
		}
		switch name := word[:n]; {
		case ofPostgres[string(name)] || n > 0 && o.some() && o.names[string(name)], copies && (string(name) == "to" || string(name) == "program"):
			return true
		case words == 0:
			block = string(name) == "do"
		default:
			copies = copies || block && string(name) == "copy"
		}
		for at < len(sql) && !wordByte(sql[at]) {
			at++
		}
	}
	if o.some() && len(o.odd) > 0 {
		lower := strings.ToLower(sql)
		for _, name := range o.odd {
			if strings.Contains(lower, name) {
				return true
			}
		}
	}
	return false
}
