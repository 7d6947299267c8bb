package check

// sessions checks that a session reads what it was told is committed, and never an older state
// than it has read.
func (l *lists) sessions() {
	type at struct {
		session int
		key     uint64
	}
	type state struct {
		length int   // it has read or written so many values
		tx     int32 // in this transaction
		unread bool  // the transaction wrote a value that nobody read
	}
	known := map[at]state{}
	for i := range l.h {
		t := &l.h[i]
		if t.Outcome != OK {
			continue
		}
		for _, op := range t.Ops {
			a := at{t.Session, op.Key}
			s := known[a]
			n, unread := len(op.Read), false
			if op.Append != 0 {
				if p, ok := l.place[value{op.Key, op.Append}]; ok {
					n = int(p) + 1
				} else {
					unread = true
				}
			} else if n < s.length || s.unread && int(s.tx) != i {
				l.add("session", []int{int(s.tx), i},
					"key %d was read with %d values, but its session had read or written more", op.Key, n)
			}
			if unread || n > s.length {
				known[a] = state{max(n, s.length), int32(i), s.unread || unread}
			}
		}
	}
}
