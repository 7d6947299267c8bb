package semantics

import "testing"

// TestMadeApart: what is made of names alone concerns no table, unless a machine may lack what it is made of.
func TestMadeApart(t *testing.T) {
	for sql, apart := range map[string]bool{
		"CREATE TYPE t (INPUT = f, OUTPUT = g)":                                      true,
		"CREATE TYPE r AS RANGE (SUBTYPE = int)":                                     true,
		"CREATE OPERATOR @@ (LEFTARG = int, FUNCTION = f)":                           true,
		"CREATE AGGREGATE a (int) (SFUNC = f, STYPE = int)":                          true,
		"CREATE CAST (int AS t) WITHOUT FUNCTION":                                    true,
		"CREATE OPERATOR CLASS c FOR TYPE int USING btree AS FUNCTION 1 f(int, int)": true,
		"CREATE COLLATION c (LOCALE = 'de_DE')":                                      false,
		"CREATE TEXT SEARCH DICTIONARY d (TEMPLATE = ispell)":                        false,
		"ALTER OPERATOR FAMILY f USING btree ADD FUNCTION 1 g(int, t)":               false,
	} {
		list := Classify(sql)
		if len(list) != 1 || list[0].Kind != Definition {
			t.Fatalf("%s: %v", sql, list)
		}
		if c := list[0].Confined; c.Apart != apart || c.To != apart {
			t.Errorf("%s: %+v", sql, c)
		}
	}
}
