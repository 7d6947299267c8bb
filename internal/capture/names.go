package capture

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// What a definition means may depend on which names there are. One that gives a name, or takes it, holds it; one that a
// transaction ran at its member first has looked for its words, and loses if one of them was given or taken before it
// has its place in the order, and it has not seen that when it began: other members might find something else
// (certify.Certifier.CheckReads).

const (
	nameOf   = "name " // begins what stands for one
	namesAll = "names" // all of them
)

// wordsMax bounds the words of a definition that are held one by one.
const wordsMax = 4096

// searches holds what a definition has looked for, and what it gives and takes.
func (s *steps) searches(d *Definition) {
	words := semantics.Words(d.SQL)
	words = append(words, semantics.Words(d.Settings["search_path"])...)
	if len(words) > wordsMax {
		s.aside(namesAll, writeset.Read)
		words = nil
	}
	for _, w := range words {
		s.aside(nameOf+w, writeset.Read)
	}
	s.gives(d.SQL)
}

// gives holds the names that a definition gives and takes. Others may do so, too.
func (s *steps) gives(sql string) {
	for _, name := range semantics.Named(sql) {
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
	s.gives(sql)
	for _, k := range s.keys.keys {
		k.Table = uint32(len(extent.Tables))
		extent.Tables = append(extent.Tables, s.tables[s.numbers[k.Hash]])
		extent.Keys = append(extent.Keys, k)
	}
}
