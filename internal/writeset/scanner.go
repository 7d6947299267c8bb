package writeset

// Scanner reads the rows and definitions of an encoded writeset while its bytes come in. It checks
// nothing that Decode does not check again. The zero Scanner is ready.
type Scanner struct {
	Tables []Table // of the rows; known once Next has returned one
	Shared bool    // see Writeset; known once there was a row or a definition

	at    int
	begun bool
	left  uint64 // rows that were not returned yet, of this step if there are steps

	steps  bool   // version 2
	keys   uint64 // in front of the steps, yet to come
	headed bool   // the steps come next
	todo   uint64 // steps that were not begun
	end    int    // of the rows' step that was begun, or 0
}

// scannedMax bounds what is taken for the length of a step.
const scannedMax = 1 << 40

// Next returns the next row, given all bytes that have come so far: the front of an encoding that only grows.
// The row's image aliases them. False: a Definition stands before it, or more must come first, or Done, or this is no
// writeset.
func (s *Scanner) Next(front []byte) (Row, bool) {
	if !s.begun && !s.begin(front) || s.steps && !s.enter(front) || s.left == 0 {
		return Row{}, false
	}
	r := Reader{b: front[s.at:]}
	row := r.row()
	if at := len(front) - len(r.b); r.err != nil || uint64(row.Table) >= uint64(len(s.Tables)) ||
		s.steps && at > s.end {
		return Row{}, false
	}
	s.at = len(front) - len(r.b)
	s.left--
	return row, true
}

// Definition returns the definition that comes next, after Next has returned false. It aliases the bytes.
func (s *Scanner) Definition(front []byte) (definition []byte, ok bool) {
	if !s.headed || s.end > 0 || s.todo == 0 {
		return nil, false
	}
	r := Reader{b: front[s.at:]}
	if r.Byte() != stepDefinition {
		return nil, false
	}
	if definition = r.Bytes(); r.err != nil {
		return nil, false
	}
	s.at = len(front) - len(r.b)
	s.todo--
	return definition, true
}

// At is how many bytes have been read: by the rows that Next has returned, and what stands before them.
func (s *Scanner) At() int { return s.at }

// Done reports whether all rows and definitions were returned.
func (s *Scanner) Done() bool {
	return s.begun && s.left == 0 && (!s.steps || s.headed && s.todo == 0)
}

func (s *Scanner) begin(front []byte) bool {
	r := Reader{b: front}
	version := r.Byte()
	if version != codecVersion && version != codecVersionSteps || !s.rows(&r) {
		return false
	}
	if version == codecVersionSteps && s.left == 0 { // else it has locked tables
		if s.keys = r.Uvarint(); r.err != nil {
			return false
		}
		s.steps = true
	}
	s.begun, s.at = true, len(front)-len(r.b)
	return true
}

// rows reads what stands before rows.
func (s *Scanner) rows(r *Reader) bool {
	tables := make([]Table, r.Count(11))
	for i := range tables {
		tables[i] = Table{Format: Format(r.Byte()), Key: r.Uint64(), Schema: string(r.Bytes()), Name: string(r.Bytes())}
	}
	left := r.Uvarint()
	if r.err != nil {
		return false
	}
	s.Tables, s.left = tables, left
	return true
}

// enter goes to the next row of a step. False: that is not where it is.
func (s *Scanner) enter(front []byte) bool {
	for {
		if s.end > 0 && s.left > 0 {
			return true
		}
		if s.end > 0 { // keys are at its end
			if s.at = min(len(front), s.end); s.at < s.end {
				return false
			}
			s.end = 0
		}
		if !s.headed && !s.head(front) || s.todo == 0 {
			return false
		}
		r := Reader{b: front[s.at:]}
		kind, n := r.Byte(), r.Uvarint()
		if r.err != nil || kind != stepRows || n > scannedMax {
			return false
		}
		end := len(front) - len(r.b) + int(n)
		if version := r.Byte(); version != codecVersion || !s.rows(&r) || len(front)-len(r.b) > end {
			return false
		}
		s.todo--
		s.end, s.at = end, len(front)-len(r.b)
	}
}

// head reads what stands before the steps.
func (s *Scanner) head(front []byte) bool {
	r := Reader{b: front[s.at:]}
	for ; s.keys > 0; s.keys-- {
		r.Uvarint()
		if r.Uint64(); r.err != nil {
			return false
		}
		s.at = len(front) - len(r.b)
	}
	flags := r.Byte()
	if flags&stepsHeld != 0 {
		for n := r.Uvarint(); n > 0 && r.err == nil; n-- {
			r.Uvarint()
		}
	}
	todo := r.Uvarint()
	if r.err != nil {
		return false
	}
	s.Shared, s.todo, s.headed, s.at = flags&stepsShared != 0, todo, true, len(front)-len(r.b)
	return true
}
