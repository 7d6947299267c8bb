package ordering

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// feed hands committed entries out in order. While it is paused, or catches up afterwards, raft
// goes ahead of it and the entries are read from storage again; so raft never waits for
// the engine, and what a slow member has yet to apply costs disk and not memory.
type feed struct {
	storage  Storage
	bytesMax uint64 // of one reading
	paused   bool
	given    uint64 // last entry handed out
	readable uint64 // last committed entry that is certainly in storage
	known    uint64 // last committed entry raft told of
	limit    uint64 // nothing behind it is handed out yet
}

func newFeed(s Storage, start, bytesMax uint64) feed {
	return feed{storage: s, bytesMax: bytesMax, given: start, readable: start, known: start,
		limit: ^uint64(0)}
}

// due reports whether there is something to be read from storage.
func (f *feed) due() bool { return !f.paused && f.given < min(f.readable, f.limit) }

// take notes what raft says is committed and returns what is to be handed out. What is
// committed now may not be in storage before the next advance, or something older may be in its
// place, so it is handed out at once or not before that.
func (f *feed) take(committed []*pb.Entry) []*pb.Entry {
	upToDate := f.given == f.known
	if n := len(committed); n > 0 {
		if first := committed[0].GetIndex(); first != f.known+1 {
			panic(fmt.Sprintf("ordering: entry %d is committed after entry %d", first, f.known))
		}
		f.known = committed[n-1].GetIndex()
	}
	switch {
	case f.paused:
		return nil
	case upToDate && f.known <= f.limit:
		f.given = f.known
		return committed
	case f.due():
		entries, err := f.storage.Entries(f.given+1, min(f.readable, f.limit)+1, f.bytesMax)
		if err != nil || len(entries) == 0 {
			panic(fmt.Sprintf("ordering: committed entries from %d on cannot be read: %v", f.given+1, err))
		}
		f.given = entries[len(entries)-1].GetIndex()
		return entries
	}
	return nil
}

// advance says that everything raft told of is in storage.
func (f *feed) advance() { f.readable = f.known }
