package sim

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/replica"
)

// listenBugs are those that are about who listens to what.
var listenBugs = []string{"listeners-not-told-again", "last-listener-is-all", "listeners-forgotten"}

// listening is a life's part in channels: production's listen set, and the sessions of the member that listen.
type listening struct {
	m        *member
	on       bool
	rnd      *random
	sets     replica.Listening
	sessions [2][]string // what each listens to
	begun    bool
	under    uint64 // the sequence of the announcement under way; zero: none
	notified uint64 // notifications submitted
}

var channelNames = []string{"a", "b", "c"}

// beginListening begins a life's: it knows what the database has kept.
func beginListening(m *member) listening {
	w := m.w
	x := listening{m: m, sets: replica.NewListening(m.id)}
	x.rnd = newRandom(mix(w.seed^0x115) ^ uint64(m.id)<<32 ^ m.incarnation)
	x.on = w.swarm.notifyPerMille > 0 && (w.o.Planted == "" || slices.Contains(listenBugs, w.o.Planted))
	for _, k := range m.db.listens {
		if w.o.Planted != "listeners-forgotten" {
			x.sets.Change(k.member, k.add, k.remove)
		}
	}
	return x
}

// announcement is what a member tells the order of its channels.
type announcement struct {
	member      uint32
	add, remove []string
}

func (a *announcement) payload() []byte {
	return []byte(strings.Join(a.add, ",") + ";" + strings.Join(a.remove, ","))
}

// announced is the inverse of payload.
func announced(it engine.Item) announcement {
	add, remove, _ := bytes.Cut(it.Payload, []byte(";"))
	split := func(b []byte) []string {
		return strings.FieldsFunc(string(b), func(r rune) bool { return r == ',' })
	}
	return announcement{it.ID.Member, split(add), split(remove)}
}

// announcements are those among tasks.
func announcements(tasks []engine.Task) (all []announcement) {
	for _, t := range tasks {
		if t.Item.Kind == engine.KindListen {
			all = append(all, announced(t.Item))
		}
	}
	return all
}

// begin is called when the order is applied up to the life's fence.
func (x *listening) begin(ordinal uint64) {
	if x.on {
		x.begun = true
		x.sets.Begin(ordinal)
		x.changes()
		x.announce()
	}
}

// changes has a session listen to something else, again and again, until all is to become quiet.
func (x *listening) changes() {
	w := x.m.w
	if w.phase != phaseQuiet {
		i, now := x.rnd.intn(len(x.sessions)), []string(nil)
		for _, c := range channelNames {
			if x.rnd.chance(400) {
				now = append(now, c)
			}
		}
		x.sets.Replace(x.sessions[i], now)
		x.sessions[i] = now
		x.announce()
	}
	w.after(x.rnd.between(2000, 200_000), x.m.in(x.changes))
}

// announce tells the order what this member's sessions listen to, one announcement at a time.
func (x *listening) announce() {
	if !x.begun || x.under != 0 {
		return
	}
	a := announcement{}
	if a.add, a.remove = x.sets.Difference(); len(a.add)+len(a.remove) == 0 {
		return
	}
	m := x.m
	m.seq++
	x.under = m.seq
	m.tenancy.outbox = append(m.tenancy.outbox, engine.Submission{Kind: engine.KindListen, Seq: m.seq,
		Payload: a.payload()})
	if len(m.tenancy.outbox) == 1 {
		m.sendLocks()
	}
}

// carryOut carries out announcements that are in the database now.
func (x *listening) carryOut(tasks []engine.Task) {
	for _, t := range tasks {
		if t.Item.Kind != engine.KindListen {
			continue
		}
		a := announced(t.Item)
		x.sets.Change(a.member, a.add, a.remove)
		if t.Own && t.Item.ID.Incarnation == x.m.incarnation && t.Item.ID.Seq == x.under {
			x.m.w.stats.Waits.Announced++
			x.sets.Carried(t.Ordinal, a.add)
			x.under = 0
			x.announce()
		}
	}
}

// passes reports whether a notification is to be told to other members, and checks that: it is if a session of another
// member listens whose LISTEN is applied here (S7).
func (x *listening) passes(channel string) bool {
	passed := x.sets.Passed(channel)
	for _, o := range x.m.w.members {
		if o == x.m || !o.up || !o.listens.begun || !o.listens.sets.Heard(channel) {
			continue
		}
		since := o.listens.sets.Since([]string{channel})
		if since > 0 && since <= x.m.engine.Applied() && !passed {
			x.m.w.violation("%v: does not pass on what is notified on %s, to which %v listens since %d",
				x.m, channel, o, since)
		}
	}
	return passed
}

// quiet reports whether all members know the same of channels: what sessions listen to, and nothing else.
func (x *listening) quiet(list []*member) bool {
	if !x.on || len(list) < len(x.m.w.members) {
		return true
	}
	for _, c := range channelNames {
		others := slices.ContainsFunc(list, func(o *member) bool { return o != x.m && o.listens.sets.Heard(c) })
		if x.sets.Passed(c) != others {
			return false
		}
	}
	return true
}
