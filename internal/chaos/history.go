package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/check"
)

// Names of the workloads, as they stand in a history.
const (
	wTransfer = "transfer"
	wSum      = "sum"
	wList     = "list"
	wClaim    = "claim"
	wParent   = "parent"
	wChild    = "child"
	wDelete   = "delete"

	wLarge       = "large"
	wLargeUpdate = "large update"
	wLargeDelete = "large delete"
	wSteps       = "steps"
	wTally       = "tally"
	wHit         = "hit"
	wDraw        = "draw"
)

// Tx is one transaction as its client saw it.
type Tx struct {
	Workload string        `json:"w"`
	Node     int           `json:"n"`
	Session  int           `json:"s"`   // a new one after each unknown outcome and each reconnect
	Tag      int64         `json:"tag"` // unique in the history
	Level    check.Level   `json:"lvl"`
	Start    int64         `json:"b"` // nanoseconds since the run began
	End      int64         `json:"e"`
	Outcome  check.Outcome `json:"o"`
	Code     string        `json:"code,omitempty"` // SQLSTATE of the error, "broken" without one
	// claim: the key; draw: the row; child and delete: the parent; changes of large ones: its tag
	Key int64 `json:"k,omitempty"`
	// Values: transfer from, to, amount; sum the sum; parent the two numbers handed out; large the number
	// of rows, its changes how many they have changed, and of how many; steps how many, and how many a notice has told;
	// tally the number taken; hit the row, and what was added to it, and 1 if to its twin, too; draw the number drawn.
	Values []int64        `json:"v,omitempty"`
	Ops    []check.ListOp `json:"ops,omitempty"`
	// Refused says that the database answered with a reason why there is no row: the key is
	// taken, or the parent has children.
	Refused bool `json:"r,omitempty"`
}

// State is what one node holds in the end.
type State struct {
	Node     int           `json:"node"`
	Accounts map[int]int64 `json:"accounts"`
	// Transfers are tag, from, to, amount; Claims tag, key; Parents tag, id, serial;
	// Children tag, parent.
	Transfers [][]int64      `json:"transfers"`
	Claims    [][]int64      `json:"claims"`
	Parents   [][]int64      `json:"parents"`
	Children  [][]int64      `json:"children"`
	Lists     []check.ListOp `json:"lists"`
	// Large are tag, number of rows, least and greatest version; Steps tag, number of steps, the last one;
	// Stepped how many steps were counted, in all.
	Large   [][]int64 `json:"large"`
	Steps   [][]int64 `json:"steps"`
	Stepped [][]int64 `json:"stepped"`
	Tallies [][]int64 `json:"tallies"` // tag, number
	Hits    [][]int64 `json:"hits"`    // row, number, the last tag
	Slots   [][]int64 `json:"slots"`   // row, the last tag
	Drawn   [][]int64 `json:"drawn"`   // row, number
	Draws   [][]int64 `json:"draws"`   // tag, row, number
}

// Change says that a node became a member of the cluster, or is none any more.
type Change struct {
	Node    int   `json:"node"`
	At      int64 `json:"at"`
	Removed bool  `json:"removed,omitempty"`
}

// History is everything the judge needs (K3).
type History struct {
	Txs     []Tx
	Changes []Change // those it began with included
	States  []State
}

// line is one line of a history file: one of these.
type line struct {
	Tx     *Tx     `json:"tx,omitempty"`
	Change *Change `json:"change,omitempty"`
	State  *State  `json:"state,omitempty"`
}

// ReadHistory reads a history file.
func ReadHistory(r io.Reader) (*History, error) {
	h := &History{}
	d := json.NewDecoder(bufio.NewReaderSize(r, 1<<20))
	for n := 1; ; n++ {
		var l line
		err := d.Decode(&l)
		switch {
		case err == io.EOF:
			return h, nil
		case err != nil:
			return nil, fmt.Errorf("history, entry %d: %w", n, err)
		case l.Tx != nil:
			h.Txs = append(h.Txs, *l.Tx)
		case l.Change != nil:
			h.Changes = append(h.Changes, *l.Change)
		case l.State != nil:
			h.States = append(h.States, *l.State)
		}
	}
}

// recorder takes what the clients saw, in memory and in a file.
type recorder struct {
	began time.Time
	tags  atomic.Int64
	named atomic.Int64 // sessions

	mu      sync.Mutex
	file    *os.File
	out     *bufio.Writer
	err     error // of writing
	history History
	odd     []string        // answers that may not be given
	counts  map[string]int  // answers by code
	commits map[int][]int64 // by node: when a commit was acknowledged
	begun   map[int]int64   // by node: when the newest acknowledged transaction began
}

func newRecorder(path string, began time.Time) (*recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &recorder{began: began, file: f, out: bufio.NewWriterSize(f, 1<<20), counts: map[string]int{},
		commits: map[int][]int64{}, begun: map[int]int64{}}, nil
}

// now is the time for the history.
func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

// at gives a moment as the history does.
func (r *recorder) at(t time.Time) int64 { return int64(t.Sub(r.began)) }

// add takes a finished transaction. odd, if not empty, is an answer that should not have been
// given.
func (r *recorder) add(t *Tx, odd string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Txs = append(r.history.Txs, *t)
	r.write(line{Tx: t})
	if odd != "" {
		r.odd = append(r.odd, odd)
	}
	switch {
	case t.Code != "":
		r.counts[t.Code]++
	case t.Outcome == check.OK:
		r.counts["ok"]++
	}
	if t.Outcome != check.OK || t.Workload == wSum || t.readOnly() {
		return
	}
	r.commits[t.Node] = append(r.commits[t.Node], t.End)
	r.begun[t.Node] = max(r.begun[t.Node], t.Start)
}

// note counts an answer outside a transaction.
func (r *recorder) note(code, odd string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[code]++
	if odd != "" {
		r.odd = append(r.odd, odd)
	}
}

// readOnly reports whether a transaction of lists appended nothing.
func (t *Tx) readOnly() bool {
	for _, op := range t.Ops {
		if op.Append != 0 {
			return false
		}
	}
	return t.Workload == wList
}

// committedSince reports whether a commit was acknowledged at node k whose transaction began
// after a moment.
func (r *recorder) committedSince(k int, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun[k] > r.at(since)
}

func (r *recorder) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts["ok"]
}

func (r *recorder) write(l line) {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = r.out.Write(append(b, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// change notes that a node has become a member, or is none any more.
func (r *recorder) change(k int, removed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := Change{Node: k, At: r.now(), Removed: removed}
	r.history.Changes = append(r.history.Changes, c)
	r.write(line{Change: &c})
}

// state adds what a node holds in the end.
func (r *recorder) state(s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.States = append(r.history.States, s)
	r.write(line{State: &s})
}

func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.out.Flush(); r.err == nil {
		r.err = err
	}
	if err := r.file.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}
