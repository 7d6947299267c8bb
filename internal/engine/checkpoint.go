package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Checkpoint is the replicated state at one entry of the log: all that members derive from the
// entries up to it and that later decisions depend on (E10). It does not change when the engine
// goes on.
type Checkpoint struct {
	// Index and Term name the entry of the log; what the entries up to it say is in the checkpoint.
	Index, Term uint64
	// Ordinal is that of the last item up to Index.
	Ordinal uint64

	volume  uint64
	sources []memberSource // by member
	cert    certify.Checkpoint
	locks   locks.Checkpoint
	expired []expiry // by member
	serial  []serialSpan
	conf    *ordering.ConfState // nil: that of the log's beginning
}

// serialSpan is a member's span, by member.
type serialSpan struct {
	member uint32
	span
}

// expiry is the ordinal at which a member's locks were last taken from it.
type expiry struct {
	member  uint32
	ordinal uint64
}

type memberSource struct {
	member uint32
	source
}

// Checkpoint returns the replicated state as it is now, to be encoded at leisure. False if it cannot
// be had at the moment, because what was delivered is not certainly on this member's disk, or
// because nothing was. It holds up the engine for some milliseconds if certification remembers
// much.
func (e *Engine) Checkpoint() (*Checkpoint, bool) {
	index, term, ok := e.order.Stored()
	if !ok {
		return nil, false
	}
	return e.log.checkpoint(index, term), true
}

// checkpoint is the state, which is that at entry index.
func (r *replicated) checkpoint(index, term uint64) *Checkpoint {
	c := &Checkpoint{
		Index: index, Term: term, Ordinal: r.ordinal, volume: r.volume,
		cert: r.cert.Checkpoint(), locks: r.locks.Checkpoint(), conf: r.conf,
	}
	for _, m := range slices.Sorted(maps.Keys(r.sources)) { // order-free: sorted
		s := r.sources[m]
		if s.parts != nil {
			s.parts = s.parts[:len(s.parts):len(s.parts)]
		}
		c.sources = append(c.sources, memberSource{m, s})
	}
	for _, m := range slices.Sorted(maps.Keys(r.expired)) { // order-free: sorted
		c.expired = append(c.expired, expiry{m, r.expired[m]})
	}
	for _, m := range slices.Sorted(maps.Keys(r.serial)) { // order-free: sorted
		c.serial = append(c.serial, serialSpan{m, r.serial[m]})
	}
	return c
}

// restore makes c the state, which is a new one. Everything up to its ordinal is in the database.
func (r *replicated) restore(c *Checkpoint, o certify.Options) {
	r.ordinal, r.volume = c.Ordinal, c.volume
	r.configure(c.conf)
	r.cert = certify.Restore(o, c.cert)
	r.locks = locks.Restore(c.locks)
	for _, x := range c.expired {
		r.expired[x.member] = x.ordinal
	}
	for _, s := range c.sources {
		r.sources[s.member] = s.source
	}
	for _, s := range c.serial {
		r.serial[s.member] = s.span
	}
	switch planted {
	case "checkpoint-without-sources":
		clear(r.sources)
	case "checkpoint-without-parts":
		for m, s := range r.sources { // order-free: each for itself
			s.parts, s.id = nil, writeset.TxID{}
			r.sources[m] = s
		}
	case "checkpoint-one-off":
		r.ordinal++
	}
}

// checkpointVersion 1: byte version, then uvarints index, term, ordinal, volume, the number of members; per member
// its number, incarnation, batch, and the parts of a payload with length; then the certifier's (certify.Checkpoint);
// at the end 4 bytes CRC-32C of all before, little endian.
//
// Version 2, which is written if advisory locks are held or have expired, has behind the certifier's: the number of
// members that have expired, per member uvarints its number and the ordinal; then locks.Checkpoint.
//
// Version 3, which is written if a member has run SERIALIZABLE transactions, has behind that: the number of such
// members, per member uvarints its number and the ordinal up to which it did, or 0 if it still does.
//
// Version 4, which is written if parts of a payload have come, has behind that the sequence of its transaction for
// each member that has parts.
//
// Version 5, which is written if the configuration of the order was ever changed, has behind that the configuration,
// with length (ordering.AppendConfState).
const (
	checkpointVersion       = 1
	checkpointVersionLocks  = 2
	checkpointVersionSerial = 3
	checkpointVersionParts  = 4
	checkpointVersionConf   = 5
)

func (c *Checkpoint) version() byte {
	switch {
	case c.conf != nil:
		return checkpointVersionConf
	case slices.ContainsFunc(c.sources, func(s memberSource) bool { return !s.id.IsZero() }):
		return checkpointVersionParts
	case len(c.serial) > 0:
		return checkpointVersionSerial
	case c.locks.Empty() && len(c.expired) == 0:
		return checkpointVersion
	}
	return checkpointVersionLocks
}

const sourceBytesMin = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append encodes the checkpoint. Members that took it at the same index get the same bytes.
func (c *Checkpoint) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, c.version())
	for _, v := range []uint64{c.Index, c.Term, c.Ordinal, c.volume, uint64(len(c.sources))} {
		dst = binary.AppendUvarint(dst, v)
	}
	for i := range c.sources {
		s := &c.sources[i]
		dst = binary.AppendUvarint(dst, uint64(s.member))
		dst = binary.AppendUvarint(dst, s.incarnation)
		dst = binary.AppendUvarint(dst, s.number)
		dst = writeset.AppendBytes(dst, s.parts)
	}
	dst = c.cert.Append(dst)
	if c.version() >= checkpointVersionLocks {
		dst = binary.AppendUvarint(dst, uint64(len(c.expired)))
		for _, x := range c.expired {
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(x.member)), x.ordinal)
		}
		dst = c.locks.Append(dst)
	}
	if c.version() >= checkpointVersionSerial {
		dst = binary.AppendUvarint(dst, uint64(len(c.serial)))
		for _, x := range c.serial {
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(x.member)), x.until)
		}
	}
	if c.version() >= checkpointVersionParts {
		for i := range c.sources {
			if s := &c.sources[i]; s.parts != nil {
				dst = binary.AppendUvarint(dst, s.id.Seq)
			}
		}
	}
	if c.version() >= checkpointVersionConf {
		dst = writeset.AppendBytes(dst, ordering.AppendConfState(nil, c.conf))
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// ErrCheckpoint is wrapped by DecodeCheckpoint's errors: the bytes are not a checkpoint, or not
// as they were written.
var ErrCheckpoint = errors.New("the checkpoint is damaged")

// DecodeCheckpoint reads a checkpoint that fills data exactly. It takes only what Append makes, and
// memory for a small multiple of len(data). Data must not change afterwards.
func DecodeCheckpoint(data []byte) (*Checkpoint, error) {
	c, err := decodeCheckpoint(data)
	if err != nil {
		return nil, fmt.Errorf("engine: %w: %w", ErrCheckpoint, err)
	}
	return c, nil
}

func decodeCheckpoint(data []byte) (*Checkpoint, error) {
	n := len(data) - crc32.Size
	switch {
	case n < 1:
		return nil, fmt.Errorf("it has %d bytes", len(data))
	case data[0] > checkpointVersionConf:
		return nil, fmt.Errorf("it has version %d: %w", data[0], writeset.ErrUnknown)
	case data[0] < checkpointVersion:
		return nil, fmt.Errorf("it has version %d, this build knows %d to %d",
			data[0], checkpointVersion, checkpointVersionConf)
	case binary.LittleEndian.Uint32(data[n:]) != crc32.Checksum(data[:n], castagnoli):
		return nil, fmt.Errorf("the checksum of its %d bytes is wrong", len(data))
	}
	r := writeset.NewReader(data[1:n])
	c := &Checkpoint{Index: r.Uvarint(), Term: r.Uvarint(), Ordinal: r.Uvarint(), volume: r.Uvarint()}
	c.sources = make([]memberSource, r.Count(sourceBytesMin))
	for i := range c.sources {
		m := uint32(r.Uvarint())
		c.sources[i] = memberSource{m, source{incarnation: r.Uvarint(), number: r.Uvarint(), parts: r.Bytes()}}
	}
	if err := c.readTables(r, data[0]); err != nil {
		return nil, err
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	if !bytes.Equal(c.Append(nil), data) {
		return nil, errors.New("it is not written as this build writes it")
	}
	return c, nil
}

// readTables reads what a version of the format has behind the sources.
func (c *Checkpoint) readTables(r *writeset.Reader, version byte) (err error) {
	if c.cert, err = certify.ReadCheckpoint(r); err != nil {
		return err
	}
	if version >= checkpointVersionLocks {
		if err = c.readLocks(r); err != nil {
			return err
		}
	}
	if version >= checkpointVersionSerial {
		c.readSerial(r)
	}
	if version >= checkpointVersionParts {
		c.readIDs(r)
	}
	if version >= checkpointVersionConf {
		c.conf, err = ordering.ReadConfState(r.Bytes())
	}
	return err
}

// expiryBytesMin is what one takes encoded.
const expiryBytesMin = 2

func (c *Checkpoint) readLocks(r *writeset.Reader) (err error) {
	if n := r.Count(expiryBytesMin); n > 0 {
		c.expired = make([]expiry, n)
	}
	for i := range c.expired {
		c.expired[i] = expiry{uint32(r.Uvarint()), r.Uvarint()}
	}
	c.locks, err = locks.ReadCheckpoint(r)
	return err
}

func (c *Checkpoint) readSerial(r *writeset.Reader) {
	c.serial = make([]serialSpan, r.Count(expiryBytesMin))
	for i := range c.serial {
		x := serialSpan{member: uint32(r.Uvarint())}
		x.until = r.Uvarint()
		x.open = x.until == 0
		c.serial[i] = x
	}
}

func (c *Checkpoint) readIDs(r *writeset.Reader) {
	for i := range c.sources {
		s := &c.sources[i]
		if s.parts == nil {
			continue
		}
		if seq := r.Uvarint(); seq > 0 {
			s.id = writeset.TxID{Member: s.member, Incarnation: s.incarnation, Seq: seq}
		}
	}
}

// Conf is the configuration of the order behind Index; nil: that of the log's beginning. It must not be changed.
func (c *Checkpoint) Conf() *ordering.ConfState { return c.conf }

func (c *Checkpoint) validate() error {
	if c.Index == 0 || c.Term == 0 {
		return fmt.Errorf("it is of entry %d of term %d", c.Index, c.Term)
	}
	if last := c.cert.Last(); last > c.Ordinal {
		return fmt.Errorf("it is of ordinal %d and knows ordinal %d", c.Ordinal, last)
	}
	for i := 1; i < len(c.sources); i++ {
		if a, b := c.sources[i-1].member, c.sources[i].member; a >= b {
			return fmt.Errorf("member %d follows member %d", b, a)
		}
	}
	return nil
}

// ErrBehind is that the log does not reach back to the database's checkpoint.
var ErrBehind = errors.New("engine: the log begins behind the database")

// Fit says whether an engine can start from c, or if c is nil from the beginning, with what the log
// holds. Foreign says that c came with a clone of another member's database. Restart is true if the
// log must first be restarted at c (raftlog.ApplySnapshot), because the clone is further than
// it; nothing that this member has vouched for and that is not in the clone is lost by it. An error is
// final, but for ErrBehind where the clone can be taken again.
func (c *Checkpoint) Fit(log ordering.Storage, foreign bool) (restart bool, err error) {
	first, err := log.FirstIndex()
	if err != nil {
		return false, fmt.Errorf("engine: %w", err)
	}
	last, err := log.LastIndex()
	if err != nil {
		return false, fmt.Errorf("engine: %w", err)
	}
	hs, _, err := log.InitialState()
	if err != nil {
		return false, fmt.Errorf("engine: %w", err)
	}
	if c == nil {
		if first > 1 {
			return false, fmt.Errorf("%w: it begins with entry %d, "+
				"and the database has no checkpoint of what was before", ErrBehind, first)
		}
		return false, nil
	}
	if c.Index < first-1 {
		return false, fmt.Errorf("%w: it begins with entry %d, and the database's checkpoint is of entry %d: "+
			"entries %d to %d are missing", ErrBehind, first, c.Index, c.Index+1, first-1)
	}
	if c.Index <= last {
		term, err := log.Term(c.Index)
		if err != nil {
			return false, fmt.Errorf("engine: %w", err)
		}
		if term == c.Term {
			return false, nil
		}
	}
	if !foreign || c.Index <= max(first-1, hs.GetCommit()) {
		return false, fmt.Errorf("engine: the log ends with entry %d and does not hold entry %d of term %d, "+
			"of which the database's checkpoint is: the log has lost entries, or is another's", last, c.Index, c.Term)
	}
	return true, nil
}
