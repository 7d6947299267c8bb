package raftlog

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/gofrs/flock"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Log is an open raft log. Its methods may be called from several goroutines. Writers wait for
// each other; readers do not wait for the disk, unless a segment ends just then.
type Log struct {
	turn    sync.Mutex // held by a writer all the time, before mu
	notes   sync.Mutex // held while the notes are read or replaced
	mu      sync.Mutex
	o       Options
	disk    disk
	id      Identity
	lock    *flock.Flock
	segs    []*segment // oldest first, never empty; the last one is written to
	repairs []Repair
	failed  error // L4
	cache   cache
	state
}

var _ raft.Storage = (*Log)(nil)

// Open opens the log in o.Dir, for this process alone. A torn tail is repaired and listed in
// Repairs. The caller closes the log.
func Open(o Options) (*Log, error) { return open(o, realDisk()) }

func open(o Options, d disk) (*Log, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.BeforeSync != nil {
		d = d.disturbed(o.BeforeSync)
	}
	o.Dir = filepath.Clean(o.Dir)
	id, err := readIdentity(o.Dir)
	if err != nil {
		return nil, err
	}
	l := &Log{o: o, disk: d, id: id, lock: flock.New(filepath.Join(o.Dir, lockFile)),
		cache: cache{bytesMax: o.CacheBytes}}
	ok, err := l.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("raftlog: lock %s: %w", o.Dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("raftlog: %w: another process has the raft log in %s open; stop it first", ErrLocked,
			o.Dir)
	}
	if err := l.replay(); err != nil {
		return nil, errors.Join(err, l.release())
	}
	if err := l.check(); err != nil {
		return nil, errors.Join(corrupt(o.Dir, 0, err), l.release())
	}
	return l, nil
}

// Identity returns what Create was given. The caller must not change Voters.
func (l *Log) Identity() Identity { return l.id }

// Repairs returns what Open had to cut off; empty after a clean shutdown.
func (l *Log) Repairs() []Repair { return l.repairs }

// Direct says how the log is written now: true if appends go past the page cache and are durable
// when the write returns, false if the file system takes no such writes and they are synced instead.
func (l *Log) Direct() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := l.current().tail
	return tail != nil && tail.direct
}

// NextIncarnation adds one to the member's durable counter and returns it; the first call
// returns 1. A number that was returned is never returned again, whatever crashes.
func (l *Log) NextIncarnation() (uint64, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return 0, l.failed
	}
	path := filepath.Join(l.o.Dir, incarnationFile)
	text, err := readFile(l.o.Dir, incarnationFile)
	if err != nil {
		return 0, l.poison("reading", path, err)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == math.MaxUint64 {
		return 0, l.poison("reading", path, corrupt(path, 0, errPayload))
	}
	if err := replaceFile(l.disk, l.o.Dir, incarnationFile, strconv.FormatUint(n+1, 10)); err != nil {
		return 0, l.poison("replacing", path, err)
	}
	return n + 1, nil
}

// Append writes entries and, when hs is neither nil nor empty, the hard state, in this order and
// with one write. With sync it returns when they are on disk, and everything written before is
// too. Entries may begin at or before LastIndex: they replace what was there and all that
// followed. Entries that are compacted already are left out. The log keeps the entries in
// its cache, so the caller must not change them.
//
// It panics when entries are not consecutive or leave a gap after LastIndex.
func (l *Log) Append(hs *pb.HardState, entries []*pb.Entry, sync bool) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	entries, err := l.checkEntries(entries)
	if err != nil {
		return err
	}
	if raft.IsEmptyHardState(hs) {
		hs = nil
	}
	if len(entries) > 0 || hs != nil {
		if err := l.appendRecords(hs, entries); err != nil {
			return err
		}
	}
	if sync {
		return l.syncCurrent()
	}
	return nil
}

// appendRecords writes entries and, unless it is nil, the hard state.
func (l *Log) appendRecords(hs *pb.HardState, entries []*pb.Entry) error {
	var bytes int64
	for _, e := range entries {
		bytes += entryBytes(e)
	}
	if hs != nil {
		bytes += recordBytes(hardStateBytes)
	}
	s, err := l.begin(bytes)
	if err != nil {
		return err
	}
	var fixed [max(entryFixedBytes, hardStateBytes)]byte
	for _, e := range entries {
		s.add(recordEntry, appendEntryFixed(fixed[:0], e), e.GetData())
	}
	next := l.hs
	if hs != nil {
		next = hardState{term: hs.GetTerm(), vote: hs.GetVote(), commit: hs.GetCommit()}
		s.add(recordHardState, appendHardState(fixed[:0], next), nil)
	}
	off := s.used
	if err := l.write(s); err != nil {
		return err
	}
	for _, e := range entries {
		if err := l.putEntry(e.GetIndex(), entryLoc(e, s.seq, off, entryBytes(e))); err != nil {
			panic("raftlog: " + err.Error()) // checkEntries let it pass
		}
		off += entryBytes(e)
	}
	l.hs = next
	l.cache.put(entries)
	return nil
}

// entryBytes is what e takes on disk.
func entryBytes(e *pb.Entry) int64 { return recordBytes(entryFixedBytes + len(e.GetData())) }

// checkEntries leaves out compacted entries, panics on gaps and refuses what is too long.
func (l *Log) checkEntries(entries []*pb.Entry) ([]*pb.Entry, error) {
	for len(entries) > 0 && entries[0].GetIndex() <= l.base.index {
		entries = entries[1:]
	}
	if len(entries) > 0 && entries[0].GetIndex() > l.last+1 {
		panic(fmt.Sprintf("raftlog: append of entry %d after entry %d leaves a gap", entries[0].GetIndex(), l.last))
	}
	for i, e := range entries {
		if e.GetIndex() != entries[0].GetIndex()+uint64(i) {
			panic(fmt.Sprintf("raftlog: entry %d at place %d of a batch that starts with entry %d", e.GetIndex(), i,
				entries[0].GetIndex()))
		}
		if len(e.GetData()) > recordBytesMax-entryFixedBytes {
			return nil, fmt.Errorf("raftlog: entry %d has %d bytes, the limit is %d", e.GetIndex(), len(e.GetData()),
				recordBytesMax-entryFixedBytes)
		}
	}
	return entries, nil
}

func entryLoc(e *pb.Entry, seq uint64, off, size int64) loc {
	t := e.GetType()
	return loc{term: e.GetTerm(), seq: seq, off: off, size: size, conf: t == pb.EntryConfChange ||
		t == pb.EntryConfChangeV2}
}

// Bytes returns how many bytes of records the segments hold, compacted ones in a segment that
// is still needed included, preallocated space not.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes()
}

// ReleaseCache gives back the memory of the entries that are cached; they are read from the disk. For a log to which
// nothing was added for a while: whom the others have to send entries to has them, or is far behind.
func (l *Log) ReleaseCache() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cache.reset()
}

func (l *Log) bytes() (n int64) {
	for _, s := range l.segs {
		n += s.used
	}
	return n
}

// Close makes everything durable and lets go of the directory. Later calls return ErrClosed. On
// a log that failed before it only releases the files and returns that failure.
func (l *Log) Close() error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.failed, ErrClosed) {
		return ErrClosed
	}
	err := l.failed
	if err == nil {
		err = l.syncCurrent()
	}
	if err == nil {
		// The mark says that all before it is durable, so that damage to the last
		// record is not taken for a torn write.
		err = l.writeOne(recordMark, nil)
	}
	if err == nil {
		err = l.syncCurrent()
	}
	err = errors.Join(err, l.release())
	l.failed = ErrClosed
	return err
}

func (l *Log) release() error {
	var errs []error
	for _, s := range l.segs {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, l.lock.Unlock())...)
}
