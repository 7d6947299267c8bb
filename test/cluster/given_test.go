package cluster

import "testing"

// TestNameGivenMeanwhile: a definition of a block means what it meant when it ran. If a name that it has searched for
// was given or taken meanwhile, by whichever member's session, so that others would find something else, it loses.
func TestNameGivenMeanwhile(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE SCHEMA given_first", "CREATE TABLE given(k int PRIMARY KEY)", "CREATE TABLE given_besides(k int)",
		"CREATE DOMAIN given_e AS int",
		"CREATE FUNCTION given_f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "CREATE DOMAIN given_d AS int")
	c.Settled()
	for _, x := range []struct {
		node                        int
		what, path, does, meanwhile string
		commits                     bool
	}{
		{2, "a table", "given_first, public", "CREATE VIEW given_first.v AS SELECT count(*) FROM given",
			"CREATE TABLE given_first.given(k int)", false},
		{1, "a function", "given_first, public", "CREATE VIEW given_first.w AS SELECT given_f()",
			"CREATE FUNCTION given_first.given_f() RETURNS int LANGUAGE sql AS 'SELECT 2'", false},
		{2, "a type, in a block", "given_first, public", "CREATE TABLE given_of(x given_d)",
			"BEGIN; CREATE DOMAIN given_first.given_d AS text; COMMIT", false},
		{2, "a new name", "given_first, public", "CREATE VIEW given_first.u AS SELECT count(*) FROM given_besides",
			"ALTER TABLE given_first.given RENAME TO given_besides", false},
		{1, "a schema", "given_second, public", "CREATE TABLE given_where()", "CREATE SCHEMA given_second", false},
		{2, "what is dropped", "given_first, public", "CREATE VIEW given_x AS SELECT given_f()",
			"DROP FUNCTION given_first.given_f() CASCADE", false},
		{2, "what it drops", "given_first, public", "DROP DOMAIN given_e", "CREATE DOMAIN given_first.given_e AS int",
			false},
		{1, "a name that it gives itself", "given_first", "CREATE TABLE given_too()", "CREATE TABLE given_too()", true},
		{1, "another name, here", "public", "CREATE VIEW given_y AS SELECT count(*) FROM given",
			"CREATE TABLE given_first.other(k int)", true},
		{2, "another name, there", "public", "CREATE VIEW given_z AS SELECT count(*) FROM given",
			"CREATE TABLE given_first.another(k int)", true},
	} {
		a.Do("BEGIN; SET LOCAL search_path = "+x.path, x.does)
		c.Connect(x.node).Do(x.meanwhile)
		c.Settled()
		err := a.Try("COMMIT")
		if x.commits != (err == nil) || err != nil && Code(err) != "40001" {
			t.Errorf("%s, given meanwhile at node %d: %s", x.what, x.node, Explain(err))
		}
	}
	c.Settled()
	c.Check()
}
