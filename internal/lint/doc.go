// Package lint holds the rules of this repository that a compiler does not know, as tests:
// who may import whom, what pure packages may not do, how long files and functions may be,
// how large types may be, and what pages may name. It has no code outside tests.
//
// Neighbours: none; it reads the source of all other packages.
//
// Invariants:
//
//	R1  The imports of every package are those of the table in docs/LAYERS.md, no more, no fewer.
//	R2  Pure packages do no IO, know no clock and no randomness, start no goroutine, and
//	    range over a map only where a comment says why its order cannot leak.
//	R3  Every rule is shown to fail on a source that breaks it (refuse_test.go,
//	    refuse_ratchet_test.go).
//	R4  A type has at most 40 methods, and 25 fields with what it embeds; an interface 12
//	    methods; a function 15 branches; a line 120 columns; a package half as many lines of
//	    its own tests as of source; node 4,500 lines. What offends is in testdata/offenders.txt
//	    with its figure, which may only get better.
//	R5  A word of docs/GLOSSARY.md has one row, and what is declared newly has no retired one.
//	R6  What a page names exists: files, functions behind their file, tests, planted bugs,
//	    decisions, links. So do the tests and decisions that comments name.
//
// What it does not do: judge whether an "order-free" comment is right.
package lint
