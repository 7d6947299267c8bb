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

// Log is an open raft log. Its methods may be called from several goroutines; calls wait
// for each other, so a reader can wait for an fsync.
type Log struct {
	mu      sync.Mutex
	o       Options
	disk    disk
	id      Identity
	lock    *flock.Flock
	segs    []*segment // oldest first, never empty; the last one is written to
	repairs []Repair
	failed  error  // L4
	buf     []byte // reused by write
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
	l := &Log{o: o, disk: d, id: id, lock: flock.New(filepath.Join(o.Dir, lockFile)), cache: cache{bytesMax: o.CacheBytes}}
	ok, err := l.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("raftlog: lock %s: %w", o.Dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("raftlog: %w: another process has the raft log in %s open; stop it first", ErrLocked, o.Dir)
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

// NextIncarnation adds one to the member's durable counter and returns it; the first call
// returns 1. A number that was returned is never returned again, whatever crashes.
func (l *Log) NextIncarnation() (uint64, error) {
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
// with one write. With sync it returns after fdatasync, and everything written before is durable
// too. Entries may begin at or before LastIndex: they replace what was there and all that
// followed. Entries that are compacted already are left out. The log keeps the entries in
// its cache, so the caller must not change them.
//
// It panics when entries are not consecutive or leave a gap after LastIndex.
func (l *Log) Append(hs *pb.HardState, entries []*pb.Entry, sync bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	entries, err := l.checkEntries(entries)
	if err != nil {
		return err
	}
	var b batch
	next := l.hs
	for _, e := range entries {
		b.add(recordEntry, appendEntryFixed(nil, e), e.GetData())
	}
	if !raft.IsEmptyHardState(hs) {
		next = hardState{term: hs.GetTerm(), vote: hs.GetVote(), commit: hs.GetCommit()}
		b.add(recordHardState, appendHardState(nil, next), nil)
	}
	at, err := l.write(b)
	if err != nil {
		return err
	}
	for i, e := range entries {
		if err := l.putEntry(e.GetIndex(), entryLoc(e, l.current().seq, at[i], b.records[i].size())); err != nil {
			panic("raftlog: " + err.Error()) // checkEntries let it pass
		}
	}
	l.hs = next
	l.cache.put(entries)
	if sync {
		return l.syncCurrent()
	}
	return nil
}

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
			panic(fmt.Sprintf("raftlog: entry %d at place %d of a batch that starts with entry %d", e.GetIndex(), i, entries[0].GetIndex()))
		}
		if len(e.GetData()) > recordBytesMax-entryFixedBytes {
			return nil, fmt.Errorf("raftlog: entry %d has %d bytes, the limit is %d", e.GetIndex(), len(e.GetData()), recordBytesMax-entryFixedBytes)
		}
	}
	return entries, nil
}

func entryLoc(e *pb.Entry, seq uint64, off, size int64) loc {
	t := e.GetType()
	return loc{term: e.GetTerm(), seq: seq, off: off, size: size, conf: t == pb.EntryConfChange || t == pb.EntryConfChangeV2}
}

// Bytes returns how many bytes of records the segments hold, compacted ones in a segment that
// is still needed included, preallocated space not.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, s := range l.segs {
		n += s.used
	}
	return n
}

// Close makes everything durable and lets go of the directory. Later calls return ErrClosed. On
// a log that failed before it only releases the files and returns that failure.
func (l *Log) Close() error {
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
		_, err = l.write(batchOf(recordMark, nil))
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
		if s.f != nil {
			errs = append(errs, s.f.Close())
		}
	}
	return errors.Join(append(errs, l.lock.Unlock())...)
}
