package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/capture"
)

// reach is what the names in a statement's text tell, see capture.Reach.
type reach uint8

const (
	goesOutside reach = 1 << iota
	hides
)

// outside are the names of what may do something that its transaction does not show.
type outside struct {
	names   map[string]reach // in lower case
	odd     []string         // of these, those that are not words
	all     reach            // any text may
	mayHide bool
}

func newOutside(names []string) *outside {
	o := &outside{names: map[string]reach{}}
	for _, name := range names {
		kind := goesOutside
		if strings.HasPrefix(name, capture.HidesPrefix) {
			kind = hides
		}
		name = name[1:]
		if name == "" {
			o.mayHide = true
			continue
		}
		if o.names[name] |= kind; name == capture.OutsideAll {
			o.all |= kind
		} else if strings.ContainsFunc(name, func(r rune) bool { return r < 0x80 && !wordByte(byte(r)) }) {
			o.odd = append(o.odd, name)
		}
	}
	return o
}

// ofPostgres are PostgreSQL's own functions that do.
var ofPostgres = func() map[string]reach {
	names := map[string]reach{}
	for _, name := range capture.OutsideFunctions {
		names[name] = goesOutside
	}
	for _, name := range capture.HidingFunctions {
		names[name] = hides
	}
	return names
}()

// list are the names of what users have made, or installed, of the kind.
func (o *outside) list() []string {
	if o == nil {
		return []string{}
	}
	return slices.AppendSeq(make([]string, 0, len(o.names)), maps.Keys(o.names)) // a set
}

// some reports whether there are any.
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

// Reach tells what a statement may do by the names in its text, wherever they stand.
func (t *Tables) Reach(sql string) capture.Reach {
	o := t.outside
	found := capture.Reach{MayHide: o != nil && o.mayHide}
	if !o.some() && !strings.ContainsAny(sql, "($'") { // no call, and no DO
		return found
	}
	r := o.reach(sql)
	found.Outside, found.Hides = r&goesOutside != 0, r&hides != 0 && found.MayHide
	return found
}

func (o *outside) reach(sql string) (found reach) {
	names := map[string]reach(nil)
	if o.some() {
		found, names = o.all, o.names
	}
	block, copies := false, false // it is a DO, and COPY has come
	for w := (words{rest: sql[start(sql):]}); w.next(); {
		name := w.word[:w.n]
		found |= ofPostgres[string(name)] | names[string(name)]
		switch {
		case copies && (string(name) == "to" || string(name) == "program"):
			found |= goesOutside
		case w.count == 1:
			block = string(name) == "do"
		default:
			copies = copies || block && string(name) == "copy"
		}
	}
	if names != nil && len(o.odd) > 0 {
		lower := strings.ToLower(sql)
		for _, name := range o.odd {
			if strings.Contains(lower, name) {
				found |= names[name]
			}
		}
	}
	return found
}

// words are those of a text, one after the other, in lower case.
type words struct {
	rest  string
	count int // how many have come
	word  [nameMax]byte
	n     int // bytes of it
}

// next goes to the next word; false if there is none. It may be empty at the beginning.
func (w *words) next() bool {
	if w.rest == "" {
		return false
	}
	i := 0
	for w.n = 0; i < len(w.rest) && wordByte(w.rest[i]); i++ {
		if c := w.rest[i]; w.n < nameMax {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			w.word[w.n] = c
			w.n++
		}
	}
	for i < len(w.rest) && !wordByte(w.rest[i]) {
		i++
	}
	w.rest = w.rest[i:]
	w.count++
	return true
}
