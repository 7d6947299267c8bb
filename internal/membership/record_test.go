package membership

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
)

// TestRecorded: what holds behind each change, by what held before alone.
func TestRecorded(t *testing.T) {
	finish := semantics.Record{Does: semantics.FinishesUpgrade, Level: 5, MinCopies: 2, ExpelAfter: "10s"}
	copies := semantics.Record{Does: semantics.SetsMinCopies, MinCopies: 1}
	expel := semantics.Record{Does: semantics.SetsExpelAfter, ExpelAfter: "60s"}
	never := semantics.Record{Does: semantics.SetsExpelAfter, ExpelAfter: "0s"}
	done := &bootstrap.Record{Level: 5, MinCopies: 3, ExpelAfter: "2s", Changed: 4}
	for what, x := range map[string]struct { // order-free: each for itself
		was  *bootstrap.Record
		c    semantics.Record
		want bootstrap.Record
		code string
	}{
		"an upgrade of a cluster without a record": {nil, finish, bootstrap.Record{Level: 5, MinCopies: 2,
			ExpelAfter: "10s"}, ""},
		"its settings stay": {done, finish, *done, ""},
		"a level is never lowered": {&bootstrap.Record{Level: 7, MinCopies: 1, ExpelAfter: "2s"}, finish,
			bootstrap.Record{Level: 7, MinCopies: 1, ExpelAfter: "2s"}, ""},
		"a setting before the upgrade is finished": {nil, copies, bootstrap.Record{}, "55000"},
		"copies": {done, copies, bootstrap.Record{Level: 5, MinCopies: 1, ExpelAfter: "2s", Changed: 4}, ""},
		"a time": {done, expel, bootstrap.Record{Level: 5, MinCopies: 3, ExpelAfter: "1m0s", Changed: 4}, ""},
		"too many copies": {done, semantics.Record{Does: semantics.SetsMinCopies, MinCopies: 6}, bootstrap.Record{},
			"22023"},
		"one copy, and nobody is ever gone": {&bootstrap.Record{Level: 5, MinCopies: 1, ExpelAfter: "2s"}, never,
			bootstrap.Record{}, "22023"},
	} {
		next, refused := recorded(x.was, x.c, true)
		switch {
		case refused != nil && refused.Code != x.code, refused == nil && (x.code != "" || *next != x.want):
			t.Errorf("%s: %+v, %v", what, next, refused)
		}
	}
	if _, refused := recorded(done, finish, false); refused == nil || refused.Code != "42501" {
		t.Errorf("who is no superuser finishes an upgrade: %v", refused)
	}
}

// heard is what members have said.
type heard map[uint32]uint32

func (h heard) Understand(level uint32) bool { return len(h.Lacking(level)) == 0 }
func (h heard) Lacking(level uint32) (list []uint32) {
	for m, is := range h { // order-free: sorted
		if is < level {
			list = append(list, m)
		}
	}
	slices.Sort(list)
	return list
}

func (heard) Unlike() error { return nil }

// apart are members of which two have something else in their files.
type apart struct{ heard }

func (apart) Unlike() error { return errors.New("min_copies is 1 at a and 2 at b") }

// TestMayRecord: an upgrade is not finished before all have said that they understand it, and those that have not are
// named; the settings come behind that.
func TestMayRecord(t *testing.T) {
	c := &config.Config{Members: first}
	all, one := heard{1: bootstrap.Level, 2: bootstrap.Level}, heard{1: bootstrap.Level, 2: bootstrap.Membership}
	finish, copies := semantics.Record{Does: semantics.FinishesUpgrade}, semantics.Record{Does: semantics.SetsMinCopies}
	for _, r := range []semantics.Record{{}, finish, copies} {
		if e := MayRecord(c, all, r); e != nil {
			t.Errorf("%+v: %v", r, e)
		}
		e := MayRecord(c, one, r)
		if (e != nil) != (r != semantics.Record{}) || e != nil && e.Code != "55000" {
			t.Errorf("one does not understand it, %+v: %v", r, e)
		}
		if r == finish && !strings.Contains(e.Message, "has been seen at b") {
			t.Errorf("who is it? %s", e.Message)
		}
	}
	if e := MayRecord(c, apart{all}, finish); e == nil || !strings.Contains(e.Message, "min_copies is 1 at a and 2") {
		t.Errorf("files differ: %v", e)
	}
}

// TestCarryRecord: the table has what is decided, with the progress, and the node goes by it; what is refused changes
// nothing but the progress. A build that does not understand the level ends instead, and does not start again.
func TestCarryRecord(t *testing.T) {
	ctx, server := context.Background(), pgtest.Shared(t)
	name, progress := server.NewDatabase(t), uint64(0)
	c := &config.Config{Cluster: "c", Member: 1, DataDir: t.TempDir(), Listen: "l:1", MemberListen: "l:2",
		Secret: "sixteen characters", Members: first, MinCopies: 3}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	take := func(starts bool) error { return TakeRecord(ctx, server.ConnString(name), c, starts) }
	if err := take(true); err != nil || c.Record() != nil {
		t.Fatalf("before there is a table: %v, %v", c.Record(), err)
	}
	server.Exec(t, name, "CREATE SCHEMA tutti", "CREATE TABLE tutti.cluster (one bool PRIMARY KEY DEFAULT true, "+
		"level int4, min_copies int4, expel_after text, changed int8)")
	conn := server.Connect(t, name)
	note := func(_ context.Context, last uint64) error {
		progress = last
		return nil
	}
	raised := 0
	o := Options{Config: c, Conn: conn, NoteProgress: note, Raised: func() { raised++ },
		Note: func(ctx context.Context, last uint64, sql string, args ...any) error {
			if _, err := conn.Exec(ctx, sql, args...); err != nil {
				return err
			}
			return note(ctx, last)
		}}
	carry := func(ordinal uint64, r semantics.Record) (session.Result, error) {
		t.Helper()
		return CarryRecord(ctx, o, slog.New(slog.DiscardHandler), ordinal, ordinal, session.Definition{
			Cluster:  semantics.Cluster{Record: r},
			Settings: []session.Setting{{Name: session.RoleSetting, Value: "postgres"}}})
	}
	copies := semantics.Record{Does: semantics.SetsMinCopies, MinCopies: 1}
	if r, err := carry(5, copies); err != nil || r.Err == nil || r.Err.Code != "55000" || progress != 5 {
		t.Errorf("before the upgrade is finished: %+v, %v, progress %d", r, err, progress)
	}
	finish := Complete(c, semantics.Record{Does: semantics.FinishesUpgrade})
	for ordinal, r := range []semantics.Record{6: finish, 7: copies} {
		if r.Does == semantics.NoRecord {
			continue
		}
		if got, err := carry(uint64(ordinal), r); err != nil || got.Err != nil || progress != uint64(ordinal) {
			t.Errorf("%s: %+v, %v, progress %d", r, got, err, progress)
		}
	}
	want := bootstrap.Record{Level: bootstrap.Level, MinCopies: 1, ExpelAfter: "10s", Changed: 7}
	if got := c.Record(); got == nil || *got != want || c.Copies() != 1 {
		t.Errorf("the node goes by %+v", got)
	}
	if raised != 1 {
		t.Errorf("others are told %d times that the level was raised", raised)
	}
	var wrong *failure.Config
	if err := take(true); !errors.As(err, &wrong) {
		t.Errorf("it starts with a file that differs: %v", err)
	}
	if err := take(false); err != nil {
		t.Errorf("it has served, and ends: %v", err)
	}
	if _, err := carry(8, semantics.Record{Does: semantics.FinishesUpgrade, Level: 99}); !failure.NotUnderstood(err) ||
		progress != 7 {
		t.Errorf("a level that it does not understand: %v, progress %d", err, progress)
	}
	server.Exec(t, name, "UPDATE tutti.cluster SET level = 99")
	if err := take(true); !failure.NotUnderstood(err) {
		t.Errorf("it starts in a cluster of a later level: %v", err)
	}
}

// TestLevels: everybody is shown with what runs there, what he has said, and what the cluster's level is.
func TestLevels(t *testing.T) {
	c := &config.Config{Members: first}
	r := Levels(c, heard{1: 5}, func(m uint32) string { return map[uint32]string{1: "0.2.0"}[m] })
	if len(r.Rows) != 2 || strings.Join(r.Rows[0], "|") != "b|||4" || strings.Join(r.Rows[1], "|") != "a|0.2.0|5|4" {
		t.Errorf("%q", r.Rows)
	}
}
