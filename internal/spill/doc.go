// Package spill gives memory for large transactions whose pages lie in files, so that the kernel, and not the process,
// keeps them: what nobody touches is written to disk and takes no memory. For who uses it, it is memory like any other.
//
// The garbage collector knows it as a part of the heap, and alone decides when it is free. So nobody has to say when he
// is done, and a slice of it can be kept as long as any other.
//
// Neighbours: node makes one for the process; engine, session and node ask it for room. It knows nothing of Tutti.
//
// Start reading at Files.Room.
//
// Invariants:
//
//	SP1  Room is memory: it holds what was written to it for as long as anything points into it.
//	SP2  Before the runtime gets memory back, its pages are the runtime's own again, and zero.
//	SP3  A file has no name from the moment on at which it is used: what ends the process, whatever it is, removes it.
//	     What a process leaves that ended before that is removed by the next one (New).
//	SP4  Its bytes are reserved on disk before they are used. Where that is not possible, Room is plain memory.
//	SP5  What is in files does not count when it is decided how much garbage may gather.
package spill
