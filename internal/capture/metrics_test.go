package capture

import "testing"

// TestAppendMetric: a line is ASCII, and has four fields whatever the names are.
func TestAppendMetric(t *testing.T) {
	for _, x := range []struct{ database, labels, want string }{
		{"", "{}", "-\tn\t{}\t1.5\n"},
		{"a\tb", `{"table": "a\tb"}`, "610962\tn\t" + `{"table": "a\tb"}` + "\t1.5\n"},
		{"ä", `{"table": "ä€😀"}`, "c3a4\tn\t" + `{"table": "\u00e4\u20ac\ud83d\ude00"}` + "\t1.5\n"},
	} {
		if got := string(AppendMetric(nil, x.database, "n", x.labels, "1.5")); got != x.want {
			t.Errorf("%q %s: %q, want %q", x.database, x.labels, got, x.want)
		}
	}
}
