package semantics

import "testing"

// TestPassword: a clear-text password is found, whatever else the statement says, and what PostgreSQL stores as
// it is is left alone.
func TestPassword(t *testing.T) {
	const scram = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	for _, x := range [][3]string{
		{"CREATE ROLE x PASSWORD 'clear'", "CREATE ROLE x PASSWORD 'v''w'", "x"},
		{"CREATE USER password LOGIN ENCRYPTED PASSWORD E'cl\\'ear' VALID UNTIL 'infinity'",
			"CREATE USER password LOGIN ENCRYPTED PASSWORD 'v''w' VALID UNTIL 'infinity'", "password"},
		{"ALTER ROLE \"X\" WITH PASSWORD $$clear$$ NOLOGIN", "ALTER ROLE \"X\" WITH PASSWORD 'v''w' NOLOGIN", "X"},
		{"/* é */ ALTER ROLE current_user PASSWORD 'clear'", "/* é */ ALTER ROLE current_user PASSWORD 'v''w'", ""},
		{"CREATE ROLE x PASSWORD 'md5012345678901234567890123456789zz'", "CREATE ROLE x PASSWORD 'v''w'", "x"},
		{"CREATE ROLE x PASSWORD 'SCRAM-SHA-256$4096:a$b:c'", "CREATE ROLE x PASSWORD 'v''w'", "x"},
		{"CREATE ROLE x PASSWORD '" + scram + "'", "", ""},
		{"CREATE ROLE x PASSWORD 'md501234567890123456789012345678901'", "", ""},
		{"CREATE ROLE x PASSWORD ''", "", ""},
		{"CREATE ROLE x PASSWORD NULL", "", ""},
		{"CREATE ROLE x", "", ""},
	} {
		st := Classify(x[0])[0]
		if st.Kind != Definition || (st.Password == nil) != (x[1] == "") {
			t.Errorf("%s: %+v", x[0], st)
		} else if st.Password != nil && (st.Veiled("v'w") != x[1] || st.Password.Role != x[2]) {
			t.Errorf("%s: role %q, %s", x[0], st.Password.Role, st.Veiled("v'w"))
		}
	}
	two := Classify("CREATE ROLE x PASSWORD 'clear'; CREATE ROLE y PASSWORD 'text'")
	if got := two[1].Veiled("v"); got != "CREATE ROLE y PASSWORD 'v'" {
		t.Errorf("the second of two: %s", got)
	}
}
