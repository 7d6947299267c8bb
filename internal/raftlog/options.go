package raftlog

import (
	"errors"
	"fmt"
)

const (
	segmentBytesDefault = 64 << 20
	cacheBytesDefault   = 16 << 20
	segmentBytesMin     = 512
)

// Options say where a log is and how much it may use.
type Options struct {
	// Dir is the log's own directory. Its parent must exist when Create is called.
	Dir string
	// SegmentBytes is the size at which a segment is followed by a new one; one Append may
	// exceed it. Zero means 64 MiB. Compaction frees whole segments, so small ones free space
	// earlier and cost an fsync more often.
	SegmentBytes int64
	// CacheBytes bounds the data of the newest entries that are kept in memory. Zero means
	// 16 MiB. Too small: followers that lag behind are served from the disk.
	CacheBytes int64
	// BeforeSync, nil in production, is called before each sync of a segment, or write that
	// contains one. What it returns counts as the sync's error, and neither is done.
	BeforeSync func() error
}

func (o *Options) validate() error {
	if o.Dir == "" {
		return errors.New("raftlog: Options.Dir is empty: name a directory")
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = segmentBytesDefault
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = cacheBytesDefault
	}
	if o.SegmentBytes < segmentBytesMin || o.SegmentBytes > recordBytesMax {
		return fmt.Errorf("raftlog: Options.SegmentBytes is %d: use %d to %d", o.SegmentBytes, segmentBytesMin,
			recordBytesMax)
	}
	if o.CacheBytes < 0 {
		return fmt.Errorf("raftlog: Options.CacheBytes is %d: use zero for the default, or more", o.CacheBytes)
	}
	return nil
}

// Identity says whose log it is. It is written once, by Create.
type Identity struct {
	// Cluster is the cluster's id; logs of other clusters are never mixed.
	Cluster string
	// Member is the raft id, never zero.
	Member uint64
	// Voters is the configuration the cluster began with, the same on every first member; empty
	// for a member that joins later and learns the configuration from the log.
	Voters []uint64
	// Learners are those who only got the log then.
	Learners []uint64 `json:",omitempty"`
	// Term is the first in which the member may vote, Lives the incarnation before its first one: of a log that takes
	// the place of a lost one.
	Term  uint64 `json:",omitempty"`
	Lives uint64 `json:",omitempty"`
	// Beginning is what the owner wants to know of the log's creation later; one line.
	Beginning string `json:",omitempty"`
}

func (id Identity) validate() error {
	if id.Cluster == "" || id.Member == 0 {
		return fmt.Errorf("raftlog: identity needs a cluster and a member id, got cluster %q, member %d", id.Cluster,
			id.Member)
	}
	return nil
}
