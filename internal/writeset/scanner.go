package writeset

// Scanner reads the rows of an encoded writeset while its bytes come in. It knows version 1 alone, and checks
// nothing that Decode does not check again. The zero Scanner is ready.
type Scanner struct {
	Tables []Table // known once Next has returned a row

	at    int
	begun bool
	left  uint64 // rows that were not returned yet
}

// Next returns the next row, given all bytes that have come so far: the front of an encoding that only grows.
// The row's image aliases them. False: more must come first, or Done, or this is no writeset.
func (s *Scanner) Next(front []byte) (Row, bool) {
	if !s.begun && !s.begin(front) || s.left == 0 {
		return Row{}, false
	}
	r := Reader{b: front[s.at:]}
	v := r.Uvarint()
	row := Row{Table: uint32(min(v>>3, 1<<32-1)), Op: Op(v & 7), Identity: r.Uint64(), Image: r.Bytes()}
	if r.err != nil || uint64(row.Table) >= uint64(len(s.Tables)) {
		return Row{}, false
	}
	s.at = len(front) - len(r.b)
	s.left--
	return row, true
}

// At is how many bytes the rows take that Next has returned, and what stands before them.
func (s *Scanner) At() int { return s.at }

// Done reports whether Next has returned all rows.
func (s *Scanner) Done() bool { return s.begun && s.left == 0 }

func (s *Scanner) begin(front []byte) bool {
	r := Reader{b: front}
	if r.Byte() != codecVersion {
		return false
	}
	tables := make([]Table, r.Count(11))
	for i := range tables {
		tables[i] = Table{Format: Format(r.Byte()), Key: r.Uint64(), Schema: string(r.Bytes()), Name: string(r.Bytes())}
	}
	left := r.Uvarint()
	if r.err != nil {
		return false
	}
	s.Tables, s.left, s.begun, s.at = tables, left, true, len(front)-len(r.b)
	return true
}
