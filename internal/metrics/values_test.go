package metrics

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lines reads one metric as lines.
func lines(m series, of Metric, values ...string) (out []string) {
	m.read(family{&of, values}, func(s Sample) {
		for _, p := range s.Plain() {
			out = append(out, p.Name+p.LabelText()+" "+p.Text())
		}
	})
	return out
}

// TestValues: what each kind of number is told as.
func TestValues(t *testing.T) {
	var c Counter
	c.Add(2)
	c.Add(3)
	var stored Counter
	stored.Store(7)
	var g Gauge
	g.Set(5)
	g.Add(-7)
	var yes, no Gauge
	yes.Is(true)
	no.Set(3)
	no.Is(false)
	var timer Timer
	timer.Add(250 * time.Millisecond)
	var s Span
	s.Set(-time.Millisecond)
	for _, x := range []struct {
		m    series
		want string
	}{{&c, "5"}, {&stored, "7"}, {&g, "-2"}, {&yes, "1"}, {&no, "0"}, {&timer, "0.25"}, {&s, "-0.001"}} {
		if got := lines(x.m, Metric{Name: "x"}); !slices.Equal(got, []string{"x{} " + x.want}) {
			t.Errorf("%T is told as %q, want %s", x.m, got, x.want)
		}
	}
}

// TestBuckets: each time is counted once, in all buckets that are as long as it is and in no shorter one.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		times := rapid.SliceOf(rapid.Int64Range(-int64(time.Second), int64(time.Minute))).Draw(t, "times")
		for _, d := range times {
			h.Observe(time.Duration(d))
		}
		h.read(family{metric: &Metric{}}, func(s Sample) {
			if s.Times.Count != uint64(len(times)) || h.Count() != s.Times.Count {
				t.Fatalf("%d counted, %d were there", s.Times.Count, len(times))
			}
			for bound, n := range s.Times.Buckets {
				want := uint64(0)
				for _, d := range times {
					if max(time.Duration(d), 0).Seconds() <= bound {
						want++
					}
				}
				if n != want {
					t.Fatalf("%d of at most %v seconds, want %d", n, bound, want)
				}
			}
		})
	})
}

// TestLabels: values are quoted, whatever is in them, and come in the order of their names.
func TestLabels(t *testing.T) {
	var c Counter
	got := lines(&c, Metric{Name: "x", Labels: []string{"z", "a"}}, "a\nb", `"`)
	if len(got) != 1 || got[0] != `x{"z": "a\nb", "a": "\""} 0` {
		t.Errorf("%q", got)
	}
}

// TestHistogramLines: a histogram is told as Prometheus has it.
func TestHistogramLines(t *testing.T) {
	var h Histogram
	h.Observe(time.Millisecond)
	got := lines(&h, Metric{Name: "x_seconds", Labels: []string{"phase"}}, "order")
	want := []string{`x_seconds_bucket{"phase": "order", "le": "+Inf"} 1`, `x_seconds_sum{"phase": "order"} 0.001`,
		`x_seconds_count{"phase": "order"} 1`}
	n := len(got)
	if n != len(bounds)+3 || !slices.Equal(got[n-3:], want) || !strings.Contains(got[0], `"le": "0.00005"`) {
		t.Errorf("%q", got)
	}
}
