package semantics

import "testing"

func TestLikes(t *testing.T) {
	for text, want := range map[string]string{
		`CREATE TABLE a (LIKE b)`: `CREATE TABLE a (x int)`,
		`create table a (i int check (i::text like b::text), like s."B" , j int)`: `create table a (i int check ` +
			`(i::text like b::text), x int , j int)`,
		`SELECT 1; CREATE TABLE é (LIKE /* b */ b -- c` + "\n)": "CREATE TABLE é (x int -- c\n)",
		`CREATE TABLE a (LIKE b INCLUDING ALL)`:                 "",
		`CREATE TABLE a (LIKE b EXCLUDING ALL)`:                 "",
		`CREATE TABLE a (LIKE b, LIKE c)`:                       `CREATE TABLE a (LIKE b, x int)`,
	} {
		list := Classify(text)
		s := list[len(list)-1]
		got := ""
		if n := len(s.Likes); n > 0 {
			s.Spell(n-1, "x int")
			got = s.Text
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
