package check

import "slices"

// ListOp is an append of a value (not zero, unique per key) or, with Append zero, a read
// of the whole list.
type ListOp struct {
	Key    uint64
	Append uint64
	Read   []uint64
}

// ListTransaction is one entry of a list-append history; entries of one session, one
// connection to one node, stand in the order it ran them. A client whose outcome was unknown
// must use a new session.
type ListTransaction struct {
	Session int
	Level   Level
	Outcome Outcome
	Ops     []ListOp
	// Start and End are times; used only when strong.
	Start, End int64
}

// ListOptions says what else was promised.
type ListOptions struct {
	// Strong: what was acknowledged before a transaction began comes before it.
	Strong bool
	// Final holds, per node, the lists read at the end when all was quiet.
	Final [][]ListOp
}

type value struct{ key, value uint64 }

type writer struct {
	tx   int32
	last bool // the transaction's last append to the key
}

// list is what is known of one key.
type list struct {
	order  []uint64        // the longest read
	by     int             // who read it; -1 the final read
	unread []int32         // acknowledged writers of values that nobody read: they follow, in an unknown order
	built  map[int]builder // by length: who read so many values from a snapshot and then appended
}

type builder struct {
	tx     int32
	placed bool // its value was read
}

// unreadMax bounds the unread writers considered per key; more would only make more edges.
const unreadMax = 8

type lists struct {
	report
	h       []ListTransaction
	o       ListOptions
	writers map[value]writer
	keys    map[uint64]*list
	sorted  []uint64 // keys, first seen first
	place   map[value]int32
	edges   []edge
	extra   int // nodes for real time
}

// ListAppend checks a list-append history.
func ListAppend(h []ListTransaction, o ListOptions) []Anomaly {
	l := &lists{h: h, o: o, writers: map[value]writer{}, keys: map[uint64]*list{}, place: map[value]int32{}}
	l.write()
	l.longest()
	l.versions()
	l.behind()
	for i := range h {
		if h[i].Outcome != Fail {
			l.internal(i)
			l.external(i)
		}
	}
	l.sessions()
	l.final()
	l.before()
	l.cycles()
	return l.anomalies
}

// write notes who appends what.
func (l *lists) write() {
	for i := range l.h {
		last := map[uint64]value{}
		for _, op := range l.h[i].Ops {
			if op.Append == 0 {
				continue
			}
			v := value{op.Key, op.Append}
			if w, ok := l.writers[v]; ok {
				l.add("history", []int{int(w.tx), i},
					"value %d is appended twice to key %d: the history proves nothing", op.Append, op.Key)
			}
			if p, ok := last[op.Key]; ok {
				l.writers[p] = writer{int32(i), false}
			}
			l.writers[v] = writer{int32(i), true}
			last[op.Key] = v
		}
	}
}

// own says whether i appended v.
func (l *lists) own(i int, v value) bool {
	w, ok := l.writers[v]
	return ok && int(w.tx) == i
}

// foreign cuts a transaction's own values off the end of a list.
func (l *lists) foreign(i int, key uint64, read []uint64) []uint64 {
	n := len(read)
	for n > 0 && l.own(i, value{key, read[n-1]}) {
		n--
	}
	return read[:n]
}

// longest finds each key's version order. A transaction that did not commit may have
// read its own appends: those are cut off.
func (l *lists) longest() {
	take := func(by int, key uint64, read []uint64) {
		k := l.keys[key]
		if k == nil {
			k = &list{by: by}
			l.keys[key] = k
			l.sorted = append(l.sorted, key)
		}
		if len(read) > len(k.order) {
			k.order, k.by = read, by
		}
	}
	for i := range l.h {
		for _, op := range l.h[i].Ops {
			if op.Append != 0 {
				take(i, op.Key, nil)
				continue
			}
			read := op.Read
			if l.h[i].Outcome != OK {
				read = l.foreign(i, op.Key, read)
			}
			if l.h[i].Outcome != Fail {
				take(i, op.Key, read)
			}
		}
	}
	for _, node := range l.o.Final {
		for _, op := range node {
			take(-1, op.Key, op.Read)
		}
	}
}

// versions checks the orders and makes the ww edges.
func (l *lists) versions() {
	for _, key := range l.sorted {
		k := l.keys[key]
		before := int32(-1)
		for n, x := range k.order {
			v := value{key, x}
			if _, ok := l.place[v]; ok {
				l.add("duplicate", nil, "value %d is twice in key %d: %v", x, key, k.order)
				continue
			}
			l.place[v] = int32(n)
			w, ok := l.writers[v]
			if !ok {
				l.add("garbage", nil, "value %d of key %d was never appended", x, key)
				before = -1
				continue
			}
			if l.h[w.tx].Outcome == Fail {
				l.add("G1a", []int{int(w.tx)}, "value %d of key %d was read, but its transaction failed", x, key)
			}
			if before >= 0 && before != w.tx {
				l.edges = append(l.edges, edge{before, w.tx, ww})
			}
			before = w.tx
		}
	}
}

// behind finds the appends that were acknowledged and that nobody read. They come after all
// that was read.
func (l *lists) behind() {
	for i := range l.h {
		if l.h[i].Outcome != OK {
			continue
		}
		for _, op := range l.h[i].Ops {
			k := l.keys[op.Key]
			if op.Append == 0 || len(k.unread) == unreadMax ||
				len(k.unread) > 0 && k.unread[len(k.unread)-1] == int32(i) {
				continue
			}
			if _, ok := l.place[value{op.Key, op.Append}]; ok {
				continue
			}
			k.unread = append(k.unread, int32(i))
			if n := len(k.order); n > 0 {
				if w, ok := l.writers[value{op.Key, k.order[n-1]}]; ok && int(w.tx) != i {
					l.edges = append(l.edges, edge{w.tx, int32(i), ww})
				}
			}
		}
	}
}

// internal checks what a transaction read after its own operations.
func (l *lists) internal(i int) {
	t := &l.h[i]
	type state struct {
		read  []uint64 // with own appends since
		known bool
		own   []uint64
	}
	seen := map[uint64]*state{}
	for _, op := range t.Ops {
		s := seen[op.Key]
		if s == nil {
			s = &state{}
			seen[op.Key] = s
		}
		if op.Append != 0 {
			s.own = append(s.own, op.Append)
			if s.known {
				s.read = append(s.read[:len(s.read):len(s.read)], op.Append)
			}
			continue
		}
		tail := op.Read[len(l.foreign(i, op.Key, op.Read)):]
		if !slices.Equal(tail, s.own) {
			l.add("internal", []int{i}, "key %d was read as %v after appending %v", op.Key, op.Read, s.own)
		}
		if t.Level != ReadCommitted && s.known && !slices.Equal(op.Read, s.read) {
			l.add("internal", []int{i}, "key %d was read as %v, but its snapshot has %v", op.Key, op.Read, s.read)
		}
		s.read, s.known = op.Read, true
	}
}

// committed says whether i is known to have committed: acknowledged or seen by others.
func (l *lists) committed(i int) bool {
	if l.h[i].Outcome == OK {
		return true
	}
	if l.h[i].Outcome == Fail {
		return false
	}
	for _, op := range l.h[i].Ops {
		if op.Append != 0 {
			if _, ok := l.place[value{op.Key, op.Append}]; ok {
				return true
			}
		}
	}
	return false
}

// external checks a transaction's reads against the version orders and makes its wr and
// rw edges.
func (l *lists) external(i int) {
	t := &l.h[i]
	committed := l.committed(i)
	fixed := t.Level != ReadCommitted
	for n, op := range t.Ops {
		if op.Append != 0 {
			continue
		}
		k := l.keys[op.Key]
		read := l.foreign(i, op.Key, op.Read)
		if len(read) > len(k.order) || !slices.Equal(read, k.order[:len(read)]) {
			l.add("incompatible order", l.both(i, k.by), "key %d was read as %v and as %v", op.Key, read, k.order)
			continue
		}
		l.readFrom(i, op.Key, read, committed)
		if committed && fixed {
			l.readBefore(i, n, op.Key, len(read))
		}
	}
}

// readFrom makes the edge from the transaction whose value i read last.
func (l *lists) readFrom(i int, key uint64, read []uint64, committed bool) {
	if len(read) == 0 {
		return
	}
	w, ok := l.writers[value{key, read[len(read)-1]}]
	if !ok || int(w.tx) == i {
		return
	}
	if !w.last {
		l.add("G1b", []int{int(w.tx), i}, "key %d was read between two appends of one transaction: %v", key, read)
	}
	if committed {
		l.edges = append(l.edges, edge{w.tx, int32(i), wr})
	}
}

// readBefore makes the edges to the transactions whose values i did not see in its n-th operation, which read so many.
func (l *lists) readBefore(i, n int, key uint64, read int) {
	k := l.keys[key]
	next, builds := l.appended(i, n, key)
	if builds {
		l.overlooked(i, next, read)
	}
	if read == len(k.order) {
		for _, u := range k.unread {
			if int(u) != i {
				l.edges = append(l.edges, edge{int32(i), u, rw})
			}
		}
		return
	}
	w, ok := l.writers[value{key, k.order[read]}]
	if !ok || int(w.tx) == i {
		return
	}
	l.edges = append(l.edges, edge{int32(i), w.tx, rw})
	if p, ok := l.place[next]; builds && ok {
		l.add("lost update", []int{int(w.tx), i},
			"key %d was read up to %d values, but the append built on it came as number %d", key, read, p+1)
	}
}

// appended says whether i appends to key after its n-th operation.
func (l *lists) appended(i, n int, key uint64) (value, bool) {
	for _, op := range l.h[i].Ops[n:] {
		if op.Key == key && op.Append != 0 {
			return value{key, op.Append}, true
		}
	}
	return value{}, false
}

// overlooked notes that i, which committed, read a key at a length and then appended next. Of two
// that did so, at least one overwrote the other. If both values were read the places tell.
func (l *lists) overlooked(i int, next value, length int) {
	k := l.keys[next.key]
	if k.built == nil {
		k.built = map[int]builder{}
	}
	_, placed := l.place[next]
	other, ok := k.built[length]
	if !ok {
		k.built[length] = builder{int32(i), placed}
	} else if int(other.tx) != i && !(placed && other.placed) {
		l.add("lost update", []int{int(other.tx), i}, "both read key %d with %d values, appended, and committed",
			next.key, length)
	}
}

func (l *lists) both(i, by int) []int {
	if by < 0 {
		return []int{i}
	}
	return []int{by, i}
}

// final checks the last reads of all nodes.
func (l *lists) final() {
	for n, node := range l.o.Final {
		for _, op := range node {
			k := l.keys[op.Key]
			if !slices.Equal(op.Read, k.order) {
				l.add("divergence", nil, "node %d ends with key %d as %v, but %v was read", n, op.Key, op.Read, k.order)
			}
		}
	}
	if len(l.o.Final) == 0 {
		return
	}
	for i := range l.h {
		for _, op := range l.h[i].Ops {
			if op.Append == 0 || l.h[i].Outcome != OK {
				continue
			}
			if _, ok := l.place[value{op.Key, op.Append}]; !ok {
				l.add("lost write", []int{i}, "value %d of key %d was acknowledged but is not there in the end",
					op.Append, op.Key)
			}
		}
	}
}
