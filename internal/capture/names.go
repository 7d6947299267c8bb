package capture

import (
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// What a definition means may depend on which names there are. One that gives a name, or takes it, holds it; one that a
// transaction ran at its member first has looked for its words, and loses if one of them was given or taken before it
// has its place in the order, and it has not seen that when it began: other members might find something else
// (certify.Certifier.CheckNames).

const (
	nameOf   = "name " // begins what stands for one
	namesAll = "names" // all of them
)

// wordsMax bounds the words of a definition that are held one by one.
const wordsMax = 4096

// searches holds what a definition has looked for, and what it gives and takes.
func (s *steps) searches(d *Definition) {
	words := semantics.Words(d.SQL)
	names, makes := semantics.Named(d.SQL)
	for _, name := range names {
		// What it makes comes first where it is made, if its text does not look for one of the same name.
		if i, n := slices.BinarySearch(words, name); makes && n && !slices.Contains(words[i+1:], name) {
			words = slices.Delete(words, i, i+1)
		}
	}
	path := semantics.Words(d.Settings["search_path"])
	if slices.Contains(path, "$user") {
		path = append(path, strings.ToLower(d.Role))
	}
	words = append(words, path...)
	if len(words) > wordsMax {
		words = nil
		s.reads(namesAll)
	}
	for _, w := range words {
		s.reads(nameOf + w)
	}
	s.gives(names)
}

// reads holds what stands for a name, also if it is held because it is given.
func (s *steps) reads(name string) {
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
}

// gives holds the names that a definition gives and takes. Others may do so, too.
func (s *steps) gives(names []string) {
	for _, name := range names {
		s.aside(nameOf+name, writeset.Shared)
		s.aside(namesAll, writeset.Shared)
	}
}

// Gives adds to the extent of a definition that takes its place in the order by itself which names it gives and takes.
func Gives(extent *writeset.Writeset, sql string) {
	if extent.Barrier {
		return
	}
	s := steps{}
	names, _ := semantics.Named(sql)
	s.gives(names)
	for _, k := range s.keys.keys {
		k.Table = uint32(len(extent.Tables))
		extent.Tables = append(extent.Tables, s.tables[s.numbers[k.Hash]])
		extent.Keys = append(extent.Keys, k)
	}
}
