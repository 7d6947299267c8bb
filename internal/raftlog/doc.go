// Package raftlog keeps one member's raft log on disk: entries, hard state, the position
// up to which the log was compacted, the member's identity and its incarnation counter.
//
// Neighbours: node opens the log and hands it to ordering as its raft.Storage; after each
// Ready it calls Append, and Compact up to entries of which its database has a checkpoint. The rules
// for segments, torn tails and fsync follow etcd's server/storage/wal; the format is ours,
// because random reads, compaction without snapshots and a stricter idea of "torn" are
// wanted.
//
// Layout of the directory:
//
//	identity                 cluster, member, first voters; written once
//	incarnation              a counter, replaced atomically
//	notes                    a line of the owner's, replaced atomically
//	lock                     flock of the process that has the log open
//	<sequence>-<first>.seg   segments; both numbers are 16 hex digits
//
// A segment is a run of records (record.go), preallocated with zeros: as much as the log has, but at least
// a 64th of SegmentBytes, and twice as much each time that is used up. So a log that is hardly
// used is small, and one that is used preallocates whole segments. The first record, the
// head, repeats everything that older segments said and that is still true: hard state,
// compaction position, configuration states. A segment that is followed by another one
// ends with an end record.
//
// Invariants:
//
//	L1  After Append(…, sync = true), Compact, ApplySnapshot, NextIncarnation or SetNotes returned nil,
//	    what they were given survives a crash of the process and of the machine.
//	L2  Open yields the state after some prefix of the records written, and that prefix
//	    contains every record of L1.
//	L3  Only the end of the newest segment can be torn. Open cuts a torn end off and says so in
//	    Repairs; damage anywhere else is an error that names file and offset, never a repair.
//	L4  After a failed write or fsync every later call returns that error. A failed fsync is
//	    never tried again: the kernel may have dropped the pages it failed to write. The next
//	    Open can still read them; it writes anew what no record proves durable.
//	L5  Live entries are consecutive: FirstIndex()-1 is the compaction position, whose term
//	    and configuration state are kept.
//	L6  A segment is durable under its name before a record of a later moment than its head
//	    is written, and its predecessor is durable and ended before that.
//	L7  A write changes no byte of a segment that is not zero.
//
// How records are written (appender.go). In whole blocks, past the page cache and durable when the
// write returns where the file system can do that (O_DIRECT, O_DSYNC; Direct says so), else through
// the page cache, followed by fdatasync for an Append with sync. The last block of a segment
// is mostly half full: it is kept in memory and written again with each append, so most writes repeat
// bytes that are durable. L7 is why that is safe. Whatever mixture of old and new sectors an
// interrupted write leaves, what was there before is there (L1), and the new bytes are right or
// zero, which is what a torn end looks like (L3). It is assumed, as by every log that syncs a page
// again after filling it further, that a disk that loses power leaves a sector old or new, not
// unreadable. What is behind the records stays zero because Open cuts a torn end off and because
// nothing is written after a failed write (L4).
//
// How a torn tail is told from damage (L3). Every record says up to which offset its segment
// was known durable when the record was written. If a valid record header behind the
// bad place says that the bad place was durable, it is damage. If not, the record is torn
// when its end mark or a whole 512-byte sector of it is still zero, or the file ends inside it;
// a record that was written completely and has a wrong checksum is damage too.
//
// What it does not do: decide when to compact or to sync (node), interpret entries
// (ordering, engine), hold database state: Snapshot carries metadata only.
package raftlog
