package captest

import "testing"

// What a large transaction captured stays until its table's turn comes round. Transactions
// after it must not read it again and again, whatever the statistics say.
func TestCollectAfterBulk(t *testing.T) {
	const bulk = 30000
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int)")
	for _, c := range []struct{ name, statistics string }{
		{"none", "SELECT"},
		{"new", "ANALYZE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.tx("TRUNCATE t")
			p.tx("INSERT INTO t SELECT g, 0 FROM generate_series(1, 30000) g")
			p.exec(p.a, c.statistics)
			before, scans := p.captureRead(), p.progressScans()
			for range 20 { // beyond the five custom plans
				p.tx("UPDATE t SET a = a + 1 WHERE id = 7", "INSERT INTO t VALUES (-1, 1)",
					"DELETE FROM t WHERE id = -1")
			}
			if n := p.captureRead() - before; n >= bulk {
				t.Errorf("20 small transactions read %d captured rows", n)
			}
			if n := p.progressScans() - scans; n > 0 {
				// Without sequential scans such a plan seems so dear that it is compiled.
				t.Errorf("%d of 20 small transactions scanned the progress row's table", n)
			}
		})
	}
}

// captureRead is how many captured rows have been read by sequential scans.
func (p *pair) captureRead() (n int64) {
	p.t.Helper()
	p.exec(p.a, "SELECT pg_stat_force_next_flush()")
	err := p.a.QueryRow(ctx, "SELECT sum(seq_tup_read) FROM pg_stat_all_tables WHERE schemaname = 'tutti' AND "+
		"relname ~ '^capture'").Scan(&n)
	if err != nil {
		p.t.Fatal(explain(err))
	}
	return n
}

func (p *pair) progressScans() (n int64) {
	p.t.Helper()
	p.exec(p.a, "SELECT pg_stat_force_next_flush()")
	if err := p.a.QueryRow(ctx, "SELECT seq_scan FROM pg_stat_all_tables WHERE schemaname = 'tutti' AND relname = "+
		"'progress'").Scan(&n); err != nil {
		p.t.Fatal(explain(err))
	}
	return n
}
