package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"
)

// Rules are the faults of one member. The zero value is no fault.
type Rules struct {
	// Drop lists the members that get nothing from this one. What they send still arrives.
	Drop []uint32 `json:"drop,omitempty"`
	// Delay holds back what is sent, in milliseconds by member.
	Delay map[uint32]int `json:"delay_ms,omitempty"`
	// SyncDelay is how long each sync of the log takes longer, in milliseconds.
	SyncDelay int `json:"sync_delay_ms,omitempty"`
	// SyncError, if not empty, is the error of the next sync of the log.
	SyncError string `json:"sync_error,omitempty"`
}

// Write replaces the file at path by r, at once.
func (r Rules) Write(path string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, append(b, '\n'), 0o644)
}

// read reads a file of rules, and returns its text as well.
func read(path string) (Rules, []byte, error) {
	var r Rules
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil, nil
	}
	if err != nil {
		return r, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, b, fmt.Errorf("%s: %w", path, err)
	}
	return r, b, nil
}
