package capture

import (
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// What a definition means may depend on which names there are. One that gives a name, or takes it, holds it; one that a
// transaction ran at its member first has searched for some, and loses if one of them was given or taken before it
// has its place in the order, and it has not seen that when it began: other members might find something else
// (certify.Certifier.CheckNames).

const (
	nameOf   = "name " // begins what stands for one
	namesAll = "names" // all of them
)

// namesMax bounds the names that a definition searches for and that are held one by one.
const namesMax = 4096

// searches holds what a definition has searched for, and what it gives and takes.
func (s *steps) searches(d *Definition) {
	names, ok := semantics.Searched(d.SQL)
	path := d.Settings["search_path"]
	names = append(names, semantics.PathNames(path)...)
	if strings.Contains(path, "$user") {
		names = append(names, semantics.PathNames(d.Role)...)
	}
	if !ok || len(names) > namesMax {
		s.reads(namesAll)
		names = nil
	}
	for _, name := range names {
		s.reads(nameOf + name)
	}
	s.gives(semantics.Named(d.SQL))
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
	s.gives(semantics.Named(sql))
	for _, k := range s.keys.keys {
		k.Table = uint32(len(extent.Tables))
		extent.Tables = append(extent.Tables, s.tables[s.numbers[k.Hash]])
		extent.Keys = append(extent.Keys, k)
	}
}
