package standing

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/raftlog"
)

// Standing is what this member is in the cluster, and what it knows of the others: for the handshakes of one tenure.
type Standing struct {
	config *config.Config
	name   bootstrap.Names
	fail   func(error)   // ends the tenure
	news   chan struct{} // capacity 1: something was heard

	decided beginning       // of the log that Decide has let be made; of one goroutine
	again   bootstrap.Again // with what the logs begin, if the ones before were lost; of one goroutine
	began   *bootstrap.Record

	noted atomic.Pointer[bootstrap.Notes] // the notes again, for who must not wait for the disk

	mu      sync.Mutex
	own     bootstrap.Facts
	disk    *raftlog.Log    // the main database's log; nil: there is none yet
	notes   bootstrap.Notes // as they are on disk
	heard   map[uint32]*bootstrap.Facts
	counted bool              // the copy that is in the database, in this tenure
	reasons map[uint32]string // why this member does not talk to another one
}

// beginning is what the main database's log says of the moment at which it was made.
type beginning struct {
	Contents *bootstrap.Contents `json:"contents"` // with which the members began
	Settings []bootstrap.Setting `json:"settings"` // those that cannot be changed later
	Again    bootstrap.Again     `json:"again"`    // how it was readmitted, if the log before was lost
	// Record is what held for the cluster, as far as was known then.
	Record *bootstrap.Record `json:"record,omitempty"`
}

// beginsWith is the beginning of a log that is made now.
func (s *Standing) beginsWith(contents *bootstrap.Contents) beginning {
	return beginning{Contents: contents, Settings: bootstrap.Fixed(s.own.Settings)}
}

// New makes what a member is that has heard of nobody yet. fail ends the tenure.
func New(c *config.Config, name bootstrap.Names, fail func(error)) *Standing {
	return &Standing{config: c, name: name, fail: fail, news: make(chan struct{}, 1),
		own: bootstrap.Facts{Member: c.Member, Level: bootstrap.Level, Witness: c.Witness,
			Settings: equalSettings(c), First: c.FirstRecord()},
		heard:   map[uint32]*bootstrap.Facts{},
		reasons: map[uint32]string{}}
}

// equalSettings are those that must be equal at all members with a database.
func equalSettings(c *config.Config) []bootstrap.Setting {
	if c.Witness {
		return nil
	}
	list := slices.Clone(c.Members)
	slices.SortFunc(list, func(a, b config.Member) int { return int(a.Member) - int(b.Member) })
	members := make([]string, 0, len(list))
	for _, m := range list {
		members = append(members, fmt.Sprintf("%d=%s (%s)", m.Member, m.Name, m.Address))
	}
	return []bootstrap.Setting{
		{Name: listOfMembers, Value: "[" + strings.Join(members, ", ") + "]"},
		{Name: "database", Value: c.Database},
		{Name: "sequence_step", Value: fmt.Sprint(c.SequenceStep)},
		{Name: "certify_keys", Value: fmt.Sprint(c.Limits.CertifyKeys)},
		{Name: "lock_lease_ms", Value: fmt.Sprint(c.Limits.LockLeaseMs)},
	}
}

// Facts are what this member says of itself now.
func (s *Standing) Facts() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.now()
	if f.Incarnation > 0 {
		f.Known, f.Lives, f.Copied = s.notes.Members, s.notes.Lives, s.notes.Copied
		if !slices.ContainsFunc(s.config.First(), func(m uint32) bool {
			return m != s.config.Member && f.Known[m] == 0
		}) {
			f.Contents = nil // nobody can begin with them any more
		}
	}
	return f.Append(nil)
}

// Judge takes what another member says of itself.
func (s *Standing) Judge(from uint32, data []byte) error {
	f, err := bootstrap.Decode(data)
	if err == nil && f.Member != from {
		err = fmt.Errorf("member %d says that it is member %d", from, f.Member)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disk != nil {
		f.Contents = nil // it does not matter any more
	}
	s.heard[from] = f
	if s.disk == nil {
		learn(s.config, f.Roster)
		s.config.Recorded(f.Record)
	}
	signal(s.news)
	if err := s.goesOn(f); err != nil {
		s.fail(err)
		return err
	}
	own := s.now()
	own.Known, own.Lives = s.notes.Members, s.notes.Lives
	if err := bootstrap.Outdated(&own, f, s.name); err != nil {
		err = errors.Join(err, s.note(func(n bootstrap.Notes) (bootstrap.Notes, bool) { return n.Refused(err) }))
		s.fail(&failure.Fatal{Err: err})
		return err
	}
	delete(s.reasons, from)
	if err = bootstrap.Judge(&own, f, s.name); err == nil {
		err = s.note(func(n bootstrap.Notes) (bootstrap.Notes, bool) { return n.Heard(f) })
	}
	if err != nil {
		s.reasons[from] = err.Error()
	}
	return err
}

// Understand reports whether all members are known to understand what is of a level (bootstrap.Level): by what each has
// said, or, from Roles on, by the cluster's record.
// It waits for nobody.
func (s *Standing) Understand(level uint32) bool {
	if level > bootstrap.Membership {
		return s.config.ClusterLevel() >= level
	}
	n := s.noted.Load()
	if n == nil {
		return false
	}
	var others, later []uint32
	changed := false
	for _, m := range s.config.Everybody() {
		if m.Member != s.config.Member {
			others = append(others, m.Member)
		}
	}
	if r := s.config.Roster(); r != nil {
		later, changed = r.Later, r.Ordinal > 0
	}
	return n.Understand(level, others, later, changed)
}

// goesOn says why this member must end, by what another one says that holds for the cluster. The caller holds mu.
func (s *Standing) goesOn(f *bootstrap.Facts) error {
	if err := bootstrap.Surpassed(s.own.Level, f.Record, "this node, "+s.name(s.own.Member)+","); err != nil {
		return &failure.Newer{Err: err}
	}
	if s.disk != nil {
		return nil // it has looked at its own record
	}
	if err := s.config.Differs(); err != nil {
		return &failure.Config{Err: err}
	}
	return nil
}

// Lacking lists the members that have not said that they understand what is of a level.
func (s *Standing) Lacking(level uint32) (list []uint32) {
	levels := s.Levels()
	for _, m := range slices.Concat(s.config.All(), s.config.Witnesses()) {
		if levels[m.Member] < level {
			list = append(list, m.Member)
		}
	}
	return list
}

// Unlike says what the files of this member and of another one say otherwise of what is to hold for the whole cluster,
// as long as the record does not say it.
func (s *Standing) Unlike() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.config.Record(); r != nil && r.MinCopies > 0 {
		return nil
	}
	for _, m := range s.config.All() {
		if f := s.heard[m.Member]; f != nil {
			if err := bootstrap.Unlike(&s.own, f, s.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Levels are what members understand, as each has said last. Who has said nothing is not among them.
func (s *Standing) Levels() map[uint32]uint32 {
	levels := map[uint32]uint32{s.config.Member: bootstrap.Level}
	if n := s.noted.Load(); n != nil {
		for m, level := range n.Levels { // order-free: each for itself
			levels[m] = level
		}
	}
	return levels
}

// note changes the notes, if there is a log; they are on disk when it returns. The caller holds mu.
func (s *Standing) note(change func(bootstrap.Notes) (bootstrap.Notes, bool)) error {
	next, news := change(s.notes)
	if s.disk == nil || !news {
		return nil
	}
	line, err := json.Marshal(next)
	if err == nil {
		err = s.disk.SetNotes(string(line))
	}
	if err != nil {
		return fmt.Errorf("what is known of other members cannot be noted: %w", err)
	}
	s.notes = next
	s.noted.Store(&next)
	return nil
}

// Adopt takes the open log of the main database, and begins an incarnation.
func (s *Standing) Adopt(disk *raftlog.Log) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, err := disk.Notes()
	if err == nil && line != "" {
		err = json.Unmarshal([]byte(line), &s.notes)
	}
	var b beginning
	if text := disk.Identity().Beginning; err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &b)
	}
	if err != nil {
		return fmt.Errorf("standing: read what the log notes: %w", err)
	}
	if s.notes.Outdated != "" {
		return errors.New(s.notes.Outdated)
	}
	if err := bootstrap.Changed(b.Settings, s.own.Settings); err != nil {
		return err
	}
	s.own.Contents, s.again, s.began = b.Contents, b.Again, b.Record
	if s.config.Record() == nil { // the database does not say it yet
		s.config.Recorded(cmp.Or(b.Record, &bootstrap.Record{Level: bootstrap.Membership}))
	}
	s.notes = s.notes.Told(b.Again.Levels)
	s.disk = disk
	s.noted.Store(new(s.notes))
	for _, f := range s.heard { // order-free: each for itself
		if err := s.note(func(n bootstrap.Notes) (bootstrap.Notes, bool) { return n.Heard(f) }); err != nil {
			return err
		}
	}
	s.own.Life = 1 + rand.Uint64N(math.MaxUint64)
	s.own.Incarnation, err = disk.NextIncarnation()
	return err
}

// others is what was heard of the other members.
func (s *Standing) others() (own bootstrap.Facts, others []bootstrap.Heard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.config.Everybody() {
		if m.Member != s.config.Member {
			others = append(others, bootstrap.Heard{Member: m.Member, Facts: s.heard[m.Member]})
		}
	}
	return s.now(), others
}

// rosterOf is who the members are by the order, as others are told; nil if that was never changed.
func rosterOf(c *config.Config) json.RawMessage {
	r := c.Roster()
	if r == nil {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic("standing: " + err.Error()) // there is nothing in it that cannot be written
	}
	return text
}

// learn has a member that has no log, and so hears of no change, go by a list that another one has told, if it is a
// newer one. It reports whether it is.
func learn(c *config.Config, told json.RawMessage) bool {
	r := &config.Roster{}
	if len(told) == 0 || json.Unmarshal(told, r) != nil || len(r.Members) == 0 {
		return false
	}
	if is := c.Roster(); is != nil && is.Ordinal >= r.Ordinal {
		return false
	}
	c.Becomes(r)
	return true
}

// listOfMembers is a setting that must be equal until the order has changed who the members are.
const listOfMembers = "the list of members"

// now is what this member is, by the list of members as it is now. The caller holds mu.
func (s *Standing) now() bootstrap.Facts {
	f, r := s.own, s.config.Roster()
	f.Record = s.config.Record()
	if r != nil {
		f.Later, f.Roster = r.Later, rosterOf(s.config)
		for _, m := range r.Witnesses {
			f.Listed = append(f.Listed, m.Member)
		}
		f.Settings = slices.DeleteFunc(slices.Clone(f.Settings), func(x bootstrap.Setting) bool {
			return x.Name == listOfMembers
		})
	}
	return f
}

// Decide says what this member may do with what it has heard, if it has no log yet. What CreateMainLog makes begins
// with that, whatever is heard meanwhile.
func (s *Standing) Decide() bootstrap.Decision {
	own, others := s.others()
	d := bootstrap.Decide(&own, others, s.name)
	if d.Do == bootstrap.Create {
		s.decided = s.beginsWith(bootstrap.Beginning(&own, others))
		s.decided.Record = bootstrap.Begins(&own, others)
	}
	return d
}

// Silent reports whether some member has not been heard of.
func (s *Standing) Silent() bool {
	_, others := s.others()
	return slices.ContainsFunc(others, func(h bootstrap.Heard) bool { return h.Facts == nil })
}

// CreateMainLog makes the main database's log, once Decide says so.
func (s *Standing) CreateMainLog(dir string, faults *fault.Faults) error {
	return createMainLog(dir, s.config, faults, &s.decided)
}

// Found notes what the main database holds of a member that has no log yet.
func (s *Standing) Found(contents *bootstrap.Contents) { s.own.Contents = contents }

// Began is with what the main database began, by the log.
func (s *Standing) Began() *bootstrap.Contents { return s.own.Contents }

// BeganWith is what held for the cluster when the main database's log was made; nil: there was no record.
func (s *Standing) BeganWith() *bootstrap.Record { return s.began }

// Incarnation is that of the main database's life.
func (s *Standing) Incarnation() uint64 { return s.own.Incarnation }

// Begun reports whether this member has a log, or has had one in this tenure.
func (s *Standing) Begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk != nil
}

// News is ready when something was heard.
func (s *Standing) News() <-chan struct{} { return s.news }

// Why says why this member does not talk to others; empty if it does.
func (s *Standing) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, m := range s.config.Everybody() {
		if r := s.reasons[m.Member]; r != "" {
			all = append(all, r)
		}
	}
	return strings.Join(all, "; ")
}

// MayHaveVoted refuses to make a log of a database anew of which this member has made one before.
func (s *Standing) MayHaveVoted(group uint64, dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, os.ErrNotExist) ||
		!slices.Contains(s.notes.Databases, group) {
		return nil
	}
	return errLogGone(dir, s.config)
}

// Made notes that there is a log of a database, before this member votes in it.
func (s *Standing) Made(group uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note(func(n bootstrap.Notes) (bootstrap.Notes, bool) { return n.Made(group) })
}

// Copies is how many copies of others' databases this member has taken, with the one that it has now; it is noted
// before it returns.
func (s *Standing) Copies() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.counted {
		least := s.again.Copied + 1
		err := s.note(func(n bootstrap.Notes) (bootstrap.Notes, bool) { return n.Copy(least), true })
		if err != nil {
			return 0, err
		}
		s.counted = true
	}
	return int(s.notes.Copied), nil
}

// Removed notes that the log of a database is not needed any more.
func (s *Standing) Removed(group uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note(func(n bootstrap.Notes) (bootstrap.Notes, bool) { return n.Removed(group) })
}

// signal has who waits for c look again.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
