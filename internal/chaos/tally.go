package chaos

// tally takes the number after the greatest, as somebody does who has locked everybody else out. What is locked is not
// what is written to: only the locks keep two from taking one number.
func tally(c *client, t *Tx) error {
	t.Workload, t.Values = wTally, []int64{0}
	mode := []string{"SHARE UPDATE EXCLUSIVE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"}[c.rng.IntN(4)]
	return c.block(t, c.level(), func() error {
		if _, err := c.exec("LOCK TABLE chaos_gate IN " + mode + " MODE"); err != nil {
			return err
		}
		return c.row("INSERT INTO chaos_tally SELECT $1, coalesce(max(n), 0) + 1 FROM chaos_tally RETURNING n",
			[]any{t.Tag}, &t.Values[0])
	})
}

// tallies: the numbers are those from 1 on, each once, and each the one that its client was told.
func (j *judge) tallies(s *State) {
	j.present(s, wTally, s.Tallies, nil)
	owner := map[int64]int64{}
	for _, row := range s.Tallies {
		tag, n := row[0], row[1]
		if other, ok := owner[n]; ok {
			j.add("locked out", "node%d: %d and %d have both taken number %d", s.Node, other, tag, n)
		}
		if n < 1 || n > int64(len(s.Tallies)) {
			j.add("locked out", "node%d: %d has taken number %d of %d", s.Node, tag, n, len(s.Tallies))
		}
		owner[n] = tag
		if t := j.fate[wTally][tag]; t != nil && t.Values[0] != n {
			j.add("wrong row", "node%d holds tally %d with number %d, its client was told %d", s.Node, tag, n,
				t.Values[0])
		}
	}
}
