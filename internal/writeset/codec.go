package writeset

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Version 1 of the encoding, all integers unsigned varints unless said otherwise:
//
//	byte version
//	tables: count, then per table: format byte, key (8 bytes LE), schema, name
//	rows:   count, then per row: table<<3|op (0: OpAdd; in version 3 1 is OpSet, 2 OpDrop, and 3 OpPut), identity (8
//	    bytes LE), image
//	keys:   count, then per key: table<<2|mode, hash (8 bytes LE)
//
// Strings and images are length-prefixed. Version 2, of a transaction that changed the schema or locked tables, goes
// on:
//
//	byte flags: 1, if it is a barrier, 2, if tables are held, 4, if it concerns what all databases share, 8, if names
//	    are compared with the newest data (not known to every build that knows the others)
//	held:   if so count, then per table its index
//	steps: count, then per step: byte kind, definition or encoded writeset
//
// Version 3, of a blind transaction, is like version 1.
const (
	codecVersion      = 1
	codecVersionSteps = 2
	codecVersionBlind = 3

	stepsBarrier = 1
	stepsHeld    = 2
	stepsShared  = 4
	stepsNewest  = 8

	stepDefinition = 1
	stepRows       = 2
)

// Size is about how many bytes Append adds, and rarely less than that.
func (w *Writeset) Size() int {
	size := 64 + 16*len(w.Rows) + 16*len(w.Keys) + 64*len(w.Tables)
	for i := range w.Rows {
		size += len(w.Rows[i].Image)
	}
	for i := range w.Steps {
		if size += 16 + len(w.Steps[i].Definition); w.Steps[i].Rows != nil {
			size += w.Steps[i].Rows.Size()
		}
	}
	return size
}

// Append encodes w at the end of dst.
func (w *Writeset) Append(dst []byte) []byte {
	dst = slices.Grow(dst, w.Size()) // growing step by step would take twice the memory
	switch {
	case w.Blind():
		return w.appendRows(append(dst, codecVersionBlind))
	case len(w.Steps)+len(w.Held) == 0:
		return w.appendRows(append(dst, codecVersion))
	}
	dst = w.appendRows(append(dst, codecVersionSteps))
	flags := byte(0)
	if w.Barrier {
		flags |= stepsBarrier
	}
	if w.Shared {
		flags |= stepsShared
	}
	if w.NewestNames {
		flags |= stepsNewest
	}
	if len(w.Held) > 0 {
		dst = binary.AppendUvarint(append(dst, flags|stepsHeld), uint64(len(w.Held)))
		for _, n := range w.Held {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
	} else {
		dst = append(dst, flags)
	}
	dst = binary.AppendUvarint(dst, uint64(len(w.Steps)))
	for _, s := range w.Steps {
		if s.Rows == nil {
			dst = AppendBytes(append(dst, stepDefinition), s.Definition)
		} else {
			dst = AppendBytes(append(dst, stepRows), s.Rows.Append(nil))
		}
	}
	return dst
}

func (w *Writeset) appendRows(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(w.Tables)))
	for _, t := range w.Tables {
		dst = append(dst, byte(t.Format))
		dst = binary.LittleEndian.AppendUint64(dst, t.Key)
		dst = AppendBytes(dst, []byte(t.Schema))
		dst = AppendBytes(dst, []byte(t.Name))
	}
	dst = binary.AppendUvarint(dst, uint64(len(w.Rows)))
	for _, r := range w.Rows {
		dst = binary.AppendUvarint(dst, uint64(r.Table)<<3|uint64(r.Op)%opsEncoded)
		dst = binary.LittleEndian.AppendUint64(dst, r.Identity)
		dst = AppendBytes(dst, r.Image)
	}
	dst = binary.AppendUvarint(dst, uint64(len(w.Keys)))
	for _, k := range w.Keys {
		dst = binary.AppendUvarint(dst, uint64(k.Table)<<2|uint64(k.Mode))
		dst = binary.LittleEndian.AppendUint64(dst, k.Hash)
	}
	return dst
}

// AppendBytes appends a length-prefixed byte string.
func AppendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// Decode reads a writeset that fills b exactly. The result's images alias b. Errors wrap
// ErrMalformed.
func Decode(b []byte) (*Writeset, error) {
	r := Reader{b: b}
	w := &Writeset{}
	version := r.Byte()
	switch {
	case r.err != nil:
	case version < codecVersion:
		return nil, fmt.Errorf("%w: version %d is not known", ErrMalformed, version)
	case version > codecVersionBlind:
		return nil, fmt.Errorf("%w: it has version %d: %w", ErrMalformed, version, ErrUnknown)
	}
	if n := r.Count(11); n > 0 {
		w.Tables = make([]Table, n)
	}
	for i := range w.Tables {
		w.Tables[i] = Table{Format: Format(r.Byte()), Key: r.Uint64(), Schema: string(r.Bytes()),
			Name: string(r.Bytes())}
	}
	if n := r.Count(10); n > 0 {
		w.Rows = make([]Row, n)
	}
	for i := range w.Rows {
		w.Rows[i] = r.row()
		if version == codecVersionBlind {
			if w.Rows[i].Op += Op(opsEncoded); !w.Rows[i].Op.Blind() {
				r.fail("a blind row does something else")
			}
		}
	}
	if n := r.Count(9); n > 0 {
		w.Keys = make([]Key, n)
	}
	for i := range w.Keys {
		v := r.Uvarint()
		w.Keys[i] = Key{Table: uint32(min(v>>2, 1<<32-1)), Mode: Mode(v & 3), Hash: r.Uint64()}
	}
	if version == codecVersionSteps {
		r.steps(w)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	if err := w.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return w, nil
}

func (r *Reader) steps(w *Writeset) {
	flags := r.Byte()
	w.Barrier, w.Shared = flags&stepsBarrier != 0, flags&stepsShared != 0
	w.NewestNames = flags&stepsNewest != 0
	if flags&stepsHeld != 0 {
		w.Held = make([]uint32, r.Count(1))
		for i := range w.Held {
			w.Held[i] = uint32(min(r.Uvarint(), 1<<32-1))
		}
		if len(w.Held) == 0 {
			r.fail("no held tables")
		}
	}
	if n := r.Count(2); n > 0 {
		w.Steps = make([]Step, n)
	}
	if flags&^(stepsBarrier|stepsHeld|stepsShared|stepsNewest) != 0 {
		r.unknown("a flag of the steps")
	}
	if len(w.Steps)+len(w.Held) == 0 {
		r.fail("no steps")
	}
	for i := range w.Steps {
		kind, data := r.Byte(), r.Bytes()
		switch kind {
		case stepDefinition:
			w.Steps[i].Definition = data
		case stepRows:
			if len(data) > 0 && data[0] > codecVersionBlind {
				r.unknown("the version of a step")
				return
			}
			if len(data) == 0 || data[0] != codecVersion {
				r.fail("a step is no set of rows")
				return
			}
			rows, err := Decode(data)
			if err != nil {
				r.fail(err.Error())
				return
			}
			w.Steps[i].Rows = rows
		default:
			r.unknown("a kind of step")
			return
		}
	}
}

// opsEncoded is how many operations an encoded row tells apart, OpAdd as the first.
const opsEncoded = uint64(OpAdd)

func (r *Reader) row() Row {
	v := r.Uvarint()
	op := Op(v % opsEncoded)
	if op == 0 {
		op = OpAdd
	}
	return Row{Table: uint32(min(v/opsEncoded, 1<<32-1)), Op: op, Identity: r.Uint64(), Image: r.Bytes()}
}

// Reader takes values off the front of a byte slice; the first failure sticks and every
// later read returns zero. The zero Reader is empty.
type Reader struct {
	b   []byte
	err error
}

// NewReader reads from b; byte strings it returns alias b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

func (r *Reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	r.b = nil
}

// unknown is fail for what a newer release may have written.
func (r *Reader) unknown(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s: %w", ErrMalformed, what, ErrUnknown)
	}
	r.b = nil
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) < 1 {
		r.fail("cut short")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// Uint64 reads 8 bytes, little endian.
func (r *Reader) Uint64() uint64 {
	if len(r.b) < 8 {
		r.fail("cut short")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("bad integer")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Count reads an element count and refuses one that could not fit in what is left, given
// that every element takes at least sizeMin bytes.
func (r *Reader) Count(sizeMin int) int {
	v := r.Uvarint()
	if v > uint64(len(r.b)/sizeMin) {
		r.fail("count beyond the end")
		return 0
	}
	return int(v)
}

// Bytes reads a length-prefixed byte string, aliasing the input; empty gives nil.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.fail("string beyond the end")
		return nil
	}
	if n == 0 {
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Done returns the first error, or one if bytes are left over.
func (r *Reader) Done() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("trailing bytes")
	}
	return r.err
}
