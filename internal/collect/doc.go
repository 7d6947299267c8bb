// Package collect speaks the collect step of package capture over the wire: it makes frames of
// capture's statements and reads their answers. It has every role of a session.Collector.
//
// The way of a call: session asks for frames, sends them to its backend, and hands back the rows that
// came.
//
// Neighbours: capture says what the statements are and what their rows mean, session decides when they
// run, node makes the Collector and reads the definitions of steps (Definition).
//
// Invariant: the secrets a Collector holds never leave but as parameters of its own statements.
//
// What it does not do: IO of its own, after New.
package collect
