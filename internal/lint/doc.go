// Package lint holds the rules of this repository that a compiler does not know, as tests:
// who may import whom, what pure packages may not do, how long files and functions may be,
// and that ARCHITECTURE.md says the same. It has no code of its own outside tests.
//
// Neighbours: none; it reads the source of all other packages.
//
// Invariants:
//
//	R1  The imports of every package are those of the table in layers_test.go, which is the
//	    layer table of ARCHITECTURE.md.
//	R2  Pure packages do no IO, know no clock and no randomness, start no goroutine, and
//	    range over a map only where a comment says why its order cannot leak.
//	R3  Every rule is shown to fail on a source that breaks it (refuse_test.go).
//
// What it does not do: judge whether an "order-free" comment is right.
package lint
