package raftlog

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// loc says where a live entry is on disk.
type loc struct {
	term uint64
	seq  uint64
	off  int64
	size int64 // record, overhead included
	conf bool  // a configuration change
}

// state is what the records say, built by replay and kept up to date by writes through
// the same methods.
type state struct {
	hs    hardState
	base  base
	confs []confAt // ascending, all after base.index
	last  uint64   // last index; base.index when there are no entries
	start uint64   // index of locs[0]; meaningless while locs is empty
	locs  []loc
}

// putEntry notes that entry index is at l and forgets every entry after it. It reports an error
// when the entry would leave a gap or was compacted.
func (s *state) putEntry(index uint64, l loc) error {
	if index > s.last+1 || index <= s.base.index {
		return fmt.Errorf("entry %d follows entry %d, compacted up to %d", index, s.last, s.base.index)
	}
	if len(s.locs) == 0 || index < s.start {
		s.start, s.locs = index, s.locs[:0]
	}
	s.locs = append(s.locs[:index-s.start], l)
	s.last = index
	for n := len(s.confs); n > 0 && s.confs[n-1].index >= index; n-- {
		s.confs = s.confs[:n-1]
	}
	return nil
}

// putConf notes the configuration state after entry c.index.
func (s *state) putConf(c confAt) {
	n := len(s.confs)
	for n > 0 && s.confs[n-1].index >= c.index {
		n--
	}
	s.confs = append(s.confs[:n], c)
}

// putBase forgets entries up to b.index, or all of them when the log restarts at a snapshot. What
// is compacted or contained in a snapshot is committed, so the hard state follows.
func (s *state) putBase(b base, restart bool) {
	s.base = b
	if restart {
		s.locs, s.confs, s.last = s.locs[:0], nil, b.index
	}
	s.trim()
	s.hs.commit = max(s.hs.commit, b.index)
	if s.hs.term < b.term {
		s.hs.term, s.hs.vote = b.term, 0
	}
}

// trim drops what lies at or before the base.
func (s *state) trim() {
	if len(s.locs) > 0 && s.start <= s.base.index {
		n := min(s.base.index-s.start+1, uint64(len(s.locs)))
		s.locs = s.locs[n:]
		s.start += n
		if cap(s.locs) > 4*len(s.locs)+64 {
			s.locs = append([]loc(nil), s.locs...)
		}
	}
	n := 0
	for n < len(s.confs) && s.confs[n].index <= s.base.index {
		n++
	}
	s.confs = s.confs[n:]
}

// confAtOrBefore returns the configuration state that holds after index.
func (s *state) confAtOrBefore(index uint64) *pb.ConfState {
	c := s.base.conf
	for _, x := range s.confs {
		if x.index > index {
			break
		}
		c = x.conf
	}
	return c
}

// confMissing returns the first configuration change up to index behind which no state was recorded up to there, or
// zero. What holds behind a change holds instead of all before.
func (s *state) confMissing(index uint64) uint64 {
	var known uint64
	for _, c := range s.confs {
		if c.index <= index {
			known = c.index
		}
	}
	for i := range s.locs {
		at := s.start + uint64(i)
		if at > index {
			break
		}
		if s.locs[i].conf && at > known {
			return at
		}
	}
	return 0
}

// at returns where entry index is. The caller has checked that it is live.
func (s *state) at(index uint64) loc { return s.locs[index-s.start] }

// check is L5, for the state at the end of a replay.
func (s *state) check() error {
	if len(s.locs) == 0 && s.last != s.base.index {
		return fmt.Errorf("entries %d to %d are missing", s.base.index+1, s.last)
	}
	if len(s.locs) > 0 && s.start != s.base.index+1 {
		return fmt.Errorf("entries %d to %d are missing", s.base.index+1, s.start-1)
	}
	if s.hs.commit > s.last {
		return fmt.Errorf("entries up to %d were committed, but the log ends at %d", s.hs.commit, s.last)
	}
	return nil
}
