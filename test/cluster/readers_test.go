package cluster

import "testing"

// TestDefinitionsBesideReaders: what PostgreSQL does beside a transaction that has read the table, Tutti does beside
// such ones at all members.
func TestDefinitionsBesideReaders(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE FUNCTION being_read() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"CREATE FUNCTION being_read(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END'",
		"CREATE TABLE being_referred(k int PRIMARY KEY)")
	for _, keyed := range []string{"PRIMARY KEY", ""} {
		s.Do("CREATE TABLE being_read(k int "+keyed+", v int)", "INSERT INTO being_read VALUES (1, 1)")
		for k := range c.All() {
			c.Eventually(k+1, "SELECT count(*) FROM being_read", "1")
		}
		var readers []*Conn
		for k := range c.All() {
			r := c.Connect(k + 1)
			r.Do("BEGIN", "SELECT * FROM being_read")
			readers = append(readers, r)
		}
		readers[0].Do("SELECT * FROM being_read FOR UPDATE")
		s.Do("SET lock_timeout = '10s'")
		for _, sql := range []string{"CREATE TRIGGER t AFTER UPDATE ON being_read EXECUTE FUNCTION being_read()",
			"ALTER TABLE being_read DISABLE TRIGGER t", "CREATE STATISTICS being_read ON k, v FROM being_read",
			"ALTER TABLE being_read ADD FOREIGN KEY (v) REFERENCES being_referred NOT VALID",
			"ALTER TABLE being_read ALTER v SET STATISTICS 10", "COMMENT ON TABLE being_read IS 'x'",
			"BEGIN; CREATE TRIGGER u AFTER DELETE ON being_read EXECUTE FUNCTION being_read(); COMMIT",
		} {
			if err := s.Try(sql); err != nil {
				t.Errorf("%s: %s", sql, Explain(err))
				s.Do("ROLLBACK")
			}
		}
		for i, r := range readers {
			if err := r.Try("SELECT * FROM being_read"); err != nil {
				t.Errorf("the reader at node %d: %s", i+1, Explain(err))
			}
			r.Do("ROLLBACK")
		}
		// the triggers that stay capture nothing twice
		s.Do("RESET lock_timeout", "INSERT INTO being_referred SELECT generate_series(1, 5000) ON CONFLICT DO NOTHING",
			"INSERT INTO being_read SELECT g, g FROM generate_series(2, 5000) g", "UPDATE being_read SET v = v % 7 + 1",
			"DELETE FROM being_read WHERE k > 4000", "DROP TRIGGER t ON being_read", "DROP TRIGGER u ON being_read",
			"UPDATE being_read SET v = v + 1", "DELETE FROM being_read WHERE k > 3000")
		c.Check()
		s.Do("DROP TABLE being_read")
	}
	c.Check()
}
