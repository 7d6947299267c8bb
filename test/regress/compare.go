package regress

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// normalise makes equal what differs between two runs of one server (X3): the arm's own directory, and which of the
// other members has tried something out.
func normalise(a *Arm, text string) string {
	return tried.ReplaceAllString(strings.ReplaceAll(text, a.Dir, "@builddir@"), "${1}2")
}

// tried is where an error names a member that is not the client's.
var tried = regexp.MustCompile(`(cannot be carried out at node node)[0-9]+`)

// Diff compares two outputs line by line with diff -U, as pg_regress does, with so many lines
// of context. Empty if they are equal.
func Diff(plain, tutti string, context int) (string, error) {
	if plain == tutti {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "tutti-regress-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"plain": plain, "tutti": tutti} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	c := exec.Command("diff", "-a", fmt.Sprintf("-U%d", context), "--label=plain", "--label=tutti", "plain", "tutti")
	c.Dir = dir
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	err = c.Run()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return "", fmt.Errorf("diff: %w %s", err, complaint.String())
	}
	return out.String(), nil
}

// stable is a difference without what moves when a file changes elsewhere: the names in its
// head, and line numbers.
func stable(diff string) string {
	var out strings.Builder
	for i, line := range strings.SplitAfter(diff, "\n") {
		switch {
		case i < 2 && (strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ")):
		case strings.HasPrefix(line, "@@"):
			out.WriteString("@@\n")
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

// varying is what is another one in each run, in lines of Tutti's that a plain PostgreSQL does not have: numbers of
// objects and transactions, hashes in names, times, how many rows a list of Tutti's own objects has and how wide its
// columns are, which of the functions of a table without key comes first, and where in a function of Tutti's something
// was.
var varying = regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]?[0-9] [0-9]{2}:[0-9]{2}:[0-9.]+ ` +
	`[0-9]{4}|(\b|_)[0-9]{4,}\b|((capture|bulk)?(_[0-9a-f]{16})+)\b|\([0-9]+ rows?\)|` +
	`tutti\.\w+\([a-z,]*\) line [0-9]+| +|-{3,}`)

// own are the rows about Tutti's triggers: by their names, or of a list of tables and whether a trigger is enabled.
// Where they are among others depends on the catalog.
var own = regexp.MustCompile(`!!tutti|^\+#\w+#\|#[OR]$`)

// loose is a difference without what varies; of lines that are then alike one is left. Rows about Tutti's triggers come
// last.
func loose(diff string) string {
	var out strings.Builder
	var triggers []string
	place, last := "", ""
	for line := range strings.Lines(stable(diff)) {
		switch {
		case strings.HasPrefix(line, "@@"):
			place, last = line, ""
			continue
		case line[0] == '+':
			line = varying.ReplaceAllString(line, "#")
			if own.MatchString(strings.TrimSuffix(line, "\n")) {
				triggers = append(triggers, line)
				continue
			}
			if line == last {
				continue
			}
		}
		last = line
		out.WriteString(place + line)
		place = ""
	}
	slices.Sort(triggers)
	return out.String() + strings.Join(slices.Compact(triggers), "")
}

// changedLines counts the lines that a difference adds or removes.
func changedLines(diff string) (n int) {
	for line := range strings.Lines(stable(diff)) {
		if line[0] == '+' || line[0] == '-' {
			n++
		}
	}
	return n
}
