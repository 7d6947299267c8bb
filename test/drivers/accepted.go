package drivers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Accepted is the list of differences of one suite that were looked at and are meant (D3).
// Its file, accepted/SUITE.txt, has paragraphs: lines that begin with # say why, the lines
// below name the tests as Difference.String does. A line that begins with "sometimes " may
// occur or not: that is for tests that depend on time.
type Accepted []Reason

// Reason is one paragraph.
type Reason struct {
	Why       string
	Tests     []Difference
	Sometimes []Difference
}

// ReadAccepted reads a suite's list; it is empty if there is no file.
func ReadAccepted(dir, suite string) (Accepted, error) {
	path := filepath.Join(dir, suite+".txt")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a, err := parseAccepted(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

func parseAccepted(text string) (a Accepted, err error) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		var r Reason
		for line := range strings.SplitSeq(strings.TrimSpace(paragraph), "\n") {
			if why, ok := strings.CutPrefix(line, "#"); ok {
				r.Why = strings.TrimSpace(r.Why + " " + strings.TrimSpace(why))
				continue
			}
			line, sometimes := strings.CutPrefix(line, "sometimes ")
			words := strings.SplitN(line, " ", 3)
			if len(words) < 3 {
				return nil, fmt.Errorf("%q does not name two outcomes and a test", line)
			}
			d := Difference{words[2], Outcome(words[0]), Outcome(words[1])}
			if sometimes {
				r.Sometimes = append(r.Sometimes, d)
			} else {
				r.Tests = append(r.Tests, d)
			}
		}
		if r.Why == "" {
			return nil, fmt.Errorf("no reason is given for %.60q", paragraph)
		}
		a = append(a, r)
	}
	return a, nil
}

// Judge splits differences into those that are not accepted, and the lines of the list that
// did not occur.
func (a Accepted) Judge(found []Difference) (fresh, stale []Difference) {
	var known []Difference
	for _, r := range a {
		known = append(append(known, r.Tests...), r.Sometimes...)
		for _, d := range r.Tests {
			if !slices.Contains(found, d) {
				stale = append(stale, d)
			}
		}
	}
	for _, d := range found {
		if !slices.Contains(known, d) {
			fresh = append(fresh, d)
		}
	}
	return fresh, stale
}
