// Package process runs child processes that must not outlive their parent: nodes of this
// binary, started by tests and by tutti chaos.
//
// Neighbours: chaos and test/cluster start "tutti node" with it and look for what is left.
//
// Invariants:
//
//	C1  A child is asked to end, or killed, when its parent dies, where the kernel can do that.
//	C2  Every child that was started is waited for, so none stays as a zombie.
//
// What it does not do: start a child again.
package process
