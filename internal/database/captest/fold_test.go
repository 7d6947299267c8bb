package captest

import "testing"

// TestWideKeys has keys that PostgreSQL's own hash functions, which fold 64 bits to 32, take for
// equal; as identities they would make one row of two, and lose an update without a word.
func TestWideKeys(t *testing.T) {
	p := newPair(t,
		"CREATE DOMAIN wide AS bigint", "CREATE TYPE light AS ENUM ('red', 'green')",
		"CREATE TABLE w8(id bigint PRIMARY KEY, u bigint UNIQUE, v int)",
		"CREATE TABLE wd(id wide, l light, v int, PRIMARY KEY (id, l))",
		"CREATE TABLE wt(id timestamptz PRIMARY KEY, v int)",
		"CREATE TABLE wi(id interval PRIMARY KEY, v int)",
		"CREATE TABLE wa(id bigint[] PRIMARY KEY, v int)",
		"CREATE TABLE wf(id int PRIMARY KEY, r int REFERENCES w8(u), b bigint REFERENCES w8)")
	const a, b = "4294967298", "8589934593" // 1<<32|2 and 2<<32|1
	p.tx("INSERT INTO w8 VALUES ("+a+", 7, 0), ("+b+", 8, 0)",
		"INSERT INTO wd VALUES ("+a+", 'red', 0), ("+b+", 'red', 0)",
		"INSERT INTO wt SELECT '2000-01-01 UTC'::timestamptz + n * '1 microsecond'::interval, 0 FROM unnest(ARRAY["+a+
			", "+b+"]) n",
		"INSERT INTO wi SELECT n * '1 microsecond'::interval, 0 FROM unnest(ARRAY["+a+", "+b+"]) n",
		"INSERT INTO wa VALUES (ARRAY["+a+"], 0), (ARRAY["+b+"], 0)", "INSERT INTO wf VALUES (1, 7, "+b+")")
	p.equal()
	for _, table := range []string{"w8", "wd", "wt", "wi", "wa", "wf"} {
		if table != "wf" {
			p.tx("UPDATE " + table + " SET v = v + 1")
			p.equal()
		}
		p.tx("DELETE FROM wf", "DELETE FROM "+table)
		p.equal()
	}
}
