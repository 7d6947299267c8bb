package standing

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/raftlog"
)

// seat is a member's standing over its directory, without a node around it.
type seat struct {
	*Standing
	t      *testing.T
	disk   *raftlog.Log
	failed error
}

func seatConfig(t *testing.T, dir string, member uint32) *config.Config {
	t.Helper()
	c := &config.Config{Cluster: "c", Member: member, DataDir: dir, Listen: "127.0.0.1:1", MemberListen: "127.0.0.1:2",
		Secret: "sixteen characters"}
	for m := uint32(1); m <= 3; m++ {
		c.Members = append(c.Members, config.Member{Member: m, Name: fmt.Sprint("node", m),
			Address: fmt.Sprint("127.0.0.1:", 10+m)})
	}
	c.Limits.LogSegmentBytes = 64 << 10
	if err := errors.Join(c.Validate(), os.MkdirAll(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return c
}

// take is what a tenure does at its beginning.
func take(t *testing.T, c *config.Config) *seat {
	t.Helper()
	s := &seat{t: t}
	s.Standing = New(c, c.Name, func(err error) { s.failed = err })
	s.own.Contents = &bootstrap.Contents{}
	return s
}

func (s *seat) begin(create bool) {
	s.t.Helper()
	dir := LogDir(s.config, MainGroup)
	if create {
		b := s.beginsWith(&bootstrap.Contents{})
		if err := createMainLog(dir, s.config, nil, &b); err != nil {
			s.t.Fatal(err)
		}
	}
	disk, err := OpenLog(dir, s.config, nil)
	if err == nil {
		err = s.Adopt(disk)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.disk = disk
}

func (s *seat) leave() {
	s.t.Helper()
	if s.disk != nil {
		if err := s.disk.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// greets has a member meet another one: each judges the other.
func (s *seat) greets(o *seat) error {
	return errors.Join(s.Judge(o.config.Member, o.Facts()), o.Judge(s.config.Member, s.Facts()))
}

// TestStanding: what is known of a member is known after restarts, and none that has lost its log begins anew.
func TestStanding(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := make([]*config.Config, 4)
	s := make([]*seat, 4)
	for m := uint32(1); m <= 3; m++ {
		c[m] = seatConfig(t, filepath.Join(root, fmt.Sprint(m)), m)
		s[m] = take(t, c[m])
	}
	meet := func(a, b int, want string) {
		t.Helper()
		err := s[a].greets(s[b])
		if got := fmt.Sprint(err); (want != "") != (err != nil) || !strings.Contains(got, want) {
			t.Errorf("members %d and %d: %s, want %q", a, b, got, want)
		}
	}
	decide := func(m int, want bootstrap.Do) {
		t.Helper()
		if d := s[m].Decide(); d.Do != want {
			t.Errorf("member %d: %s, %s; want %s", m, d.Do, d.Why, want)
		}
	}
	decide(1, bootstrap.Wait)
	meet(1, 2, "")
	decide(1, bootstrap.Wait)
	meet(1, 3, "")
	decide(1, bootstrap.Create)
	s[1].begin(true)
	meet(1, 3, "") // before 3 has a log; it notes that later
	meet(1, 2, "")
	decide(2, bootstrap.Wait)
	meet(2, 3, "")
	decide(2, bootstrap.Create)
	decide(3, bootstrap.Create)
	s[2].begin(true)
	s[3].begin(true)
	if got := s[3].notes.Members[1]; got != 1 {
		t.Errorf("member 3 begins and notes incarnation %d of member 1, of which it has heard before", got)
	}
	meet(2, 3, "")
	meet(1, 2, "")

	// Member 3 has met member 2 since it began, and member 1 not yet. Its disk is lost.
	s[3].leave()
	c[3] = seatConfig(t, filepath.Join(root, "3 anew"), 3)
	s[3] = take(t, c[3])
	for range 2 {
		s[2].leave()
		s[2] = take(t, c[2])
		s[2].begin(false)
		meet(3, 2, "node3 has no log, but it had one: node2 knows its incarnation 1")
		decide(3, bootstrap.Ask)
	}
	if got := s[2].notes.Members; got[3] != 1 || got[1] != 1 {
		t.Errorf("member 2 has noted %v", got)
	}
	if why := s[2].Why(); !strings.Contains(why, "node3 has no log") {
		t.Errorf("member 2 says that it does not talk to others because %q", why)
	}

	// It comes back with its disk, and later with an older one.
	c[3] = seatConfig(t, filepath.Join(root, "3"), 3)
	s[3] = take(t, c[3])
	s[3].begin(false)
	meet(3, 2, "")
	if why := s[2].Why(); why != "" {
		t.Errorf("member 2 still says %q", why)
	}
	s[2].notes.Members[3] = 9
	meet(2, 3, "the log of node3 is an older copy")
	var fatal *failure.Fatal
	if !errors.As(s[3].failed, &fatal) || s[2].failed != nil {
		t.Errorf("the older one ends with %v, the other with %v", s[3].failed, s[2].failed)
	}
	for m := 1; m <= 3; m++ {
		s[m].leave()
	}
}

// TestStandingNotes: nobody is talked to of whom it cannot be noted that it is there.
func TestStandingNotes(t *testing.T) {
	t.Parallel()
	s := take(t, seatConfig(t, t.TempDir(), 1))
	other := take(t, seatConfig(t, t.TempDir(), 2))
	other.begin(true)
	defer other.leave()
	s.begin(true)
	defer s.leave()
	dir := LogDir(s.config, MainGroup)
	if err := os.Rename(dir, dir+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := s.Judge(2, other.Facts()); err == nil || s.notes.Members[2] != 0 {
		t.Errorf("it cannot be noted: %v, %v", err, s.notes)
	}
	if err := os.Rename(dir+".aside", dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Judge(2, other.Facts()); err != nil || s.notes.Members[2] != 1 {
		t.Errorf("it can be noted: %v, %v", err, s.notes)
	}
	for _, bad := range []string{"", "{", `{"member": 3, "incarnation": 1}`} {
		if err := s.Judge(2, []byte(bad)); err == nil {
			t.Errorf("facts %q are taken", bad)
		}
	}
}

// TestLogsOfDatabases: a log of another database than the main one is not made twice.
func TestLogsOfDatabases(t *testing.T) {
	t.Parallel()
	c := seatConfig(t, t.TempDir(), 1)
	s := take(t, c)
	s.begin(true)
	check := func(group uint64, want bool) {
		t.Helper()
		if err := s.MayHaveVoted(group, LogDir(c, group)); (err != nil) != want {
			t.Errorf("database %d: %v", group, err)
		}
	}
	check(7, false)
	for range 2 {
		if err := s.Made(7); err != nil {
			t.Fatal(err)
		}
	}
	s.leave()
	s = take(t, c)
	s.begin(false)
	defer func() { s.leave() }()
	check(7, true)
	check(8, false)
	if err := New(c, c.Name, nil).CreateLog(7, LogDir(c, 7), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	check(7, false)
	if err := errors.Join(raftlog.Remove(LogDir(c, 7)), s.Removed(7), s.Removed(7)); err != nil {
		t.Fatal(err)
	}
	check(7, false)
	if len(s.notes.Databases) > 0 {
		t.Errorf("notes %v", s.notes)
	}
}

// TestEqualSettings: each setting that must be equal is compared, and what need not be is not.
func TestEqualSettings(t *testing.T) {
	t.Parallel()
	facts := func(c *config.Config) *bootstrap.Facts {
		return &bootstrap.Facts{Member: c.Member, Settings: equalSettings(c)}
	}
	one := facts(seatConfig(t, t.TempDir(), 1))
	for name, change := range map[string]func(*config.Config){
		"certify_keys is 1048576 at node1 and 7 at node2":     func(c *config.Config) { c.Limits.CertifyKeys = 7 },
		"lock_lease_ms is 10000 at node1 and 7 at node2":      func(c *config.Config) { c.Limits.LockLeaseMs = 7 },
		"sequence_step is 16 at node1 and 32 at node2":        func(c *config.Config) { c.SequenceStep = 32 },
		"database is postgres at node1 and shop at node2":     func(c *config.Config) { c.Database = "shop" },
		"[1=node1 (127.0.0.1:11), 2=node2 (127.0.0.1:12)] at": func(c *config.Config) { c.Members = c.Members[:2] },
		"3=gamma (127.0.0.1:13)":                              func(c *config.Config) { c.Members[2].Name = "gamma" },
		"3=node3 (127.0.0.1:99)": func(c *config.Config) {
			c.Members[2].Address = "127.0.0.1:99"
		},
		"": func(c *config.Config) {
			c.Members[2].Clients = "127.0.0.1:99"
			slices.Reverse(c.Members)
			c.Limits.Sessions = 7
		},
	} {
		c := seatConfig(t, t.TempDir(), 2)
		change(c)
		b, err := bootstrap.Decode(facts(c).Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		err = bootstrap.Judge(one, b, seatConfig(t, t.TempDir(), 1).Name)
		if (err != nil) != (name != "") || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// TestFixedSettings: what the log depends on is not changed, at one member or at all.
func TestFixedSettings(t *testing.T) {
	t.Parallel()
	c := seatConfig(t, t.TempDir(), 1)
	s := take(t, c)
	s.begin(true)
	s.leave()
	for name, change := range map[string]func(*config.Config){
		"certify_keys is 7 in the configuration, and was 1048576 when this member's log " +
			"was made": func(c *config.Config) { c.Limits.CertifyKeys = 7 },
		"sequence_step is 32": func(c *config.Config) { c.SequenceStep = 32 },
		"database is shop":    func(c *config.Config) { c.Database = "shop" },
		"": func(c *config.Config) {
			c.Limits.LockLeaseMs, c.Members[2].Address = 7, "127.0.0.1:99"
		},
	} {
		x := *c
		x.Members = slices.Clone(c.Members)
		change(&x)
		disk, err := OpenLog(LogDir(&x, MainGroup), &x, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = take(t, &x).Adopt(disk)
		if (err != nil) != (name != "") || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%v, want %q", err, name)
		}
		if err := disk.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The notes are read again by later releases.
func TestNotesGolden(t *testing.T) {
	t.Parallel()
	const golden = `{"members":{"1":4,"3":9},"databases":[7,12]}`
	var n bootstrap.Notes
	if err := json.Unmarshal([]byte(golden), &n); err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(n); err != nil || string(b) != golden {
		t.Errorf("%s, %v", b, err)
	}
}

// TestSurpassedSeat (B8): a member ends as soon as it hears that the cluster's level is beyond its build, also if it
// has a log, and notes nothing: with another build it goes on. One without a log hears what holds for the cluster, and
// ends if its file says otherwise.
func TestSurpassedSeat(t *testing.T) {
	facts := func(r *bootstrap.Record) []byte {
		return (&bootstrap.Facts{Member: 2, Incarnation: 3, Level: 99, Record: r}).Append(nil)
	}
	s := take(t, seatConfig(t, t.TempDir(), 1))
	s.begin(true)
	defer s.leave()
	if s.Understand(bootstrap.Roles) || !slices.Equal(s.Lacking(bootstrap.Level), []uint32{2, 3}) {
		t.Errorf("nobody has said anything: %v lack it", s.Lacking(bootstrap.Level))
	}
	if err := s.Judge(2, facts(&bootstrap.Record{Level: bootstrap.Level})); err != nil || s.failed != nil {
		t.Errorf("a level that it understands: %v, %v", err, s.failed)
	}
	if !slices.Equal(s.Lacking(bootstrap.Level), []uint32{3}) || s.Levels()[2] != 99 || s.Understand(bootstrap.Roles) {
		t.Errorf("what was heard does not raise a level: %v", s.Levels())
	}
	err := s.Judge(2, facts(&bootstrap.Record{Level: 99}))
	if err == nil || !failure.NotUnderstood(s.failed) || s.notes.Outdated != "" {
		t.Errorf("a level beyond it: %v, fails with %v, notes %q", err, s.failed, s.notes.Outdated)
	}
	if err := s.Unlike(); err != nil {
		t.Errorf("a release that says nothing of its file: %v", err)
	}
	s.heard[2].First = &bootstrap.Record{MinCopies: 1, ExpelAfter: "10s"}
	if err := s.Unlike(); err == nil || !strings.Contains(err.Error(), "min_copies is 2 at node1 and 1 at node2") {
		t.Errorf("files differ: %v", err)
	}
	s.config.Recorded(&bootstrap.Record{Level: bootstrap.Roles, MinCopies: 2, Changed: 5})
	if err := s.Unlike(); err != nil {
		t.Errorf("the record says it: %v", err)
	}
	if !s.Understand(bootstrap.Roles) || s.Understand(bootstrap.Roles+1) {
		t.Error("the record counts, and nothing else")
	}

	c := seatConfig(t, t.TempDir(), 3)
	c.MinCopies = 1
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	late := take(t, c)
	var wrong *failure.Config
	if err := late.Judge(2, facts(&bootstrap.Record{Level: 5, MinCopies: 2, ExpelAfter: "10s"})); err == nil ||
		!errors.As(late.failed, &wrong) {
		t.Errorf("its file differs: %v, fails with %v", err, late.failed)
	}
}
