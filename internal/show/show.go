package show

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Replica is a replica as it is shown.
type Replica struct {
	Node    *metrics.Registry // with all of its databases
	Metrics *metrics.Database
	Members func() []config.Member // but for witnesses
	Name    func(member uint32) string
	// Witnesses are the members without a database.
	Witnesses func() []config.Member
	Hears     func(member uint32) bool // there is a connection
	Leader    func() uint32
	Voters    func() []uint32 // on the order
	Ordinal   func() uint64
	Applied   func() uint64
	Peer      func(member uint32) (s peers.Status, alive bool)
	Copies    func(member uint32) (from uint32) // whose database a member copies now; zero: nobody's
	Slow      func() map[uint32]time.Time       // who is far too slow, since when
	Settings  func() *config.Limits
	Levels    func() Levels
	Votes     func() []Votes
	// Databases are those of this member.
	Databases func() []Database
	// Parts show themselves, by the name after tutti.
	Parts map[string]Part
}

// Part is what a part of a replica shows of itself.
type Part struct {
	Columns []string
	Show    func() session.Result
}

// Database is a database at this member.
type Database struct {
	Name   string
	Number uint64
	Status peers.Status
}

var columns = map[string][]string{
	"status": {"member", "address", "role", "state", "ordinal", "applied", "lag", "throttle_ms", "because_of", "reason",
		"differs", "version"},
	"members":   {"number", "member", "address", "clients", "role", "rank", "site", "slow"},
	"databases": {"database", "number", "state", "leader", "ordinal", "applied", "sessions"},
	"votes": {"database", "number", "member", "votes", "there", "expel_after", "min_copies", "role", "rank",
		"slow"},
	"counters": {"name", "value"},
	"metrics":  {"name", "labels", "value", "help"},
	"waits":    {"wait", "who", "for", "most", "then", "waiting", "waits", "seconds"},
	"limits":   {"limit", "max", "now", "reached"},
}

// ShowColumns names the columns of Show's answer.
func (r *Replica) ShowColumns(name string) []string {
	if p, ok := r.Parts[name]; ok {
		return p.Columns
	}
	if c, ok := columns[name]; ok {
		return c
	}
	return []string{"tutti." + name}
}

// Show answers SHOW tutti.*.
func (r *Replica) Show(name string) session.Result {
	if p, ok := r.Parts[name]; ok {
		return p.Show()
	}
	out := session.Result{Tag: "SHOW", Columns: r.ShowColumns(name)}
	switch name {
	case "status":
		out.Rows = r.status()
	case "members":
		for _, m := range r.everybody() {
			out.Rows = append(out.Rows, []string{strconv.FormatUint(uint64(m.Member), 10), m.Name, m.Address, m.Clients,
				role(m), strconv.Itoa(m.Rank), m.Site, r.slowIn(m.Member)})
		}
	case "databases":
		out.Rows = r.databases()
	case "votes":
		out.Rows = r.votes()
	case "counters":
		out.Rows = r.counters()
	case "metrics":
		out.Rows = r.metrics()
	case "waits":
		out.Rows = r.waits()
	case "limits":
		out.Rows = limits(r.Settings(), r.Metrics, r.Levels())
	case "applied":
		out.Rows = [][]string{{fmt.Sprint(r.Applied())}}
	default:
		return session.Result{Err: wire.Errorf("42704", "unrecognized configuration parameter \"tutti.%s\"", name).
			WithHint("Known are tutti.status, tutti.members, tutti.databases, tutti.votes, " +
				"tutti.checksums, tutti.counters, tutti.metrics, tutti.waits, tutti.limits, tutti.locks, " +
				"tutti.plans, tutti.upgrade and tutti.applied.")}
	}
	return out
}

// everybody are the members and the witnesses.
func (r *Replica) everybody() []config.Member { return slices.Concat(r.Members(), r.Witnesses()) }

// role is what the order has made of a member.
func role(m config.Member) string {
	if m.Role == config.Voter {
		return "voter"
	}
	return string(m.Role)
}

// status has one row per member.
func (r *Replica) status() (rows [][]string) {
	leader, voters, known, differs, slow := r.Leader(), r.Voters(), r.Ordinal(), r.differs(), r.Slow()
	for _, m := range r.Members() {
		s, alive := r.Peer(m.Member)
		role := "follower"
		switch {
		case m.Member == leader:
			role = "leader"
		case len(voters) > 0 && !slices.Contains(voters, m.Member):
			role = "learner"
		}
		if from := r.Copies(m.Member); from != 0 || !alive {
			state, why := "unreachable", ""
			if from != 0 {
				state, why = "copying", "the database of "+r.Name(from)
			}
			rows = append(rows, []string{m.Name, m.Clients, role, state, "", "", "", "", "", why,
				differs[m.Member], ""})
			continue
		}
		because, why := "", slowSince(slow, m.Member)
		if s.Because != 0 {
			because = r.Name(s.Because)
		}
		if s.Halted != nil {
			why = s.Halted.Text()
		}
		rows = append(rows, []string{m.Name, m.Clients, role, string(s.State), strconv.FormatUint(s.Ordinal, 10),
			strconv.FormatUint(s.Applied, 10), fmt.Sprint(known - min(known, s.Applied)),
			admission.Millis(s.DelayMicros), because, why, differs[m.Member], s.Version})
	}
	for _, m := range r.Witnesses() {
		rows = append(rows, r.witness(m))
	}
	return rows
}

// witness is the row of a member without a database.
func (r *Replica) witness(m config.Member) []string {
	state := "unreachable"
	if r.Hears(m.Member) {
		state = "connected"
	}
	return []string{m.Name, "", "witness", state, "", "", "", "", "", "", "", ""}
}

// differs says of each member in which tables some member has found that it differs.
func (r *Replica) differs() map[uint32]string {
	out := map[uint32]string{}
	for _, m := range r.Members() {
		s, alive := r.Peer(m.Member)
		if !alive {
			continue
		}
		for _, d := range s.Differs {
			for _, to := range d.Members {
				if out[to] != "" {
					out[to] += ", "
				}
				out[to] += fmt.Sprintf("%s at ordinal %d", d.Table, d.Ordinal)
			}
		}
	}
	return out
}

// databases is what this member knows of each.
func (r *Replica) databases() (rows [][]string) {
	for _, d := range r.Databases() {
		leader := ""
		if d.Status.Leader != 0 {
			leader = r.Name(d.Status.Leader)
		}
		rows = append(rows, []string{d.Name, strconv.FormatUint(d.Number, 10), string(d.Status.State), leader,
			strconv.FormatUint(d.Status.Ordinal, 10), strconv.FormatUint(d.Status.Applied, 10),
			strconv.Itoa(d.Status.Clients)})
	}
	return rows
}

// counters are the metrics that have a short name, of this database and of the process.
func (r *Replica) counters() (rows [][]string) {
	r.Node.ReadOne(r.Metrics, func(s metrics.Sample) {
		if s.Show != "" {
			rows = append(rows, []string{s.Show, s.Shown()})
		}
	})
	return rows
}

// metrics is all that this node knows of itself.
func (r *Replica) metrics() (rows [][]string) {
	r.Node.Read(func(s metrics.Sample) {
		for _, x := range s.Plain() {
			rows = append(rows, []string{x.Name, x.LabelText(), x.Text(), s.Help})
		}
	})
	return rows
}

// waits is who waits for what at this member, and for how long at most.
func (r *Replica) waits() (rows [][]string) {
	w := &r.Metrics.Waits
	for i, row := range flow.Waits {
		times := w.Times.Of(flow.Wait(i))
		rows = append(rows, []string{row.Name, row.Who, row.For, most(flow.Wait(i)), row.Then,
			strconv.FormatInt(w.Waiting.Load(flow.Wait(i)), 10), strconv.FormatUint(times.Count(), 10),
			strconv.FormatFloat(times.Sum().Seconds(), 'f', 6, 64)})
	}
	return rows
}

// most is how long a wait takes at most, with the setting that has a part in it.
func most(w flow.Wait) string {
	var parts []string
	if flow.Waits[w].MostMs > 0 {
		parts = append(parts, metrics.Most(w).String())
	}
	if s := flow.Waits[w].Setting; s != "" {
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}
