package standing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/raftlog"
)

// MainGroup is the number of the configured database. Its order has the definitions of what all databases share.
const MainGroup = 0

// FirstGroup is the number of the first database with which the cluster begins beside the configured one; the others
// follow by name. Those of databases that are created later are ordinals, none of which comes so far.
const FirstGroup = 1 << 62

// LogDir is where a database's log is.
func LogDir(c *config.Config, group uint64) string {
	switch {
	case group == MainGroup:
		return filepath.Join(c.DataDir, "log")
	case group >= FirstGroup:
		return filepath.Join(c.DataDir, fmt.Sprintf("log-first-%d", group-FirstGroup))
	}
	return filepath.Join(c.DataDir, fmt.Sprintf("log-%d", group))
}

// OtherLogs lists where the logs are of other databases than the main one. What else there is in the directory does not
// matter.
func OtherLogs(c *config.Config) (list []string, err error) {
	groups, err := OtherGroups(c)
	for _, group := range groups {
		list = append(list, LogDir(c, group))
	}
	return list, err
}

// OtherGroups lists the numbers of these databases.
func OtherGroups(c *config.Config) (list []uint64, err error) {
	entries, err := os.ReadDir(c.DataDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		number, first := strings.CutPrefix(e.Name(), "log-first-")
		if !first {
			number = strings.TrimPrefix(e.Name(), "log-")
		}
		group, err := strconv.ParseUint(number, 10, 64)
		if err != nil || group >= FirstGroup {
			continue
		}
		if first {
			group += FirstGroup
		}
		if filepath.Base(LogDir(c, group)) == e.Name() {
			list = append(list, group)
		}
	}
	return list, nil
}

// OpenLog opens a log of this member's.
func OpenLog(dir string, c *config.Config, faults *fault.Faults) (*raftlog.Log, error) {
	disk, err := raftlog.Open(logOptions(dir, c, faults))
	if err != nil {
		return nil, err
	}
	if id := disk.Identity(); id.Cluster != c.Cluster || id.Member != uint64(c.Member) {
		err := &failure.Config{Err: fmt.Errorf("the log in %s belongs to member %d of cluster %q, the configuration "+
			"says member %d of %q",
			dir, id.Member, id.Cluster, c.Member, c.Cluster)}
		return nil, errors.Join(err, disk.Close())
	}
	return disk, nil
}

// CreateLog makes the log of another database than the main one, on whose order some members vote at first, and some
// only get it: all with whom the cluster began, and the rest of these, if none are named.
func (s *Standing) CreateLog(group uint64, dir string, voters, learners []uint32, faults *fault.Faults) error {
	id := raftlog.Identity{Term: s.again.Terms[group], Voters: wide(voters), Learners: wide(learners)}
	if id.Term > 0 {
		id.Lives = s.again.Incarnation
	}
	return createLog(dir, s.config, faults, id)
}

// createMainLog makes the main database's log, which says with what the member begins.
func createMainLog(dir string, c *config.Config, faults *fault.Faults, b *beginning) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return createLog(dir, c, faults, raftlog.Identity{Beginning: string(text), Term: b.Again.Terms[MainGroup],
		Lives: b.Again.Incarnation})
}

func createLog(dir string, c *config.Config, faults *fault.Faults, id raftlog.Identity) error {
	id.Cluster, id.Member = c.Cluster, uint64(c.Member)
	first := wide(c.First())
	if len(id.Voters) == 0 {
		id.Voters = first
	}
	if id.Learners == nil {
		id.Learners = slices.DeleteFunc(slices.Clone(first), func(m uint64) bool {
			return slices.Contains(id.Voters, m)
		})
	}
	return raftlog.Create(logOptions(dir, c, faults), id)
}

// wide is a list as the log has it; nil stays nil.
func wide(members []uint32) (list []uint64) {
	if members != nil {
		list = []uint64{}
	}
	for _, m := range members {
		list = append(list, uint64(m))
	}
	return list
}

func logOptions(dir string, c *config.Config, faults *fault.Faults) raftlog.Options {
	return raftlog.Options{Dir: dir, SegmentBytes: c.Limits.LogSegmentBytes, BeforeSync: faults.Sync()}
}

// StoreCheckpoint writes a checkpoint into the local database. It returns when that is on disk, with
// everything that was committed before: PostgreSQL flushes its log in order.
func StoreCheckpoint(ctx context.Context, connString string, data []byte) error {
	settings := apply.SessionSettings()
	settings["synchronous_commit"] = "local"
	conn, err := link.Connect(ctx, connString, "tutti checkpoint", settings)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	const sql = "INSERT INTO tutti.checkpoint AS c (data) VALUES ($1::pg_catalog.bytea) ON CONFLICT (one) DO UPDATE " +
		"SET data = excluded.data"
	if r := conn.ExecParams(ctx, sql, [][]byte{data}, nil, []int16{1}, nil).Read(); r.Err != nil {
		return fmt.Errorf("standing: store the checkpoint: %w", r.Err)
	}
	if _, err := conn.Exec(ctx, "VACUUM tutti.checkpoint").ReadAll(); err != nil { // the one before is large
		return fmt.Errorf("standing: remove the old checkpoint: %w", err)
	}
	return nil
}

// readCheckpoint returns the database's checkpoint, nil if it has none.
func readCheckpoint(ctx context.Context, tx pgx.Tx) (data []byte, err error) {
	err = tx.QueryRow(ctx, "SELECT data::pg_catalog.bytea FROM tutti.checkpoint").Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("standing: read the checkpoint: %w", err)
	}
	return data, nil
}

// HowToClone says what an operator must do to give this member a new database.
func HowToClone(c *config.Config) string {
	return fmt.Sprintf("To bring this member back: remove %s but keep %s and every log-… beside it, set clone_from "+
		"in [postgres] to a member that is synced, and start it again",
		filepath.Join(c.DataDir, "postgres"), LogDir(c, MainGroup))
}
