package regress

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Accepted is a difference that was looked at and is meant (X4). Its file, accepted/
// suite.file.diff, begins with the reason, in lines that begin with #; then follows the
// difference without context and line numbers.
type Accepted struct {
	Reason string
	diff   string
}

// maxAccepted bounds an accepted difference, in lines. A file about something that is refused altogether differs in most
// of it; nobody reads a longer one.
const maxAccepted = 1000

func acceptedPath(dir, suite, file string) string {
	return filepath.Join(dir, suite+"."+file+".diff")
}

// ReadAccepted reads the accepted difference of one file; nil if there is none.
func ReadAccepted(dir, suite, file string) (*Accepted, error) {
	path := acceptedPath(dir, suite, file)
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

func parseAccepted(text string) (*Accepted, error) {
	a := &Accepted{diff: text}
	for strings.HasPrefix(a.diff, "#") {
		line, rest, _ := strings.Cut(a.diff, "\n")
		a.Reason += strings.TrimSpace(strings.TrimPrefix(line, "#")) + " "
		a.diff = rest
	}
	a.Reason = strings.TrimSpace(a.Reason)
	switch {
	case a.Reason == "":
		return nil, errors.New("no reason: begin with lines that begin with #")
	case !strings.HasPrefix(a.diff, "@@\n"):
		return nil, errors.New("after the reason a difference must follow, beginning with a line @@")
	case strings.Count(a.diff, "\n") > maxAccepted:
		return nil, fmt.Errorf("more than %d lines", maxAccepted)
	}
	return a, nil
}

// Covers reports whether the two outputs differ exactly as accepted.
func (a *Accepted) Covers(plain, tutti string) (bool, error) {
	diff, err := Diff(plain, tutti, 0)
	return a != nil && stable(diff) == a.diff, err
}

// WriteAccepted accepts how these two outputs differ.
func WriteAccepted(dir, suite, file, reason, plain, tutti string) error {
	diff, err := Diff(plain, tutti, 0)
	if err != nil {
		return err
	}
	text := "# " + strings.ReplaceAll(strings.TrimSpace(reason), "\n", "\n# ") + "\n" + stable(diff)
	if _, err := parseAccepted(text); err != nil {
		return fmt.Errorf("%s.%s cannot be accepted: %w", suite, file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(acceptedPath(dir, suite, file), []byte(text), 0o644)
}
