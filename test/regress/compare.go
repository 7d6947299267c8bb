package regress

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// normalise makes equal what differs between two runs of one server (X3): the arm's own
// directory.
func normalise(a *Arm, text string) string {
	return strings.ReplaceAll(text, a.Dir, "@builddir@")
}

// Diff compares two texts as pg_regress does, with diff -U3, and names them want and got.
// Empty if they are equal.
func Diff(want, got string) (string, error) {
	if want == got {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "tutti-regress-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"want": want, "got": got} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	c := exec.Command("diff", "-a", "-U3", "--label=plain", "--label=tutti", "want", "got")
	c.Dir = dir
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return "", fmt.Errorf("diff: %w %s", err, errs.String())
	}
	return out.String(), nil
}

// changedLines counts the lines that a diff adds or removes.
func changedLines(diff string) (n int) {
	for line := range strings.Lines(diff) {
		if (line[0] == '+' || line[0] == '-') && !strings.HasPrefix(line, "+++ ") && !strings.HasPrefix(line, "--- ") {
			n++
		}
	}
	return n
}
