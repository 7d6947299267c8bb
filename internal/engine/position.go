package engine

// Mark is the newest transaction recorded in one marker slot of the local database.
type Mark struct {
	Incarnation uint64
	Seq         uint64
}

// Position is what the local database says it holds when the engine starts.
type Position struct {
	// Member is whose database it is: another's for a fresh clone, until all its marks are
	// overtaken. Zero means this member.
	Member uint32
	// Ordinal: every item of another member, and every statement and blind transaction, up to it is applied.
	Ordinal uint64
	// Floor: own items up to it are applied whatever the marks say.
	Floor uint64
	// Marks per slot: an own item is applied if its slot's mark is not older than it.
	Marks map[uint32]Mark
}

// holds reports whether the database has the item already (E6).
func (p *Position) holds(ordinal uint64, it *Item, blind bool) bool {
	if planted == "position-one-off" && p.Ordinal > 0 && ordinal == p.Ordinal+1 {
		return true
	}
	if it.ID.Member != p.Member || it.Kind != KindCertified || blind && planted != "blind-marked" {
		return ordinal <= p.Ordinal
	}
	m, ok := p.Marks[it.Slot]
	return ordinal <= p.Floor || ok && m.covers(it)
}

// covers reports whether the mark is not older than an item of its slot.
func (m Mark) covers(it *Item) bool {
	return m.Incarnation > it.ID.Incarnation || m.Incarnation == it.ID.Incarnation && m.Seq >= it.ID.Seq
}
