package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/cockroachdb/datadriven"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestTranscripts plays the files in testdata: each teaches one thing about the engine.
// `go test -rewrite` writes down what happens now; read the difference before committing.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		cryptotest.SetGlobalRandom(t, 1) // raft's election timeouts
		c := &cluster{t: t}
		datadriven.RunTest(t, path, c.command)
	})
}

// cluster is a few engines with perfect disks and a network that obeys.
type cluster struct {
	t      *testing.T
	nodes  []*node
	out    strings.Builder
	names  map[uint64]string // of keys
	double bool              // every frame arrives twice
}

type node struct {
	id       uint32
	e        *Engine // nil while crashed
	o        Options
	store    *raft.MemoryStorage
	inbox    []frame
	cut      []uint32 // frames to these are lost
	groups   int
	collects uint64
}

type frame struct {
	from uint32
	data []byte
}

func (c *cluster) command(t *testing.T, d *datadriven.TestData) string {
	c.t = t
	c.out.Reset()
	switch d.Cmd {
	case "cluster":
		c.create(d)
	case "elect":
		c.elect(c.node(d))
	case "submit", "statement", "fence", "check", "notify", "channels", "serial", "shun":
		c.submit(d)
	case "withdraw":
		c.say("%v", c.node(d).e.Withdraw(c.seq(d)))
	case "pace":
		var front int
		d.ScanArgs(t, "front", &front)
		c.node(d).e.Pace(c.seq(d), front)
	case "orphan":
		c.node(d).e.Orphan(c.seq(d))
	case "unblock":
		way, task := c.node(d).e.Unblock(c.seq(d), !d.HasArg("closed"))
		c.say("%s %s", []string{"stays", "is withdrawn", "is foretold", "joins", "ends"}[way], c.task(task))
	case "run":
		c.run()
	case "tick":
		var n int
		d.ScanArgs(t, "n", &n)
		c.tick(n)
	case "done":
		c.done(d)
	case "cut", "heal":
		c.cut(d)
	case "double":
		c.double = !d.HasArg("off")
	case "crash":
		n := c.node(d)
		n.e, n.inbox = nil, nil
	case "restart":
		c.restart(d)
	case "status":
		c.status()
	case "shuns":
		c.say("%v", c.node(d).e.Shuns(&writeset.Writeset{Tables: []writeset.Table{{Key: c.hash("t")}}}))
	case "behind":
		n := c.node(d)
		c.say("%d entries, full %v", n.e.Behind(), n.e.queue.full())
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	if c.out.Len() == 0 {
		return "ok"
	}
	return c.out.String()
}

func (c *cluster) say(format string, args ...any) {
	c.out.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

func (c *cluster) node(d *datadriven.TestData) *node {
	var id int
	d.ScanArgs(c.t, "member", &id)
	return c.nodes[id-1]
}

func (c *cluster) seq(d *datadriven.TestData) (seq uint64) {
	d.ScanArgs(c.t, "seq", &seq)
	return seq
}

func (c *cluster) create(d *datadriven.TestData) {
	n := 3
	d.MaybeScanArgs(c.t, "members", &n)
	c.names = map[uint64]string{}
	var voters []uint64
	for i := range n {
		voters = append(voters, uint64(i+1))
	}
	for i := range n {
		s := raft.NewMemoryStorage()
		if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: &pb.ConfState{Voters: voters},
			Index: new(uint64), Term: new(uint64)}}); err != nil {
			c.t.Fatal(err)
		}
		nd := &node{id: uint32(i + 1), store: s, o: Options{Member: uint32(i + 1), Incarnation: 1,
			Order: ordering.Options{Storage: s}}}
		d.MaybeScanArgs(c.t, "group-items", &nd.o.GroupItemsMax)
		d.MaybeScanArgs(c.t, "batch-items", &nd.o.BatchItemsMax)
		d.MaybeScanArgs(c.t, "batch-bytes", &nd.o.BatchBytesMax)
		d.MaybeScanArgs(c.t, "inflight", &nd.o.BatchesInflightMax)
		d.MaybeScanArgs(c.t, "pending", &nd.o.PendingMax)
		d.MaybeScanArgs(c.t, "queue-bytes", &nd.o.QueueBytesMax)
		c.nodes = append(c.nodes, nd)
		c.start(nd)
	}
}

func (c *cluster) start(n *node) {
	e, err := New(n.o)
	if err != nil {
		c.t.Fatal(err)
	}
	n.e = e
}

// elect ticks one member until it leads; the others only enough to forget a dead leader.
func (c *cluster) elect(n *node) {
	const electionTicks = 10
	for range electionTicks {
		for _, o := range c.nodes {
			if o.e != nil && o != n && o.e.View().Leader != 0 {
				o.e.Tick()
			}
		}
	}
	for range 10 * electionTicks {
		n.e.Tick()
		c.run()
		if n.e.View().Leader == n.id {
			return
		}
	}
	c.t.Fatalf("member %d does not become leader: %+v", n.id, n.e.View())
}

// hash names a key by its text.
func (c *cluster) hash(name string) uint64 {
	h := uint64(0)
	for _, b := range []byte(name) {
		h = h<<8 | uint64(b)
	}
	c.names[h] = name
	return h
}

var modes = map[string]writeset.Mode{"read": writeset.Read, "shared": writeset.Shared, "update": writeset.Update,
	"exclusive": writeset.Exclusive}

// keys makes a writeset of those that a command names.
func (c *cluster) keys(d *datadriven.TestData) *writeset.Writeset {
	ws := &writeset.Writeset{Tables: []writeset.Table{{Schema: "public", Name: "t"}}}
	for name, mode := range modes {
		var keys []string
		if a, ok := d.Arg(name); ok {
			keys = a.Vals
		}
		slices.Sort(keys)
		for _, k := range keys {
			ws.Keys = append(ws.Keys, writeset.Key{Hash: c.hash(k), Mode: mode})
		}
	}
	if a, ok := d.Arg("blind"); ok {
		ws.Tables[0].Format = writeset.FormatBinary
		ws.Tables[0].Key = c.hash("t")
		for _, k := range a.Vals {
			ws.Rows = append(ws.Rows, writeset.Row{Op: writeset.OpSet, Identity: c.hash(k),
				Image: writeset.AppendSet(nil, []writeset.Setting{{}}, nil)})
		}
		ws.Keys = append(ws.Keys, writeset.Key{Hash: ws.Tables[0].Key, Mode: writeset.Shared})
	}
	slices.SortFunc(ws.Keys, func(a, b writeset.Key) int { return int(a.Mode) - int(b.Mode) })
	return ws
}

func (c *cluster) submit(d *datadriven.TestData) {
	n := c.node(d)
	serial := d.HasArg("serializable") || d.HasArg("vouched")
	s := Submission{Kind: KindCertified, Seq: c.seq(d), Slot: 1, Base: n.e.Applied(), Snapshot: d.HasArg("snapshot") ||
		serial, Serial: serial, Vouched: d.HasArg("vouched")}
	d.MaybeScanArgs(c.t, "slot", &s.Slot)
	d.MaybeScanArgs(c.t, "base", &s.Base)
	switch d.Cmd {
	case "statement":
		ws := c.keys(d)
		ws.Barrier, ws.Steps = len(ws.Keys) == 0, []writeset.Step{{Definition: []byte(d.Input)}}
		s.Kind, s.Payload = KindStatement, ws.Append(nil)
	case "fence":
		s.Kind, s.Base = KindFence, 0
	case "check":
		s.Kind, s.Base = KindCheck, 0
	case "notify":
		s.Kind, s.Base, s.Payload = KindNotify, 0, []byte(d.Input)
	case "serial":
		s.Kind, s.Base, s.Payload = KindSerial, 0, []byte{map[bool]byte{true: 0, false: 1}[d.HasArg("off")]}
	case "shun":
		s.Kind, s.Base, s.Payload = KindShun, 0, ShunPayload([]writeset.Table{{Key: c.hash("t")}})
	case "channels":
		s.Kind, s.Base, s.Payload = KindListen, 0, []byte(d.Input)
	default:
		s.Writeset = c.keys(d)
		s.Payload = s.Writeset.Append(nil)
		n.collects++
		s.Held, s.Order = n.e.Applied(), n.collects
		d.MaybeScanArgs(c.t, "order", &s.Order)
		d.MaybeScanArgs(c.t, "front", &s.Front)
	}
	if !n.e.Submit(s) {
		c.say("refused")
	}
}

// run carries out everything there is to do, without time passing.
func (c *cluster) run() {
	for busy := true; busy; {
		busy = false
		for _, n := range c.nodes {
			if n.e == nil {
				continue
			}
			for len(n.inbox) > 0 {
				f := n.inbox[0]
				n.inbox = n.inbox[1:]
				if err := n.e.Step(f.from, f.data); err != nil {
					c.t.Fatal(err)
				}
			}
			for n.e.HasReady() && (n.e.order.HasReady() || len(n.e.own.aborted) > 0 || n.e.queue.running == nil) {
				busy = true
				c.ready(n)
			}
		}
	}
}

func (c *cluster) ready(n *node) {
	rd := n.e.Ready()
	c.send(n, rd.Early)
	if err := n.store.Append(rd.Entries); err != nil {
		c.t.Fatal(err)
	}
	if rd.HardState != nil {
		if err := n.store.SetHardState(rd.HardState); err != nil {
			c.t.Fatal(err)
		}
	}
	c.send(n, rd.Late)
	for _, a := range rd.Aborted {
		orphan := ""
		if a.Orphan {
			orphan = " (orphan)"
		}
		if a.Blind {
			orphan += " (to a blind one)"
		}
		c.say("%d: seq %d%s aborted: %s", n.id, a.Seq, orphan, c.verdict(a.Verdict))
	}
	if g := rd.Group; g != nil {
		c.say("%d: group %d to %d", n.id, g.First, g.Last)
		for _, t := range g.Tasks {
			c.say("     %s", c.task(t))
		}
	}
	n.e.Advance()
}

func (c *cluster) send(n *node, ms []ordering.Message) {
	for _, m := range ms {
		to := c.nodes[m.To-1]
		if to.e == nil || slices.Contains(n.cut, m.To) {
			continue
		}
		to.inbox = append(to.inbox, frame{n.id, m.Data})
		if c.double {
			to.inbox = append(to.inbox, frame{n.id, m.Data})
		}
	}
}

func (c *cluster) verdict(v certify.Verdict) string {
	switch v.Reason {
	case certify.KeyConflict:
		return fmt.Sprintf("%v at ordinal %d has key %s", v.Winner, v.WinnerOrdinal, c.names[v.Key.Hash])
	case certify.Barrier:
		return fmt.Sprintf("statement %v at ordinal %d", v.Winner, v.WinnerOrdinal)
	}
	return fmt.Sprintf("reason %d", v.Reason)
}

func (c *cluster) task(t Task) string {
	if t.Ordinal == 0 {
		return ""
	}
	what := map[Kind]string{KindStatement: "execute", KindFence: "fence", KindCheck: "check", KindNotify: "notify",
		KindListen: "channels"}[t.Item.Kind]
	switch {
	case t.Local:
		what = "commit"
	case t.Item.Kind == KindCertified && t.Mark:
		what = "apply and mark"
	case t.Item.Kind == KindCertified:
		what = "apply"
	}
	return fmt.Sprintf("ordinal %d: %v, %s", t.Ordinal, t.Item.ID, what)
}

func (c *cluster) tick(n int) {
	for range n {
		for _, nd := range c.nodes {
			if nd.e != nil {
				nd.e.Tick()
			}
		}
		c.run()
	}
}

func (c *cluster) done(d *datadriven.TestData) {
	for _, n := range c.nodes {
		if n.e != nil && n.e.queue.running != nil && (!d.HasArg("member") || c.node(d) == n) {
			n.e.GroupDone()
		}
	}
	c.run()
}

// cut loses everything between a member and all others, or mends it.
func (c *cluster) cut(d *datadriven.TestData) {
	for _, n := range c.nodes {
		n.cut = nil
	}
	if d.Cmd == "heal" {
		return
	}
	a, to := c.node(d), 0
	if d.MaybeScanArgs(c.t, "to", &to); to != 0 { // in that direction only
		a.cut = []uint32{uint32(to)}
		return
	}
	for _, n := range c.nodes {
		if n != a {
			a.cut, n.cut = append(a.cut, n.id), append(n.cut, a.id)
		}
	}
}

func (c *cluster) restart(d *datadriven.TestData) {
	n := c.node(d)
	n.o.Incarnation++
	n.o.Position = Position{Marks: map[uint32]Mark{}}
	d.MaybeScanArgs(c.t, "ordinal", &n.o.Position.Ordinal)
	d.MaybeScanArgs(c.t, "floor", &n.o.Position.Floor)
	d.MaybeScanArgs(c.t, "of", &n.o.Position.Member)
	if a, ok := d.Arg("marks"); ok { // slot:incarnation.seq
		for _, v := range a.Vals {
			var slot uint32
			var m Mark
			if _, err := fmt.Sscanf(v, "%d:%d.%d", &slot, &m.Incarnation, &m.Seq); err != nil {
				c.t.Fatal(err)
			}
			n.o.Position.Marks[slot] = m
		}
	}
	c.start(n)
	c.run()
}

func (c *cluster) status() {
	for _, n := range c.nodes {
		if n.e == nil {
			c.say("%d: down", n.id)
			continue
		}
		c.say("%d: ordinal %d, applied %d, backlog %d, waiting %d, pending %d, batches under way %d, holes %v",
			n.id, n.e.Ordinal(), n.e.Applied(), n.e.Figures().Backlog, len(n.e.own.waiting), len(n.e.own.pending),
			len(n.e.own.window.inflight), n.e.Holes())
	}
}
