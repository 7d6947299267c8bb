package semantics

import "testing"

// TestReach: which tables a definition holds with those that it names.
func TestReach(t *testing.T) {
	for _, c := range []struct {
		sql   string
		reach Reach
		keys  bool
		of    string
	}{
		{"CREATE INDEX ON t(a)", ReachBelow, false, ""},
		{"CREATE INDEX ON ONLY t(a)", ReachNone, false, ""},
		{"CREATE UNIQUE INDEX ON t(a)", ReachBelow, true, ""},
		{"ALTER TABLE t ADD PRIMARY KEY (a)", ReachBelow, true, ""},
		{"ALTER TABLE t ADD PRIMARY KEY USING INDEX i", ReachBelow, true, ""},
		{"ALTER TABLE ONLY t ADD CONSTRAINT u UNIQUE (a)", ReachPartitions, true, ""},
		{"ALTER TABLE t ADD CHECK (a > 0)", ReachBelow, false, ""},
		{"ALTER TABLE ONLY t ALTER a SET DEFAULT 1", ReachPartitions, false, ""},
		{"ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u", ReachAround, false, ""},
		{"ALTER TABLE t ADD CHECK (a > 0), ADD COLUMN b int", ReachAround, false, ""},
		{"ALTER TABLE t ADD PRIMARY KEY (a), ALTER a TYPE bigint", ReachAround, true, ""},
		{"ALTER TABLE ONLY t ATTACH PARTITION u DEFAULT", ReachAround, false, ""},
		{"ALTER INDEX t_i ATTACH PARTITION s.u_i", ReachBelow, true, `"s"."u_i"`},
		{"ALTER TABLE t INHERIT u", ReachAround, false, ""},
		{"ALTER TABLE t DISABLE TRIGGER ALL", ReachAround, false, ""},
		{"CREATE TRIGGER g AFTER INSERT ON t EXECUTE FUNCTION f()", ReachBelow, false, ""},
		{"CREATE TABLE u PARTITION OF t DEFAULT", ReachAround, false, ""},
		{"DROP TABLE t", ReachAround, false, ""},
		{"ALTER TABLE t RENAME a TO b", ReachBelow, true, ""},
		{"ALTER TABLE t RENAME CONSTRAINT a TO b", ReachBelow, true, ""},
	} {
		got := Classify(c.sql)
		if len(got) != 1 || !got[0].Confined.To || got[0].Confined.Reach != c.reach || got[0].Confined.Keys != c.keys ||
			got[0].Confined.Of != c.of {
			t.Errorf("%s: %+v", c.sql, got)
		}
	}
}
