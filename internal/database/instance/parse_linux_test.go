package instance

import (
	"bytes"
	"testing"
)

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (postgres) S 1 12 12 0"))
	f.Add([]byte("12 (od)d (name) Z 7 12"))
	f.Add([]byte("12 ) S ("))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, name, alive := parseStat(b); !bytes.Contains(b, []byte("("+name+")")) && alive {
			t.Fatalf("%q", name)
		}
	})
}

func TestParseStat(t *testing.T) {
	for in, want := range map[string]struct {
		ppid  int
		name  string
		alive bool
	}{
		"12 (postgres) S 3 12 12 0": {3, "postgres", true},
		"12 (od)d (x) R 7 12":       {7, "od)d (x", true},
		"12 (postgres) Z 3 12":      {0, "", false},
		"12 (postgres)":             {0, "", false},
		"":                          {0, "", false},
	} {
		ppid, name, alive := parseStat([]byte(in))
		if ppid != want.ppid || name != want.name || alive != want.alive {
			t.Errorf("%q: %d %q %v", in, ppid, name, alive)
		}
	}
}
