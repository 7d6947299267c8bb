package regress

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Accepted is a difference that was looked at and is meant (X4). Its file, accepted/
// suite.file.diff, begins with the reason, in lines that begin with #; then follows the
// difference without context and line numbers. Where it depends on who is first, suite.file.2.diff
// and so on have what else may come out.
type Accepted struct {
	Reason string // of the first
	diffs  []string
}

// maxAccepted bounds an accepted difference, in lines. A file about something that is refused altogether differs in
// most of it; nobody reads a longer one.
const maxAccepted = 1000

// acceptedPath is the file of a variant, counted from 1.
func acceptedPath(dir, suite, file string, variant int) string {
	if variant > 1 {
		file = fmt.Sprintf("%s.%d", file, variant)
	}
	return filepath.Join(dir, suite+"."+file+".diff")
}

// ReadAccepted reads the accepted differences of one file; nil if there is none.
func ReadAccepted(dir, suite, file string) (*Accepted, error) {
	var a *Accepted
	for variant := 1; ; variant++ {
		path := acceptedPath(dir, suite, file, variant)
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return a, nil
		}
		if err != nil {
			return nil, err
		}
		reason, diff, err := parseAccepted(string(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if a == nil {
			a = &Accepted{Reason: reason}
		}
		a.diffs = append(a.diffs, loose(diff))
	}
}

func parseAccepted(text string) (reason, diff string, err error) {
	diff = text
	for strings.HasPrefix(diff, "#") {
		line, rest, _ := strings.Cut(diff, "\n")
		reason += strings.TrimSpace(strings.TrimPrefix(line, "#")) + " "
		diff = rest
	}
	reason = strings.TrimSpace(reason)
	switch {
	case reason == "":
		return "", "", errors.New("no reason: begin with lines that begin with #")
	case !strings.HasPrefix(diff, "@@\n"):
		return "", "", errors.New("after the reason a difference must follow, beginning with a line @@")
	case strings.Count(diff, "\n") > maxAccepted:
		return "", "", fmt.Errorf("more than %d lines", maxAccepted)
	}
	return reason, diff, nil
}

// Covers reports whether the two outputs differ exactly as one of the accepted files says, but for what varies.
func (a *Accepted) Covers(plain, tutti string) (bool, error) {
	diff, err := Diff(plain, tutti, 0)
	return a != nil && slices.Contains(a.diffs, loose(diff)), err
}

// WriteAccepted accepts how these two outputs differ, as the variant of this number.
func WriteAccepted(dir, suite, file string, variant int, reason, plain, tutti string) error {
	diff, err := Diff(plain, tutti, 0)
	if err != nil {
		return err
	}
	text := "# " + strings.ReplaceAll(strings.TrimSpace(reason), "\n", "\n# ") + "\n" + stable(diff)
	if _, _, err := parseAccepted(text); err != nil {
		return fmt.Errorf("%s.%s cannot be accepted: %w", suite, file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(acceptedPath(dir, suite, file, variant), []byte(text), 0o644)
}
