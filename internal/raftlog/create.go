package raftlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	pb "go.etcd.io/raft/v3/raftpb"
)

const (
	identityFile    = "identity"
	incarnationFile = "incarnation"
	notesFile       = "notes"
	lockFile        = "lock"
)

// Create makes an empty log in o.Dir. The directory appears complete and durable, or not at
// all. It fails when o.Dir exists and is not empty.
func Create(o Options, id Identity) error { return create(o, id, realDisk()) }

func create(o Options, id Identity, d disk) error {
	if err := errors.Join(o.validate(), id.validate()); err != nil {
		return err
	}
	dir := filepath.Clean(o.Dir)
	if names, err := os.ReadDir(dir); err == nil && len(names) > 0 {
		return fmt.Errorf("raftlog: %s is not empty, so no log is created there: open the log it holds, or name "+
			"another directory", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("raftlog: create in %s: %w", dir, err)
	}
	// What an interrupted Create left behind was never a log.
	building := dir + ".creating"
	err := os.RemoveAll(building)
	if err == nil {
		err = os.Mkdir(building, 0o700)
	}
	if err == nil {
		err = fill(d, building, roomFor(0, o.SegmentBytes), id)
	}
	if err == nil {
		err = os.Rename(building, dir)
	}
	if err == nil {
		err = d.syncDir(filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("raftlog: create in %s: %w", dir, errors.Join(err, os.RemoveAll(building)))
	}
	return nil
}

// Remove removes a log that nobody has open, if it is there. It is gone at once or not at all: what an interrupted
// Remove leaves is none, and goes with the next one.
func Remove(dir string) error {
	dir = filepath.Clean(dir)
	aside := dir + ".removing"
	err := os.RemoveAll(aside)
	if err == nil {
		if err = os.Rename(dir, aside); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err == nil {
		err = realDisk().syncDir(filepath.Dir(dir))
	}
	if err == nil {
		err = os.RemoveAll(aside)
	}
	if err != nil {
		return fmt.Errorf("raftlog: remove %s: %w", dir, err)
	}
	return nil
}

// fill writes all files of a new log.
func fill(d disk, dir string, room int64, id Identity) error {
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if err := replaceFile(d, dir, identityFile, string(text)); err != nil {
		return err
	}
	if err := replaceFile(d, dir, incarnationFile, strconv.FormatUint(id.Lives, 10)); err != nil {
		return err
	}
	h := head{seq: 1, cluster: id.Cluster, member: id.Member, hs: hardState{term: id.Term},
		base: base{conf: &pb.ConfState{Voters: slices.Clone(id.Voters), Learners: slices.Clone(id.Learners)}}}
	s, err := writeSegment(d, dir, room, h)
	if err != nil {
		return err
	}
	return s.Close()
}

// replaceFile replaces a small file durably: one line of text and one with its checksum.
func replaceFile(d disk, dir, name, text string) error {
	body := fmt.Sprintf("%s\n%08x\n", text, crc32.Checksum([]byte(text), castagnoli))
	// renameio syncs the new content before it renames; the directory is left to us.
	err := renameio.WriteFile(filepath.Join(dir, name), []byte(body), 0o600, renameio.WithTempDir(dir))
	if err != nil {
		return err
	}
	return d.syncDir(dir)
}

// readFile reads what replaceFile wrote.
func readFile(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text, sum, ok := strings.Cut(strings.TrimSuffix(string(b), "\n"), "\n")
	if !ok || sum != fmt.Sprintf("%08x", crc32.Checksum([]byte(text), castagnoli)) {
		return "", corrupt(path, 0, errDamaged)
	}
	return text, nil
}

func readIdentity(dir string) (Identity, error) {
	text, err := readFile(dir, identityFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, fmt.Errorf("raftlog: %s holds no log: create one first (%w)", dir, err)
	}
	if err != nil {
		return Identity{}, err
	}
	var id Identity
	if err := json.Unmarshal([]byte(text), &id); err != nil {
		return Identity{}, corrupt(filepath.Join(dir, identityFile), 0, err)
	}
	return id, id.validate()
}
