package regress

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Cause is a message that Tutti gave and plain PostgreSQL did not, with names and numbers
// left out.
type Cause struct {
	Message string
	Files   []string // that show it
	First   []string // where it is the first of its file
	Lines   int
}

var (
	message = regexp.MustCompile(`^\+(.*\b(?:ERROR|FATAL|PANIC|WARNING|connection|canceling)\b.*)`)
	quoted  = regexp.MustCompile(`"[^"]*"|'[^']*'|\b[a-z_]\w*\.\w+`)
	number  = regexp.MustCompile(`\d+`)
)

// silent is the cause of a difference without a message.
const silent = "(no message)"

// Causes groups what the differences of files add, the most frequent first.
func Causes(diffs map[string]string) []Cause {
	found := map[string]*Cause{}
	note := func(text, file string, first bool) {
		c := found[text]
		if c == nil {
			c = &Cause{Message: text}
			found[text] = c
		}
		if first {
			c.First = append(c.First, file)
		}
		if !slices.Contains(c.Files, file) {
			c.Files = append(c.Files, file)
		}
		c.Lines++
	}
	for _, file := range slices.Sorted(maps.Keys(diffs)) {
		first := true
		for line := range strings.Lines(stable(diffs[file])) {
			if m := message.FindStringSubmatch(line); m != nil {
				note(number.ReplaceAllString(quoted.ReplaceAllString(strings.TrimSpace(m[1]), "…"), "N"), file, first)
				first = false
			}
		}
		if first && diffs[file] != "" {
			note(silent, file, true)
		}
	}
	var out []Cause
	for _, text := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[text])
	}
	slices.SortStableFunc(out, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(len(b.Files), len(a.Files)), cmp.Compare(b.Lines, a.Lines))
	})
	return out
}

// causesText lists causes for a reader.
func causesText(causes []Cause) string {
	var out strings.Builder
	for _, c := range causes {
		fmt.Fprintf(&out, "%4d files, first in %d, %5d lines: %s\n      %s\n", len(c.Files), len(c.First), c.Lines,
			c.Message, strings.Join(c.Files, " "))
	}
	return out.String()
}
