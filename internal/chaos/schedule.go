package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// kind is one kind of fault.
type kind struct {
	name  string
	what  string
	lasts [2]time.Duration // drawn between these
	size  [2]int           // milliseconds, drawn between these
	needs need
}

type need uint8

const (
	needsNothing need = iota
	needsRoot         // of Linux
	needsNetns
	needsAsking // made only when it is named
)

var kinds = []kind{
	{name: "kill-node", what: "SIGKILL to the node's process",
		lasts: [2]time.Duration{50 * time.Millisecond, 3 * time.Second}},
	// its sessions notice meanwhile
	{name: "kill-postgres", what: "SIGKILL to its PostgreSQL",
		lasts: [2]time.Duration{200 * time.Millisecond, 200 * time.Millisecond}},
	{name: "kill-both", what: "SIGKILL to the node and its PostgreSQL",
		lasts: [2]time.Duration{50 * time.Millisecond, 3 * time.Second}},
	{name: "kill-all", what: "SIGKILL to every node and every PostgreSQL", lasts: [2]time.Duration{0, time.Second}},
	{name: "restart", what: "SIGTERM, and start again", lasts: [2]time.Duration{50 * time.Millisecond, time.Second}},
	{name: "freeze", what: "SIGSTOP to the node's process, SIGCONT later",
		lasts: [2]time.Duration{200 * time.Millisecond, 5 * time.Second}},
	{name: "partition", what: "a minority is cut off from the others",
		lasts: [2]time.Duration{300 * time.Millisecond, 6 * time.Second}},
	{name: "oneway", what: "frames are lost in one direction",
		lasts: [2]time.Duration{300 * time.Millisecond, 5 * time.Second}},
	{name: "link", what: "one link between two nodes is cut",
		lasts: [2]time.Duration{300 * time.Millisecond, 5 * time.Second}},
	{name: "flap", what: "a node is cut off, and is not, and is", lasts: [2]time.Duration{time.Second, 5 * time.Second},
		size: [2]int{30, 700}},
	{name: "delay", what: "all frames from and to a node are late",
		lasts: [2]time.Duration{time.Second, 5 * time.Second}, size: [2]int{10, 60}},
	{name: "slow-fsync", what: "each sync of its log takes longer",
		lasts: [2]time.Duration{time.Second, 5 * time.Second}, size: [2]int{5, 100}},
	{name: "fsync-error", what: "a sync of its log fails",
		lasts: [2]time.Duration{200 * time.Millisecond, 2 * time.Second}},
	{name: "disk-full", what: "no space left for a node's files",
		lasts: [2]time.Duration{2 * time.Second, 8 * time.Second}, needs: needsRoot},
	{name: "lose-disk", what: "SIGKILL to the node and its PostgreSQL, and its files are gone",
		lasts: [2]time.Duration{50 * time.Millisecond, time.Second}},
	{name: "unplug", what: "the cable of a node's network is pulled",
		lasts: [2]time.Duration{300 * time.Millisecond, 6 * time.Second}, needs: needsNetns},
	{name: kindJoin, what: "a new node joins as a member; others are disturbed meanwhile, or it is",
		lasts: [2]time.Duration{200 * time.Millisecond, 4 * time.Second}},
	{name: kindRemove, what: "a member is removed, also one that is down or cut off, and its node ends for ever",
		lasts: [2]time.Duration{0, 3 * time.Second}},
	{name: none, what: "nothing happens; only when named, to see what the machine does by itself",
		lasts: [2]time.Duration{time.Second, 5 * time.Second}, needs: needsAsking},
}

// besideMillisMax is how long after a node that joins has come to a stage something else may be made.
const besideMillisMax = 2000

// joinStages are what a node comes to that joins, and what its log says then. Other members are hit before the first
// one, so that they cannot add it.
var joinStages = []struct{ what, says string }{
	{"it has started", ""},
	{"it begins to copy", "takes a copy of another one's database"},
	{"it has its copy", "has a copy of another member's database"},
	{"it has made its log", "made the log"},
}

const (
	none       = "none" // the kind for comparison
	kindJoin   = "join"
	kindRemove = "remove"
)

// Kinds that are made beside a change of the members: at who joins, at another member meanwhile, and at who is removed,
// before.
var (
	besideJoiner = []string{"kill-both", "restart", "freeze", "partition", "lose-disk"}
	besideJoin   = []string{"kill-both", "kill-postgres", "restart", "freeze", "partition"}
	besideRemove = []string{"kill-both", "partition"}
)

func kindNames() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// possible says why this kind cannot be made here.
func (k kind) possible(o *Options) error {
	root := runtime.GOOS == "linux" && os.Geteuid() == 0
	switch {
	case k.needs == needsRoot && !root:
		return errors.New("needs root on Linux, to mount a small file system")
	case k.needs == needsNetns && !o.Netns:
		return errors.New("needs network namespaces (--netns)")
	}
	return nil
}

// Fault is one fault as it was drawn.
type Fault struct {
	Number int
	Kind   string
	Leader bool          // it hits the leader
	Count  int           // how many nodes it hits; always a minority, or all
	Order  []int         // in which members are taken, by their places in the list, beside the leader
	For    time.Duration // until it is healed
	Pause  time.Duration // from recovery to the next fault
	Millis int           // size of delays, period of flapping
	Inward bool          // oneway: what others send is lost
	// Beside is the kind of another fault that is made beside a join or a remove; empty: none.
	Beside string
	// Other: Beside is made at another member than the one that joins; who is to be removed asks another one for it.
	Other bool
	Stage int  // join: when Beside is made: so many milliseconds after this of joinStages
	Same  bool // join: under the name of who was removed last
}

func (f Fault) String() string {
	who := "follower"
	if f.Leader {
		who = "leader"
	}
	s := fmt.Sprintf("%s %s", f.Kind, who)
	switch {
	case f.Kind == kindJoin:
		return f.joins(who)
	case f.Kind == kindRemove:
		return f.removes(s)
	case f.Kind == "kill-all", f.Kind == none:
		s = f.Kind
	case f.Count > 1:
		s += fmt.Sprintf(" and %d more", f.Count-1)
	}
	if f.Kind == "oneway" {
		s += map[bool]string{true: " hears nothing", false: " is not heard"}[f.Inward]
	}
	if f.Millis > 0 {
		s += fmt.Sprintf(" %d ms", f.Millis)
	}
	return s
}

func (f Fault) joins(who string) string {
	s := f.Kind
	if f.Same {
		s += " under the name of who was removed last"
	}
	switch {
	case f.Beside == "":
		return s
	case !f.Other:
		who = "who joins"
	case f.Stage == 0:
		return s + fmt.Sprintf(" just after %s %s", f.Beside, who)
	}
	return s + fmt.Sprintf(", and %s %s %d ms after %s", f.Beside, who, f.Millis, joinStages[f.Stage].what)
}

func (f Fault) removes(s string) string {
	switch {
	case f.Beside != "":
		s += " after " + f.Beside
	case !f.Other:
		s += " by itself"
	}
	return s
}

// what is the kind of a fault, for tables.
func (f Fault) what() string {
	if f.Beside != "" {
		return f.Kind + " + " + f.Beside
	}
	return f.Kind
}

// schedule draws faults. Kinds come in shuffled rounds, so that each is made as often as the
// others. Members join and are removed so that there are as many as nodes, or one more or less.
type schedule struct {
	rng     *rand.Rand
	nodes   int
	seats   int // members that there may be
	members int // that there are, if all that was drawn was made
	joined  int
	fewer   int // faults since there are fewer members than nodes
	from    []kind
	bag     []kind
	drawn   int
}

func newSchedule(o *Options) *schedule {
	s := &schedule{rng: rand.New(rand.NewPCG(o.Seed, 0)), nodes: o.Nodes, seats: o.places(), members: o.Nodes}
	for _, k := range kinds {
		for _, name := range o.Faults {
			if k.name == name {
				s.from = append(s.from, k)
			}
		}
	}
	return s
}

func (s *schedule) next() Fault {
	if len(s.bag) == 0 {
		s.bag = append(s.bag, s.from...)
		s.rng.Shuffle(len(s.bag), func(i, j int) { s.bag[i], s.bag[j] = s.bag[j], s.bag[i] })
	}
	s.fillUp()
	k := s.bag[0]
	s.bag = s.bag[1:]
	s.drawn++
	f := Fault{
		Number: s.drawn, Kind: k.name, Leader: s.rng.IntN(2) == 0, Count: 1 + s.rng.IntN((s.nodes-1)/2),
		For: s.between(k.lasts), Pause: s.between([2]time.Duration{500 * time.Millisecond, 3 * time.Second}),
		Inward: s.rng.IntN(2) == 0,
	}
	for _, n := range s.rng.Perm(s.seats) {
		f.Order = append(f.Order, n+1)
	}
	if k.size[1] > 0 {
		f.Millis = k.size[0] + s.rng.IntN(k.size[1]-k.size[0]+1)
	}
	switch k.name {
	case "kill-all":
		f.Leader, f.Count = true, s.seats
	case none:
		f.Leader, f.Count = false, 0
	case "link", "disk-full", "lose-disk":
		f.Count = 1
	case kindJoin, kindRemove:
		s.change(&f)
	}
	return f
}

// fewerMax is how many faults are made while there are fewer members than nodes, if another one can join then.
const fewerMax = 2

// fillUp has a node join soon after one was removed: with fewer members there are faults that none of them survives.
func (s *schedule) fillUp() {
	if s.members >= s.nodes {
		s.fewer = 0
		return
	}
	if s.fewer++; s.fewer <= fewerMax {
		return
	}
	i := slices.IndexFunc(s.bag, func(k kind) bool { return k.name == kindJoin || k.name == kindRemove })
	if i > 0 {
		s.bag[0], s.bag[i] = s.bag[i], s.bag[0]
	}
}

// change draws how a member joins or is removed. It is the other of both if there were too many members otherwise, or
// too few, and nothing when all numbers have been used.
func (s *schedule) change(f *Fault) {
	switch {
	case s.members > s.nodes:
		f.Kind = kindRemove
	case s.members < s.nodes:
		f.Kind = kindJoin
	}
	f.Count, f.Other, f.Same = 1, s.rng.IntN(4) > 0, s.rng.IntN(2) == 0
	beside := besideRemove
	switch {
	case f.Kind == kindJoin && s.nodes+s.joined == sequenceStep:
		f.Kind, f.Count = none, 0
		return
	case f.Kind == kindRemove:
		s.members--
		f.Same = false
	default:
		s.members++
		s.joined++
		f.Stage, f.Millis = s.rng.IntN(len(joinStages)), s.rng.IntN(besideMillisMax)
		if f.Other = s.rng.IntN(2) == 0; f.Other {
			beside = besideJoin
		} else {
			beside = besideJoiner
		}
	}
	if i := s.rng.IntN(2 * len(beside)); i < len(beside) {
		f.Beside = beside[i]
	}
}

func (s *schedule) between(d [2]time.Duration) time.Duration {
	return d[0] + time.Duration(s.rng.Int64N(int64(d[1]-d[0])+1)).Round(time.Millisecond)
}

// victims are the members a fault is made at, of those that there are.
func (f Fault) victims(leader int, members []int) []int {
	var v []int
	if f.Leader && leader > 0 {
		v = append(v, leader)
	}
	for _, k := range f.order(members) {
		if len(v) < f.Count && k != leader {
			v = append(v, k)
		}
	}
	return v
}

// order are the members in the order in which they are taken.
func (f Fault) order(members []int) (list []int) {
	for _, place := range f.Order {
		if place <= len(members) {
			list = append(list, members[place-1])
		}
	}
	return list
}

// KindsText lists the kinds of faults, for a command's help.
func KindsText() string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %-14s %s\n", k.name, k.what)
	}
	return b.String()
}
