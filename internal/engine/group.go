package engine

// GroupDone says that every task of the running group is in the local database.
func (e *Engine) GroupDone() {
	e.queue.finish(e.own.settle)
	e.own.admit()
}

// Holes reports whether transactions beyond Applied are in the database.
func (e *Engine) Holes() bool { return len(e.queue.early) > 0 && planted != "holes-denied" }

// Kept reports whether a group is kept back. Issue lets it go: the owner calls it after a short while.
func (e *Engine) Kept() bool { return e.queue.kept() }

// Issue lets the group go that Kept speaks of.
func (e *Engine) Issue() { e.queue.issue = e.Kept() && planted != "kept-for-ever" }

// Behind is the number of entries of the log that are decided and not taken in yet, because the
// queue is full or was until a moment ago.
func (e *Engine) Behind() uint64 { return e.order.Behind() }

// Figures are what an operator may want to know of an engine.
type Figures struct {
	Own        int    // own submissions that are not in the database yet
	Pending    int    // own submissions that are not in a proposal yet
	Keys       int    // key occurrences that certification remembers
	Batches    uint64 // made of own submissions
	Backlog    int    // delivered committed items that wait for a group
	QueueBytes int    // what they are reckoned to cost, see Options.QueueBytesMax
	Fills      uint64 // times that this was reached
	// Ordered and Applied are how many bytes of payload the items up to Ordinal have, and those up to Applied; like
	// ordinals both are equal at all members.
	Ordered, Applied uint64
}

// Figures are the engine's figures now.
func (e *Engine) Figures() Figures {
	return Figures{
		Own: len(e.own.owns), Pending: len(e.own.waiting) + len(e.own.pending), Keys: e.log.cert.Keys(),
		Batches: e.own.window.number,
		Backlog: len(e.queue.queue), QueueBytes: e.queue.bytes, Fills: e.queue.fills,
		Ordered: e.log.volume, Applied: e.queue.volume,
	}
}
