package engine

import (
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/ordering"
)

// Options configures one member's engine.
type Options struct {
	Member      uint32
	Incarnation uint64 // larger than that of any earlier life of the member
	Order       ordering.Options
	Certify     certify.Options
	Position    Position
	// Checkpoint is where to start: the log is taken in from behind it, and what is before may be
	// compacted. The database must hold everything up to its ordinal, and Position say so.
	// Nil: from the beginning of the log.
	Checkpoint *Checkpoint
	// GoneTicks without an answer of it make a voter one that only gets the log, until it is back (package quorum).
	// Zero: never.
	GoneTicks int
	// SlowTicks is for how long a member must be far behind to be judged (quorum.Rule.SlowAfter).
	SlowTicks int
	// Copies are how many a commit that is acknowledged is to have at least; zero means quorum.Copies. With one, the
	// last member goes on alone.
	Copies int
	// GroupItemsMax and GroupBytesMax bound one group; zero means 512 items, 4 MiB.
	GroupItemsMax, GroupBytesMax int
	// BatchItemsMax and BatchBytesMax bound one proposal (a larger payload travels in
	// parts); zero means 512 items, 512 KiB.
	BatchItemsMax, BatchBytesMax int
	// BatchesInflightMax bounds own proposals under way. What comes meanwhile gathers, until
	// it fills a batch, or is enough (GatherShare), or Release.
	// Zero means 4.
	BatchesInflightMax int
	// ResubmitTicks without a delivery, at most, propose everything under way again: first after some times what a
	// delivery took of late, then at intervals that grow to half of ResubmitTicks, or to that time if it is longer.
	// Zero means 20.
	ResubmitTicks int
	// PendingMax bounds submissions not yet ordered. Zero means 65536.
	PendingMax int
	// QueueBytesMax bounds what is delivered and waits for a group: payloads and 1 KiB for each
	// item. One delivery may exceed it. When it is reached, the order is no longer taken in
	// until a group is issued; verdicts on own submissions wait as well. Zero means 64 MiB.
	QueueBytesMax int
	// GatherShare and GatherPart: where processors are scarce (Strain), proposals gather at a leader until they hold as
	// many transactions as one in GatherShare of the sessions that write regularly, or as were ordered in one
	// GatherPart of a tick, whichever is less. Zero means 1, all of them, and 4. Own submissions gather for the own
	// part of that many.
	GatherShare, GatherPart int
	// KeptSilence and KeptAfter: groups are kept back (Kept) where no item of this member's is among the last
	// KeptSilence ordinals, and if the group before had KeptAfter tasks. Zero means 256 and 3.
	KeptSilence, KeptAfter int
	// KeptItemsMax and KeptBytesMax, as QueueBytesMax counts, bound what is kept back. Zero, and what is more, means 64
	// items and 128 KiB.
	KeptItemsMax, KeptBytesMax int
	// Room is an empty slice with room for so many bytes, of a payload that comes in parts. Nil: it is memory.
	Room func(bytes int) []byte
}

func (o *Options) defaults() {
	for _, d := range []struct {
		v *int
		d int
	}{{&o.GroupItemsMax, 512}, {&o.GroupBytesMax, 4 << 20}, {&o.BatchItemsMax, 512}, {&o.BatchBytesMax, 512 << 10},
		{&o.BatchesInflightMax, 4}, {&o.ResubmitTicks, 20}, {&o.PendingMax, 65536}, {&o.QueueBytesMax, 64 << 20},
		{&o.GatherShare, 1}, {&o.GatherPart, 4}, {&o.KeptSilence, 256}, {&o.KeptAfter, 3},
		{&o.KeptItemsMax, keptItemsMax}, {&o.KeptBytesMax, keptBytesMax}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	if o.Room == nil {
		o.Room = func(n int) []byte { return make([]byte, 0, n) }
	}
	o.KeptItemsMax = min(o.KeptItemsMax, keptItemsMax)
	o.KeptBytesMax = min(o.KeptBytesMax, keptBytesMax, o.QueueBytesMax/4)
}
