package drivers

import (
	"fmt"
	"strings"
)

// splice puts a suite's row into the table of the page, in the place of its old one.
func splice(page, suite, row string) (string, error) {
	const begin, end = "<!-- score: begin -->\n", "<!-- score: end -->"
	before, rest, ok := strings.Cut(page, begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("the page lacks the marks %q and %q", strings.TrimSpace(begin), end)
	}
	var out strings.Builder
	placed := false
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| "+suite+" |") {
			line, placed = row, true
		}
		out.WriteString(line)
	}
	if !placed {
		out.WriteString(row)
	}
	return before + begin + out.String() + end + after, nil
}
