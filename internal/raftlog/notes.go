package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Notes returns what SetNotes was last given; empty if it never was.
func (l *Log) Notes() (string, error) {
	l.notes.Lock()
	defer l.notes.Unlock()
	text, err := readFile(l.o.Dir, notesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return text, err
}

// SetNotes remembers one line for the log's owner, as long as there is the log. It waits for no writer of entries, and
// if it fails the notes are those before, or the new ones, and it may be called again.
func (l *Log) SetNotes(line string) error {
	if strings.Contains(line, "\n") {
		return fmt.Errorf("raftlog: notes are one line, got %q", line)
	}
	l.notes.Lock()
	defer l.notes.Unlock()
	if err := replaceFile(l.disk, l.o.Dir, notesFile, line); err != nil {
		return fmt.Errorf("raftlog: replacing %s in %s: %w", notesFile, l.o.Dir, err)
	}
	return nil
}
