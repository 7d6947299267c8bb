// Package process runs child processes that must not outlive their parent: nodes of this
// binary, started by tests and by tutti chaos. It also says how late the timers of a process may
// be, which it inherits when it is executed, at which common moments it does what it does again and
// again, which processes take no processor from others, whether processors are scarce, and on which
// one a node and its server stay.
//
// Neighbours: chaos and test/cluster start "tutti node" with it and look for what is left. "tutti
// node" relaxes its own timers; database/instance leaves those of PostgreSQL exact, and has it yield; node
// asks whether processors are scarce, and keeps itself on one where it shares the machine.
//
// Invariants:
//
//	C1  A child is asked to end, or killed, when its parent dies, where the kernel can do that.
//	C2  Every child that was started is waited for, so none stays as a zombie.
//
// What it does not do: start a child again.
package process
