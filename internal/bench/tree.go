package bench

import (
	"strings"
	"time"
)

// helpers are PostgreSQL's processes that serve no client, by their titles.
var helpers = []string{
	"checkpointer", "background writer", "walwriter", "autovacuum launcher", "autovacuum worker",
	"logical replication launcher",
	"archiver", "startup", "io worker", "walsummarizer", "slotsync worker", "walsender", "walreceiver",
}

// isHelper judges a process title, which for backends begins with user and database.
func isHelper(title string) bool {
	rest, ok := strings.CutPrefix(title, "postgres: ")
	if !ok {
		return false
	}
	for _, h := range helpers {
		if strings.HasPrefix(rest+" ", h+" ") {
			return true
		}
	}
	return false
}

// tree follows the CPU of one PostgreSQL server: a postmaster and its children. Not safe for
// concurrent use.
type tree struct {
	postmaster int
	titled     map[int]bool          // pid → whether it is a helper, once its title says
	helpers    map[int]time.Duration // pid → its time when last seen
}

func newTree(postmaster int) *tree {
	return &tree{postmaster: postmaster, titled: map[int]bool{}, helpers: map[int]time.Duration{}}
}

// treeTimes is what a server has used so far.
type treeTimes struct {
	total   time.Duration         // all of it, processes that ended included
	helpers time.Duration         // of that: no client's
	of      map[int]time.Duration // single live processes
}

const treeReadTries = 5

// read takes the times now. A child that ends between the two readings would be missed or
// counted twice, so it reads again when the postmaster has reaped meanwhile.
func (t *tree) read() (out treeTimes, err error) {
	for range treeReadTries {
		before, err := readTimes(t.postmaster)
		if err != nil {
			return treeTimes{}, err
		}
		pids, err := children(t.postmaster)
		if err != nil {
			return treeTimes{}, err
		}
		out = treeTimes{total: before.own + before.reaped, of: map[int]time.Duration{}}
		for _, pid := range pids {
			if c, err := readTimes(pid); err == nil { // else it has just been reaped
				out.of[pid] = c.own
				out.total += c.own
				t.note(pid, c.own)
			}
		}
		after, err := readTimes(t.postmaster)
		if err != nil {
			return treeTimes{}, err
		}
		if after.reaped == before.reaped {
			break
		}
	}
	self, err := readTimes(t.postmaster)
	out.helpers = self.own
	for _, d := range t.helpers {
		out.helpers += d
	}
	return out, err
}

// note remembers a helper's time, because a worker that ends takes its title with it.
func (t *tree) note(pid int, own time.Duration) {
	is, known := t.titled[pid]
	if !known {
		s := title(pid)
		if !strings.HasPrefix(s, "postgres: ") {
			return // just forked, it has no title yet
		}
		is = isHelper(s)
		t.titled[pid] = is
	}
	if is {
		t.helpers[pid] = max(own, t.helpers[pid])
	}
}
