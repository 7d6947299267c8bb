package metrics

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
)

// all reads a registry as lines of name{labels} value.
func all(r *Registry) (lines []string) {
	r.Read(func(s Sample) {
		for _, p := range s.Plain() {
			lines = append(lines, p.Name+p.LabelText()+" "+p.Text())
		}
	})
	return lines
}

// find gives the value of the line that begins with a name and labels.
func find(t *testing.T, lines []string, series string) string {
	t.Helper()
	for _, l := range lines {
		if value, ok := strings.CutPrefix(l, series+" "); ok {
			return value
		}
	}
	t.Fatalf("%s is not in\n%s", series, strings.Join(lines, "\n"))
	return ""
}

// TestReadsWhatWasCounted: each kind of metric is read as what was counted, in the unit of its name.
func TestReadsWhatWasCounted(t *testing.T) {
	r := New()
	d := &Database{}
	fresh := 0
	leave := r.Enter("shop", d, func() { fresh++; d.Member.Lag.Set(7) })
	r.Process.Clients.Logins.Add(2)
	d.Log.Syncs.Add(3)
	d.Flow.DelayTime.Add(1500 * time.Millisecond)
	d.Flow.DelayTime.Add(-time.Hour)
	d.Flow.Delay.Set(2 * time.Millisecond)
	d.Member.Leads.Is(true)
	d.Transactions.Phases.Observe(PhaseOrder, 3*time.Millisecond)
	d.Transactions.Phases.Observe(PhaseOrder, time.Hour)
	d.Transactions.Conflicts.Add("public", `a"b`, "key")
	wait := d.Waits.Begin(flow.WaitTurn)
	lines := all(r)
	db := `{"database": "shop"`
	for series, want := range map[string]string{
		`tutti_client_logins_total{}`:                                                           "2",
		`tutti_log_syncs_total` + db + `}`:                                                      "3",
		`tutti_flow_delays_seconds_total` + db + `}`:                                            "1.5",
		`tutti_flow_delay_seconds` + db + `}`:                                                   "0.002",
		`tutti_member_leads` + db + `}`:                                                         "1",
		`tutti_replication_lag_transactions` + db + `}`:                                         "7",
		`tutti_waiting` + db + `, "wait": "turn"}`:                                              "1",
		`tutti_wait_duration_seconds_count` + db + `, "wait": "turn"}`:                          "0",
		`tutti_commit_phase_duration_seconds_count` + db + `, "phase": "order"}`:                "2",
		`tutti_commit_phase_duration_seconds_sum` + db + `, "phase": "order"}`:                  "3600.003",
		`tutti_conflicts_total` + db + `, "schema": "public", "table": "a\"b", "cause": "key"}`: "1",
	} {
		if got := find(t, lines, series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
	bucket := `tutti_commit_phase_duration_seconds_bucket{"database": "shop", "phase": "order", "le": "`
	for le, want := range map[string]string{"0.0025": "0", "0.005": "1", "30": "1", "+Inf": "2"} {
		if got := find(t, lines, bucket+le+`"}`); got != want {
			t.Errorf("%s of at most %s seconds, want %s", got, le, want)
		}
	}
	wait.End()
	lines = all(r)
	n := find(t, lines, `tutti_waiting{"database": "shop", "wait": "turn"}`)
	if ended := d.Waits.Times.Of(flow.WaitTurn).Count(); n != "0" || ended != 1 {
		t.Errorf("a wait that has ended: %s wait, %d have ended", n, ended)
	}
	leave()
	if lines := strings.Join(all(r), "\n"); strings.Contains(lines, "shop") || fresh != 2 {
		t.Errorf("a database that was left is still read, or gauges were not set each time (%d):\n%s", fresh, lines)
	}
}

// TestShown: SHOW tutti.counters has whole numbers, and times in microseconds.
func TestShown(t *testing.T) {
	r := New()
	d := &Database{}
	defer r.Enter("shop", d, nil)()
	defer r.Enter("other", &Database{}, nil)()
	d.Flow.DelayTime.Add(1500 * time.Microsecond)
	d.Log.Syncs.Add(1 << 52)
	got := map[string]string{}
	r.ReadOne(d, func(s Sample) {
		if s.Show != "" {
			got[s.Show] = s.Shown()
		}
	})
	if got["throttled_us"] != "1500" || got["fsyncs"] != fmt.Sprint(1<<52) || got["logins"] != "0" {
		t.Errorf("%v", got)
	}
}

// TestDeclared: names follow Prometheus' rules (M1), and all labels that have fixed values have a name for each.
func TestDeclared(t *testing.T) {
	for _, m := range New().Metrics() {
		total := strings.HasSuffix(m.Name, "_total")
		if total != (m.Kind == KindCounter) {
			t.Errorf("%s: only what only grows ends with _total", m.Name)
		}
		if m.Kind == KindHistogram && !strings.HasSuffix(m.Name, "_seconds") ||
			m.micro && !strings.HasSuffix(m.Name, "_seconds_total") {
			t.Errorf("%s is a time", m.Name)
		}
		if !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: %q is no sentence", m.Name, m.Help)
		}
	}
	if n := len(flow.Wait(0).Names()); n > enumMax {
		t.Errorf("%d waits, more than there is room for (%d)", n, enumMax)
	}
	if len(phaseNames) != int(PhaseWhole)+1 {
		t.Errorf("%d names of phases", len(phaseNames))
	}
}

// TestNamesAreTold: SHOW tutti.counters has what it had before there was a registry, by the same names, once each.
func TestNamesAreTold(t *testing.T) {
	want := strings.Fields("ordinal applied fsyncs entries batches groups local remote aborted frames_sent " +
		"frames_received handed_over throttled throttled_us rested_us turns turns_waited held_back additions blind " +
		"blind_blocks audit_parts audit_passes audit_us notified notifications_told notifications_lost logins " +
		"logins_failed clients_refused clients_unlogged goroutines")
	shown := map[string]int{}
	for _, m := range New().Metrics() {
		if m.Show != "" {
			shown[m.Show]++
		}
	}
	for _, name := range want {
		if shown[name] != 1 {
			t.Errorf("%s is there %d times", name, shown[name])
		}
	}
	if len(shown) != len(want) {
		t.Errorf("%d names, want %d", len(shown), len(want))
	}
}

// TestEveryFieldIsRead: a registry reads each metric that is declared, for each database that is entered, in one order:
// the process's own first, then the databases' by name.
func TestEveryFieldIsRead(t *testing.T) {
	r := New()
	defer r.Enter("b", &Database{}, nil)()
	defer r.Enter("a", &Database{}, nil)()
	read := map[string]map[string]bool{}
	var order []string
	r.Read(func(s Sample) {
		if len(s.Labels) != len(s.Values) {
			t.Errorf("%s has labels %q, and values %q", s.Name, s.Labels, s.Values)
		}
		of := ""
		if len(s.Labels) > 0 && s.Labels[0] == "database" {
			of = s.Values[0]
		}
		if len(order) == 0 || order[len(order)-1] != of {
			order = append(order, of)
		}
		if read[s.Name] == nil {
			read[s.Name] = map[string]bool{}
		}
		read[s.Name][of] = true
	})
	if fmt.Sprint(order) != "[ a b]" {
		t.Errorf("they come in the order %q", order)
	}
	for _, m := range New().Metrics() {
		databases := 1
		if len(m.Labels) > 0 {
			databases = 2
		}
		if n := len(read[m.Name]); n != databases && m.Name != "tutti_conflicts_total" { // which has none yet
			t.Errorf("%s is read of %d databases, want %d", m.Name, n, databases)
		}
	}
}

// TestRefusesHalfDeclared: a field without help, or of another type, is found when the process starts.
func TestRefusesHalfDeclared(t *testing.T) {
	for _, bad := range []any{
		struct {
			A Counter `name:"a_total"`
		}{},
		struct {
			A int `name:"a_total" help:"A."`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T is taken", bad)
				}
			}()
			declared(reflect.TypeOf(bad), nil)
		}()
	}
}

// TestTablesAreBounded: however many tables there are, those with most conflicts keep their count, and no count is lost
// (M3).
func TestTablesAreBounded(t *testing.T) {
	var c Tables
	const tables, each = 5 * tablesMax, 3
	for k := range tables * each {
		c.Add("public", fmt.Sprintf("t%d", k%tables), "key")
		c.Add("public", "hot", "key")
	}
	sum, hot, rows := 0.0, 0.0, 0
	c.read(family{metric: &Metric{}}, func(s Sample) {
		sum += s.Value
		rows++
		if s.Values[1] == "hot" {
			hot = s.Value
		}
	})
	if sum != 2*tables*each || hot != tables*each || rows != tablesMax+1 {
		t.Errorf("%.0f counted, %.0f of them hot, in %d rows", sum, hot, rows)
	}
}

// TestReadWhileCounted: reading disturbs nobody who counts; what was counted before is in what is read (M2, M4).
func TestReadWhileCounted(t *testing.T) {
	r := New()
	d := &Database{}
	defer r.Enter("shop", d, nil)()
	const n = 2000
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for k := range n {
				d.Log.Syncs.Add(1)
				d.Transactions.Phases.Observe(PhaseWhole, time.Duration(k)*time.Microsecond)
				d.Transactions.Conflicts.Add("s", fmt.Sprint(k), "key")
				defer d.Waits.Begin(flow.WaitOrder).End()
			}
		})
	}
	last := 0.0
	for range 50 {
		r.Read(func(s Sample) {
			if s.Times != nil && s.Values[len(s.Values)-1] == "whole" {
				if float64(s.Times.Count) < last || s.Times.Buckets[bounds[len(bounds)-1].Seconds()] > s.Times.Count {
					t.Errorf("it shrinks: %v", s.Times)
				}
				last = float64(s.Times.Count)
			}
		})
	}
	wg.Wait()
	if got, waiting := d.Transactions.Phases.Of(PhaseWhole).Count(), d.Waits.Waiting.Load(flow.WaitOrder); got != 4*n ||
		d.Log.Syncs.Load() != 4*n || waiting != 0 {
		t.Errorf("%d of %d, %d wait", got, 4*n, waiting)
	}
}

// TestText: infinity is told as Prometheus does, and no number loses digits.
func TestText(t *testing.T) {
	for v, want := range map[float64]string{math.Inf(1): "+Inf", 0.00005: "0.00005", 1 << 53: "9007199254740992"} {
		if p := (&Plain{Value: v}); p.Text() != want {
			t.Errorf("%s, want %s", p.Text(), want)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histograms[Phase]
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(PhaseOrder, 700*time.Microsecond)
	}
}

func BenchmarkWait(b *testing.B) {
	var w Waits
	b.ReportAllocs()
	for b.Loop() {
		w.Begin(flow.WaitOrder).End()
	}
}
