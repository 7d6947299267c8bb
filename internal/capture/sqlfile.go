package capture

import (
	"embed"
	"fmt"
	"strings"
)

// The SQL that is installed is in files. What differs from place to place, or is the same as in Go, stands there as
// {{name}}. The words of a file are exactly the names that it has: one that is missing, or is not used, is a bug.

//go:embed sql/*.sql
var sqlFiles embed.FS

// words are what stands for the names in a file.
type words map[string]any

// install is a file with its words in place, on a line of its own.
func install(file string, w words) string { return "\n" + expand(file, w) }

// fragment is a file without the comment in its first line, for use within another one.
func fragment(file string, w words) string {
	_, text, _ := strings.Cut(expand(file, w), "\n")
	return strings.TrimSpace(text)
}

// expand is a file with its words in place. They are not looked through for names.
func expand(file string, w words) string {
	text, err := sqlFiles.ReadFile("sql/" + file)
	if err != nil {
		panic(fmt.Sprintf("capture: %v", err))
	}
	out, err := fill(string(text), w)
	if err != nil {
		panic(fmt.Sprintf("capture: sql/%s: %v", file, err))
	}
	return out
}

// fill puts words in the place of the names of a text.
func fill(text string, w words) (string, error) {
	var b strings.Builder
	used := make(map[string]bool, len(w))
	for {
		before, rest, found := strings.Cut(text, "{{")
		b.WriteString(before)
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}}")
		value, known := w[name]
		if !closed || !known {
			return "", fmt.Errorf("{{%s}} has no word", name)
		}
		fmt.Fprint(&b, value)
		used[name], text = true, after
	}
	if len(used) != len(w) {
		return "", fmt.Errorf("of %d words %d are used", len(w), len(used))
	}
	return b.String(), nil
}
