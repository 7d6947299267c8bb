package capture

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// PostgreSQL stores values that its own receive functions refuse, or read in as other values: the tsquery of nothing
// but stop words, a timestamp that was rounded past the end of time, the circle of radius -1. Another member could not
// store what was ordered then. So a value either is of a kind of which a test has proved that it arrives as it was
// sent, or it is doubtful, and read in at its own member before it is ordered.

// UserType is a type that clients or extensions have made, as far as its values' parts tell what they are.
type UserType struct {
	OID  uint32   `json:"oid"`
	Kind TypeKind `json:"kind"`
	Of   uint32   `json:"of"` // what it is made of: see TypeKind
}

// TypeKind says what UserType.Of is.
type TypeKind string

// The kinds of users' types.
const (
	KindEnum       TypeKind = "e" // nothing
	KindDomain     TypeKind = "d" // the type below
	KindComposite  TypeKind = "c" // nothing: its values name the types of their fields
	KindRange      TypeKind = "r" // the type of its bounds
	KindMultirange TypeKind = "m" // the type of its ranges' bounds
	KindArray      TypeKind = "a" // nothing: its values name the type of their elements
	KindBase       TypeKind = "b" // a type of PostgreSQL's own with the same send and receive functions, or 0
)

// arrays are PostgreSQL's own array types whose elements may be certain.
var arrays = []uint32{1000, 1001, 1002, 1003, 1016, 1005, 1007, 1009, 1028, 1010, 1011, 1012, 199, 3807, 1021, 1022,
	791, 1040, 775, 1041, 651,
	1014, 1015, 1182, 1183, 1270, 1115, 1185, 1187, 1561, 1563, 1231, 2951, 2201, 3221, 271, 1017, 1018, 3643,
	3905, 3907, 3909, 3911, 3913, 3927, 6150, 6151, 6152, 6153, 6155, 6157}

// ranges are PostgreSQL's own range types, with the types of their bounds; multiranges theirs, with the range types.
var (
	ranges      = map[uint32]uint32{3904: 23, 3906: 1700, 3908: 1114, 3910: 1184, 3912: 1082, 3926: 20}
	multiranges = map[uint32]uint32{4451: 3904, 4532: 3906, 4533: 3908, 4534: 3910, 4535: 3912, 4536: 3926}
)

// partsMax bounds how deep a value may be made of others.
const partsMax = 16

// certain reports whether a value in binary form is received as it was sent, wherever it is sent to. users are the
// types of its column that are not PostgreSQL's own.
func certain(oid uint32, v []byte, users []UserType, depth int) bool {
	if depth > partsMax {
		return false
	}
	if oid >= firstUserOID {
		return certainUser(oid, v, users, depth)
	}
	if below, ok := ranges[oid]; ok {
		return certainRange(below, v, users, depth)
	}
	if of, ok := multiranges[oid]; ok {
		return certainMultirange(ranges[of], v, users, depth)
	}
	if slices.Contains(arrays, oid) {
		return certainArray(v, users, depth)
	}
	return certainOwn(oid, v)
}

func certainUser(oid uint32, v []byte, users []UserType, depth int) bool {
	i := slices.IndexFunc(users, func(u UserType) bool { return u.OID == oid })
	if i < 0 {
		return false
	}
	switch u := users[i]; u.Kind {
	case KindEnum:
		return certainOwn(25, v)
	case KindDomain:
		return certain(u.Of, v, users, depth+1)
	case KindBase:
		return u.Of != 0 && u.Of < firstUserOID && certainOwn(u.Of, v)
	case KindRange:
		return u.Of != 0 && certainRange(u.Of, v, users, depth)
	case KindMultirange:
		return u.Of != 0 && certainMultirange(u.Of, v, users, depth)
	case KindArray:
		return certainArray(v, users, depth)
	case KindComposite:
		fields, ok := binaryFields(v)
		return ok && !slices.ContainsFunc(fields,
			func(f field) bool { return f.value != nil && !certain(f.oid, f.value, users, depth+1) })
	}
	return false
}

// certainOwn is certain for PostgreSQL's own types that are made of nothing else.
func certainOwn(oid uint32, v []byte) bool {
	if n := ownBytes(oid); n > 0 {
		return len(v) == n && (oid != 16 || v[0] <= 1)
	}
	if f := ownForms[oid]; f != nil {
		return f(v)
	}
	return certainTime(oid, v)
}

// ownForms judge values of a type that has forms, or lengths.
var ownForms = map[uint32]func(v []byte) bool{
	17: func([]byte) bool { return true },                        // bytea
	25: readable, 1042: readable, 1043: readable, 1790: readable, // text, bpchar, varchar, refcursor
	19:   func(v []byte) bool { return len(v) < 64 && readable(v) },                                   // name
	114:  func(v []byte) bool { return shallow(v) && readable(v) && json.Valid(v) },                   // json
	3802: func(v []byte) bool { return len(v) > 1 && v[0] == 1 && shallow(v[1:]) && readable(v[1:]) }, // jsonb
	3614: certainLexemes,                                                                              // tsvector
	1560: certainBits, 1562: certainBits,                                                              // bit, varbit
	869:  func(v []byte) bool { return certainNet(v, false) }, // inet
	650:  func(v []byte) bool { return certainNet(v, true) },  // cidr
	1700: certainNumeric,                                      // numeric
}

// ownBytes is how many bytes values of a type have of which so many bytes are always read alike, but for bool; or zero.
func ownBytes(oid uint32) int {
	switch oid {
	case 16, 18: // bool, "char"
		return 1
	case 21: // int2
		return 2
	case 23, 26, 28, 29, 700: // int4, oid, xid, cid, float4
		return 4
	case 27, 829: // tid, macaddr
		return 6
	case 20, 701, 790, 3220, 5069, 774: // int8, float8, money, pg_lsn, xid8, macaddr8
		return 8
	case 600, 2950: // point, uuid
		return 16
	}
	return 0
}

func readable(v []byte) bool {
	verdict, _ := readText(v)
	return verdict == Readable
}

// certainTime is certain for dates and times: they are within the bounds that their receive functions have.
func certainTime(oid uint32, v []byte) bool {
	const day, zoneMost = 24 * 3600 * 1000000, 16 * 3600
	switch {
	case oid == 1082 && len(v) == 4, (oid == 1114 || oid == 1184) && len(v) == 8: // date, timestamp, timestamptz
		return (&Column{OID: oid}).stores(v)
	case oid == 1083 && len(v) == 8: // time
		t := int64(binary.BigEndian.Uint64(v))
		return t >= 0 && t <= day
	case oid == 1266 && len(v) == 12: // timetz
		t, zone := int64(binary.BigEndian.Uint64(v)), int32(binary.BigEndian.Uint32(v[8:]))
		return t >= 0 && t <= day && zone > -zoneMost && zone < zoneMost
	case oid == 1186 && len(v) == 16: // interval, which may be rounded
		t := int64(binary.BigEndian.Uint64(v))
		return t > -1<<62 && t < 1<<62
	}
	return false
}

// certainBits: a number of bits, and these in whole bytes; the last bits are zero.
func certainBits(v []byte) bool {
	if len(v) < 4 {
		return false
	}
	n := int64(int32(binary.BigEndian.Uint32(v)))
	if n < 0 || int64(len(v)-4) != (n+7)/8 {
		return false
	}
	return n%8 == 0 || v[len(v)-1]<<(n%8) == 0
}

// certainNet: family, bits, whether it is a cidr, and the address with its length. A cidr has no bits below its mask.
func certainNet(v []byte, cidr bool) bool {
	if len(v) < 4 || len(v) != 4+int(v[3]) || v[2] > 1 || v[2] == 1 != cidr {
		return false
	}
	if !(v[0] == 2 && v[3] == 4) && !(v[0] == 3 && v[3] == 16) || int(v[1]) > 8*int(v[3]) {
		return false
	}
	for i := int(v[1]); v[2] == 1 && i < 8*int(v[3]); i++ {
		if v[4+i/8]<<(i%8)&0x80 != 0 {
			return false
		}
	}
	return true
}

// certainNumeric: a number of ordinary length. Digits beyond its scale would be cut off.
func certainNumeric(v []byte) bool {
	const digitsMax, scaleMax, special = 256, 1000, 0xc000
	if len(v) < 8 {
		return false
	}
	at := func(i int) int { return int(binary.BigEndian.Uint16(v[2*i:])) }
	n, weight, sign, scale := at(0), int(int16(at(1))), at(2), at(3)
	if len(v) != 8+2*n || n > digitsMax || scale > scaleMax {
		return false
	}
	switch {
	case sign&special == special: // NaN, and the infinities
		return n == 0 && weight == 0 && (sign == 0xc000 && scale == 0 ||
			(sign == 0xd000 || sign == 0xf000) && scale == 0x20)
	case n == 0:
		return weight == 0 && sign == 0
	case sign != 0 && sign != 0x4000, weight < -digitsMax, weight > digitsMax:
		return false
	}
	return certainDigits(v[8:], weight, scale)
}

// certainDigits: of a numeric, at least one, each of four decimal places; weight is that of the first one. The first is
// not zero, nor the last.
func certainDigits(v []byte, weight, scale int) bool {
	n := len(v) / 2
	at := func(i int) int { return int(binary.BigEndian.Uint16(v[2*i:])) }
	for i := range n {
		if at(i) > 9999 {
			return false
		}
	}
	// The last digit, of four, has places behind the point of which the scale allows only so many.
	beyond := 4*(n-1-weight) - scale
	last := at(n - 1)
	for ; beyond > 0 && last%10 == 0 && last > 0; beyond-- {
		last /= 10
	}
	return beyond <= 0 && at(0) > 0 && last > 0
}

// certainLexemes: as PostgreSQL writes a tsvector, in order, each lexeme once and not too long, its positions in order.
func certainLexemes(v []byte) bool {
	const lexemeMax, positionsMax, all = 2046, 255, 1 << 20
	if len(v) < 4 || len(v) > all/4 || !readableLexemes(v) {
		return false
	}
	var last []byte
	n := binary.BigEndian.Uint32(v)
	for v = v[4:]; len(v) > 0; n-- {
		end := slices.Index(v, 0)
		lexeme := v[:max(end, 0)]
		if end <= 0 || end > lexemeMax || last != nil && slices.Compare(last, lexeme) >= 0 || len(v) < end+3 {
			return false
		}
		last = lexeme
		count := int(binary.BigEndian.Uint16(v[end+1:]))
		v = v[end+3:]
		if count > positionsMax || len(v) < 2*count {
			return false
		}
		before := 0
		for i := range count {
			p := int(binary.BigEndian.Uint16(v[2*i:])) & 0x3fff
			if p <= before {
				return false
			}
			before = p
		}
		v = v[2*count:]
	}
	return n == 0
}

func readableLexemes(v []byte) bool {
	verdict, _ := readLexemes(v)
	return verdict == Readable
}

// shallow reports whether a text of JSON is nested so little that no member's stack is too small for it.
func shallow(v []byte) bool {
	const depthMax = 200
	depth, quoted := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > depthMax {
				return false
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return true
}

// certainArray: few dimensions, which begin near 1, and elements that are certain.
func certainArray(v []byte, users []UserType, depth int) bool {
	const boundMost = 1 << 20
	e, ok := elements(v)
	if !ok {
		return false
	}
	dims, n, nulls := int(binary.BigEndian.Uint32(v)), int64(min(1, binary.BigEndian.Uint32(v))), int64(0)
	for i := range dims {
		size, from := int32(binary.BigEndian.Uint32(v[12+8*i:])), int32(binary.BigEndian.Uint32(v[16+8*i:]))
		if n *= int64(size); size <= 0 || n > boundMost<<8 || from < -boundMost || from > boundMost {
			return false
		}
	}
	for _, f := range e {
		if !certain(f.oid, f.value, users, depth+1) {
			return false
		}
		nulls -= 4 + int64(len(f.value))
	}
	nulls = (nulls + int64(len(v)-12-8*dims)) / 4 // what is left is the lengths of those that elements leaves out
	return int64(len(e))+nulls == n
}

const (
	rangeEmpty    = 0x01
	rangeLowerInc = 0x02
	rangeUpperInc = 0x04
	rangeLowerInf = 0x08
	rangeUpperInf = 0x10
	rangeKnown    = 0x1f // and what says which bounds belong to it
)

// certainRange: flags, and the bounds there are.
func certainRange(below uint32, v []byte, users []UserType, depth int) bool {
	if len(v) == 0 || v[0]&^rangeKnown != 0 {
		return false
	}
	f := v[0]
	bounds, ok := rangeBounds(f)
	discrete := below == 23 || below == 20 || below == 1082 // of which PostgreSQL has one form: [a,b)
	if !ok || discrete && f != rangeEmpty && (f&(rangeLowerInf|rangeLowerInc) == 0 || f&rangeUpperInc != 0) {
		return false
	}
	b, lower := v[1:], []byte(nil)
	for i := range bounds {
		value, rest, ok := lengthed(b)
		if !ok || !certain(below, value, users, depth+1) || i > 0 && slices.Equal(lower, value) &&
			f&(rangeLowerInc|rangeUpperInc) != rangeLowerInc|rangeUpperInc {
			return false // the last: it would be empty
		}
		b, lower = rest, value
	}
	return len(b) == 0
}

// rangeBounds is how many bounds a range with these flags has; false if no range has them.
func rangeBounds(f byte) (n int, ok bool) {
	switch {
	case f == rangeEmpty:
		return 0, true
	case f&rangeEmpty != 0, f&rangeLowerInf != 0 && f&rangeLowerInc != 0, f&rangeUpperInf != 0 && f&rangeUpperInc != 0:
		return 0, false
	}
	n = 2
	for _, infinite := range []byte{rangeLowerInf, rangeUpperInf} {
		if f&infinite != 0 {
			n--
		}
	}
	return n, true
}

// certainMultirange: a number, and ranges with their lengths.
func certainMultirange(below uint32, v []byte, users []UserType, depth int) bool {
	if len(v) < 4 {
		return false
	}
	n, b := binary.BigEndian.Uint32(v), v[4:]
	for ; n > 0; n-- {
		value, rest, ok := lengthed(b)
		if !ok || !certainRange(below, value, users, depth) {
			return false
		}
		b = rest
	}
	return len(b) == 0
}

// lengthed cuts off a value behind its length.
func lengthed(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int32(binary.BigEndian.Uint32(b))
	if b = b[4:]; n < 0 || int(n) > len(b) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// sure are types all of whose values are certain, if text is valid.
var sure = []uint32{16, 17, 18, 19, 20, 21, 23, 25, 26, 27, 28, 29, 600, 700, 701, 774, 790, 829, 1042, 1043, 1790,
	2950, 3220, 5069}

// Sure reports whether all values of the table are certain, so that they need not be looked at.
func (t *TableDesc) Sure() bool {
	return t.Binary() && !slices.ContainsFunc(t.Columns, func(c Column) bool { return !slices.Contains(sure, c.OID) })
}

// Doubt is a value of a row that has to be read in before the row is ordered, or the row itself.
type Doubt struct {
	Column int // its place; -1: the image as a whole, which is in text or cannot be read here
	OID    uint32
	Value  []byte
}

// Doubts finds in an image of a table what is doubtful. T may be nil, if the table is not known.
func (t *TableDesc) Doubts(f writeset.Format, image []byte) (out []Doubt) {
	if f != writeset.FormatBinary {
		return []Doubt{{Column: -1}}
	}
	if len(image) < 4 {
		return []Doubt{{Column: -1}}
	}
	b := image[4:]
	for i := 0; len(b) > 0; i++ {
		if len(b) < 4 {
			return []Doubt{{Column: -1}}
		}
		oid := binary.BigEndian.Uint32(b)
		value, rest, ok := nextField(b)
		if !ok {
			return []Doubt{{Column: -1}}
		}
		b = rest
		var users []UserType
		if t != nil && i < len(t.Columns) {
			users = t.Columns[i].User
		}
		if value != nil && !certain(oid, value, users, 0) {
			out = append(out, Doubt{Column: i, OID: oid, Value: value})
		}
	}
	return out
}

// Dispensable reports whether a row of the table is found without the column, and the column can be NULL in an image of
// it.
func (t *TableDesc) Dispensable(column int) bool {
	key := t.Key()
	if column < 0 || column >= len(t.Columns) || key == nil || t.Columns[column].Domain {
		return false
	}
	return !slices.ContainsFunc(key.Parts, func(p Part) bool { return p.Num == t.Columns[column].Num })
}

// Unchanged reports whether a value that was received and sent again is the one that was sent first. An array that was
// made with nulls says so as long as it is stored, and no longer when it has been read in.
func Unchanged(sent, again []byte) bool {
	if len(sent) != len(again) {
		return false
	}
	for i := range sent {
		if sent[i] == again[i] {
			continue
		}
		flag := sent[i] == 1 && again[i] == 0 && i >= 7 && sent[i-1] == 0 && sent[i-2] == 0 && sent[i-3] == 0
		if !flag || binary.BigEndian.Uint32(sent[i-7:]) > 6 {
			return false
		}
	}
	return true
}

// wideMost is how many bytes of a row's values may have to fit a page, or an entry of an index, however they are
// compressed.
const wideMost = 2000

// manyColumns is from how many columns on a row may be too long although each value can be stored apart.
const manyColumns, longRow = 200, 4000

// Wide reports whether an image holds more in indexes, or in columns that cannot be stored apart, than certainly fits.
// What has been compressed at its member, in a way that others may not use, fits there.
func (t *TableDesc) Wide(f writeset.Format, image []byte) bool {
	if !t.wide() || len(image) <= wideMost/2 {
		return false
	}
	if f != writeset.FormatBinary || len(t.Columns) > manyColumns && len(image) > longRow {
		return true
	}
	size, b := 0, image[4:]
	for i := 0; i < len(t.Columns) && len(b) > 0; i++ {
		value, rest, ok := nextField(b)
		if !ok {
			return true
		}
		if b = rest; t.Columns[i].Narrow {
			if size += len(value); !slices.Contains([]uint32{17, 25, 1042, 1043}, t.Columns[i].OID) {
				size += len(value) // its binary form may be shorter than what is stored
			}
		}
	}
	return size > wideMost
}

func (t *TableDesc) wide() bool {
	return len(t.Columns) > manyColumns || slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Narrow })
}

// TryTable is SQL for a copy of the table in the session's temporary schema that stores rows as it does, and TryRows
// the insertion of an array of its rows there.
func (t *TableDesc) TryTable() string {
	return fmt.Sprintf("CREATE TEMPORARY TABLE %s (LIKE %s.%s INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING "+
		"GENERATED INCLUDING INDEXES)",
		Quote(t.Name), Quote(t.Schema), Quote(t.Name))
}

// TryRows is described at TryTable.
func (t *TableDesc) TryRows() string {
	into, from := "", ""
	for _, c := range t.Columns {
		if c.Generated {
			continue
		}
		if into != "" {
			into, from = into+", ", from+", "
		}
		into, from = into+Quote(c.Name), from+"r."+Quote(c.Name)
	}
	return fmt.Sprintf("INSERT INTO pg_temp.%s (%s) SELECT %s FROM pg_catalog.unnest($1::%s.%s[]) AS r", Quote(t.Name),
		into, from, Quote(t.Schema), Quote(t.Name))
}

// UserOID reports whether an OID is that of a type that clients or extensions have made.
func UserOID(oid uint32) bool { return oid >= firstUserOID }
