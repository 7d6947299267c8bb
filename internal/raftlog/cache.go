package raftlog

import pb "go.etcd.io/raft/v3/raftpb"

// cacheEntryBytes is what a cached entry costs beside its data.
const cacheEntryBytes = 96

// cache holds the newest entries, consecutive, up to the log's last one.
type cache struct {
	bytesMax int64
	bytes    int64
	first    uint64 // index of ents[0]
	ents     []*pb.Entry
}

func cacheCost(e *pb.Entry) int64 { return int64(len(e.GetData())) + cacheEntryBytes }

// put adds entries at the end; what they replace goes. The oldest ones go when the cache is full.
func (c *cache) put(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	at := entries[0].GetIndex()
	if at < c.first || at > c.first+uint64(len(c.ents)) {
		c.reset()
	}
	if len(c.ents) == 0 {
		c.first = at
	}
	keep := int(at - c.first)
	for _, e := range c.ents[keep:] {
		c.bytes -= cacheCost(e)
	}
	clear(c.ents[keep:])
	c.ents = append(c.ents[:keep], entries...)
	for _, e := range entries {
		c.bytes += cacheCost(e)
	}
	for c.bytes > c.bytesMax && len(c.ents) > 0 {
		c.dropOldest()
	}
}

func (c *cache) dropOldest() {
	c.bytes -= cacheCost(c.ents[0])
	c.ents[0] = nil
	c.ents = c.ents[1:]
	c.first++
}

// forget drops entries up to index.
func (c *cache) forget(index uint64) {
	for len(c.ents) > 0 && c.first <= index {
		c.dropOldest()
	}
}

func (c *cache) reset() { c.bytes, c.ents = 0, nil }

// get returns entry index, or nil when it is not cached.
func (c *cache) get(index uint64) *pb.Entry {
	if len(c.ents) == 0 || index < c.first || index >= c.first+uint64(len(c.ents)) {
		return nil
	}
	return c.ents[index-c.first]
}
