package metrics

import "time"

// Enum is a label whose values are known before: the constants of a type from zero on, by name.
type Enum interface {
	~uint8
	Names() []string
}

// enumMax bounds the values of one such label.
const enumMax = 48

// Gauges has a gauge for each value of a label.
type Gauges[E Enum] struct{ of [enumMax]Gauge }

func (g *Gauges[E]) read(of family, emit func(Sample)) {
	for i, name := range names[E]() {
		g.of[i].read(of.with(name), emit)
	}
}

// Load is what the gauge of a value is.
func (g *Gauges[E]) Load(e E) int64 { return g.of[e].Load() }

// Histograms has a histogram for each value of a label.
type Histograms[E Enum] struct{ of [enumMax]Histogram }

// Observe counts a time.
func (h *Histograms[E]) Observe(e E, d time.Duration) { h.of[e].Observe(d) }

// Of is the histogram of a value.
func (h *Histograms[E]) Of(e E) *Histogram { return &h.of[e] }

func (h *Histograms[E]) read(of family, emit func(Sample)) {
	for i, name := range names[E]() {
		h.of[i].read(of.with(name), emit)
	}
}

func names[E Enum]() []string {
	var e E
	return e.Names()
}
