package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func run1(load, server string, clients, round int, tps float64) Run {
	return Run{Load: load, Server: server, Clients: clients, Round: round, Transactions: int64(tps), TPS: tps,
		CPU:     &CPU{Database: tps / 10},
		Members: []Member{{Name: server, Sessions: 100}}}
}

// TestRatiosPairRounds: a machine that becomes slower changes both servers of a round, not
// their ratio.
func TestRatiosPairRounds(t *testing.T) {
	r := Report{Runs: []Run{
		run1("-S", plain, 8, 1, 1000), run1("-S", bouncer, 8, 1, 800), run1("-S", tutti, 8, 1, 600),
		run1("-S", plain, 8, 2, 100), run1("-S", bouncer, 8, 2, 80), run1("-S", tutti, 8, 2, 70),
		run1("-S", plain, 8, 3, 500), {Load: "-S", Server: bouncer, Clients: 8, Round: 3, Error: "gone"},
		run1("-S", tutti, 8, 3, 200),
	}}
	r.summarize()
	want := map[string]Spread{
		"tutti plain":     {Median: 0.6, Min: 0.4, Max: 0.7},
		"pgbouncer plain": {Median: 0.8, Min: 0.8, Max: 0.8},
		"tutti pgbouncer": {Median: 0.8125, Min: 0.75, Max: 0.875},
	}
	if len(r.Ratios) != len(want) {
		t.Errorf("%d ratios: %+v", len(r.Ratios), r.Ratios)
	}
	for _, x := range r.Ratios {
		w := want[x.Of+" "+x.To]
		if !near(x.Median, w.Median) || !near(x.Min, w.Min) || !near(x.Max, w.Max) {
			t.Errorf("%s to %s: %+v, want %+v", x.Of, x.To, x.Spread, w)
		}
	}
	if len(r.Medians) != 3 || r.Medians[0].TPS != 500 || r.Medians[1].TPS != 440 || r.Medians[2].CPU.Database != 20 {
		t.Errorf("medians %+v", r.Medians)
	}
	if r.Remote != nil {
		t.Error("the cost of remote transactions comes from nowhere")
	}
}

func TestRemote(t *testing.T) {
	three := func(origin, second, third float64) Run {
		r := run1(remoteLoad, tutti, 24, 1, 100)
		r.Members = []Member{{Sessions: origin, Applier: 1000}, {Applier: second, Middleware: 50},
			{Applier: third, Middleware: 70}}
		return r
	}
	r := Report{Runs: []Run{run1(remoteLoad, plain, 24, 1, 100), three(200, 30, 50)}}
	r.summarize()
	if x := r.Remote; x == nil || x.Clients != 24 || !near(x.Apply.Median, 40) || !near(x.Node.Median, 60) ||
		!near(x.ToPlain.Median, 0.4) || !near(x.ToOrigin.Median, 0.2) {
		t.Errorf("%+v", x)
	}
	r = Report{Runs: []Run{three(200, 30, 50)}} // --only tutti
	r.summarize()
	if x := r.Remote; x == nil || x.ToPlain != nil || !near(x.ToOrigin.Median, 0.2) {
		t.Errorf("%+v", x)
	}
	var out bytes.Buffer
	r.print(&out)
	if strings.Contains(out.String(), "at plain") {
		t.Errorf("a number that was not measured is shown:\n%s", out.String())
	}
	r = Report{Runs: []Run{three(0, 0, 0)}} // CPU below the clock's resolution
	r.summarize()
	if _, err := json.Marshal(r); err != nil || r.Remote != nil {
		t.Errorf("%+v (%v)", r.Remote, err)
	}
}

func TestFill(t *testing.T) {
	s := &server{databases: []*database{{name: "node1"}, {name: "node2"}}}
	ms := time.Millisecond
	before := []reading{
		{treeTimes: treeTimes{total: 10 * ms, helpers: ms}, applier: ms, counters: map[string]uint64{"fsyncs": 5}},
		{walSyncs: 10},
	}
	after := []reading{
		{treeTimes: treeTimes{total: 110 * ms, helpers: 11 * ms}, applier: 21 * ms, middleware: 30 * ms,
			counters: map[string]uint64{"fsyncs": 45, "local": 5, "aborted": 25}},
		{treeTimes: treeTimes{total: 100 * ms}, walSyncs: 30},
	}
	var r Run
	r.fill(outcome{transactions: 100, tps: 50, aborts: 25, cpu: 10 * ms, latencies: []bucket{{3, 100}}}, s, before,
		after, true)
	if *r.CPU != (CPU{Database: 2000, Applying: 200, Middleware: 300, Client: 100}) {
		t.Errorf("CPU %+v", *r.CPU)
	}
	if !near(r.Fsyncs, (0.4+0.2)/2) || !near(r.AbortShare, 0.2) || !near(r.LostShare, 0.2) ||
		!near(r.CPU.Applying, 200) || r.P95Ms != 3 {
		t.Errorf("%+v", r)
	}
	m := r.Members[0]
	if !near(m.Sessions, 700) || !near(m.Applier, 200) || !near(m.Helpers, 100) || !near(m.Middleware, 300) ||
		m.Counters["fsyncs"] != 40 {
		t.Errorf("%+v", m)
	}
	// 240 ms of the 1,000 ms that two cores did in half a second were ours.
	r.others(machineTimes{busy: 100 * ms, all: 1000 * ms}, machineTimes{busy: 640 * ms, all: 2000 * ms})
	if !near(r.OthersShare, 0.3) {
		t.Errorf("others used %v", r.OthersShare)
	}
	r = Run{}
	r.fill(outcome{transactions: 100}, s, before, after, false)
	r.others(machineTimes{}, machineTimes{})
	if r.CPU != nil {
		t.Error("CPU is reported where it cannot be read (B4)")
	}
}
