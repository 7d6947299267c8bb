package capture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFill: the words of a text are exactly its names.
func TestFill(t *testing.T) {
	for _, x := range []struct {
		text, want, fails string
		words             words
	}{
		{"SELECT {{a}}, '{{b}}', {{a}}", "SELECT 1, 'x', 1", "", words{"a": 1, "b": "x"}},
		{"no name, {one brace}, }}", "no name, {one brace}, }}", "", nil},
		{"{{a}}", "{{b}}", "", words{"a": "{{b}}"}}, // a word is not looked through
		{"{{a}} {{b}}", "", "{{b}} has no word", words{"a": 1}},
		{"{{a}} {{b", "", "{{b}} has no word", words{"a": 1, "b": 2}},
		{"{{a}}", "", "of 2 words 1 are used", words{"a": 1, "b": 2}},
	} {
		got, err := fill(x.text, x.words)
		if x.fails == "" && (err != nil || got != x.want) {
			t.Errorf("%q: %q, %v; want %q", x.text, got, err, x.want)
		}
		if x.fails != "" && (err == nil || err.Error() != x.fails) {
			t.Errorf("%q: %v, want %q", x.text, err, x.fails)
		}
	}
}

// TestSQLFiles: every file is installed, and nothing of a name is left in what is.
func TestSQLFiles(t *testing.T) {
	schema := Schema()
	if strings.Contains(schema, "{{") || strings.Contains(schema, "%!") {
		t.Error("a name was not filled in")
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, s := range sources {
		text, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	files, err := sqlFiles.ReadDir("sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if !strings.Contains(code.String(), `("`+f.Name()+`"`) {
			t.Errorf("nothing installs sql/%s", f.Name())
		}
	}
}
