package metrics

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// Prefix begins every name outside of this package.
const Prefix = "tutti_"

// Kind is what may be done with a number.
type Kind uint8

// What only grows may be told per second; a gauge may not.
const (
	KindCounter Kind = iota
	KindGauge
	KindHistogram
)

// Metric is what is declared of one: a field of a struct of this package.
type Metric struct {
	Name   string   // with Prefix
	Show   string   // in SHOW tutti.counters; empty: it is not in there
	Help   string   // one sentence
	Kind   Kind     //
	Labels []string // names

	field []int
	micro bool // a Timer
}

// Sample is one number that was read.
type Sample struct {
	*Metric
	Values []string      // of Labels
	Value  float64       // in the unit of the name
	Times  *Distribution // of a histogram
}

// Distribution is what a histogram has counted. Buckets has how many were not longer than so many seconds.
type Distribution struct {
	Count   uint64
	Sum     float64 // seconds
	Buckets map[float64]uint64
}

// Shown is a sample's number for SHOW tutti.counters: whole, times in microseconds.
func (s *Sample) Shown() string {
	v := s.Value
	if s.micro {
		v = float64(time.Duration(s.Value*float64(time.Second)).Round(time.Microsecond) / time.Microsecond)
	}
	return fmt.Sprintf("%.0f", v)
}

// series is what every kind of metric can do.
type series interface {
	read(of family, emit func(Sample))
}

// family is a metric with values of its first labels.
type family struct {
	metric *Metric
	values []string
}

func (f family) with(values ...string) family {
	return family{f.metric, append(slices.Clip(f.values), values...)}
}

func (f family) sample(v float64) Sample { return Sample{Metric: f.metric, Values: f.values, Value: v} }

// declared lists the metrics of a struct, by its fields' tags. outer are the labels of all of them.
func declared(t reflect.Type, outer []string) (list []*Metric) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := f.Tag.Lookup("name")
		if !ok {
			for _, m := range declared(f.Type, outer) {
				m.field = append([]int{i}, m.field...)
				list = append(list, m)
			}
			continue
		}
		m := &Metric{Name: Prefix + name, Show: f.Tag.Get("show"), Help: f.Tag.Get("help"), field: []int{i}}
		m.Labels = append(slices.Clip(outer), strings.Fields(f.Tag.Get("label"))...)
		switch kind := f.Type.Name(); {
		case strings.HasPrefix(kind, "Histogram"):
			m.Kind = KindHistogram
		case strings.HasPrefix(kind, "Gauge"), kind == "Span":
			m.Kind = KindGauge
		}
		m.micro = f.Type == reflect.TypeFor[Timer]()
		if _, ok := reflect.New(f.Type).Interface().(series); !ok || m.Help == "" {
			panic(fmt.Sprintf("metrics: %s.%s is no metric, or has no help", t, f.Name))
		}
		list = append(list, m)
	}
	return list
}

// scope is a struct of metrics that is read, with the values of the labels that all of them have.
type scope struct {
	list   []*Metric
	of     reflect.Value
	values []string
	fresh  func() // sets the gauges; may be nil
}

func (s *scope) read(emit func(Sample)) {
	if s.fresh != nil {
		s.fresh()
	}
	for _, m := range s.list {
		s.of.FieldByIndex(m.field).Addr().Interface().(series).read(family{m, s.values}, emit)
	}
}

// Registry has all metrics of a process: Process, and a Database for each database.
type Registry struct {
	Process *Process

	process  []*Metric
	database []*Metric

	mu        sync.Mutex
	fresh     func()
	databases map[*Database]*scope
}

// New makes a registry in which nothing was counted.
func New() *Registry {
	r := &Registry{Process: &Process{}, databases: map[*Database]*scope{}}
	r.process = declared(reflect.TypeFor[Process](), nil)
	r.database = declared(reflect.TypeFor[Database](), []string{"database"})
	seen := map[string]bool{}
	for _, m := range r.Metrics() {
		for _, name := range []string{m.Name, "show " + m.Show} {
			if seen[name] && name != "show " {
				panic("metrics: twice: " + name)
			}
			seen[name] = true
		}
	}
	return r
}

// Metrics lists what is declared.
func (r *Registry) Metrics() []*Metric { return slices.Concat(r.process, r.database) }

// Fresh sets what is called before the process's metrics are read, to set gauges.
func (r *Registry) Fresh(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = f
}

// Enter has a database's metrics read from now on; fresh, which may be nil, is called before. leave ends that.
func (r *Registry) Enter(name string, d *Database, fresh func()) (leave func()) {
	s := &scope{list: r.database, of: reflect.ValueOf(d).Elem(), values: []string{name}, fresh: fresh}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.databases[d] = s
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.databases, d)
	}
}

// Read gives every sample there is: the process's, then each database's by its name.
func (r *Registry) Read(emit func(Sample)) {
	r.mu.Lock()
	scopes := make([]*scope, 0, len(r.databases))
	for _, s := range r.databases {
		scopes = append(scopes, s)
	}
	fresh := r.fresh
	r.mu.Unlock()
	slices.SortFunc(scopes, func(a, b *scope) int { return cmp.Compare(a.values[0], b.values[0]) })
	process := &scope{list: r.process, of: reflect.ValueOf(r.Process).Elem(), fresh: fresh}
	for _, s := range append([]*scope{process}, scopes...) {
		s.read(emit)
	}
}

// ReadOne gives the samples of one database and of the process.
func (r *Registry) ReadOne(d *Database, emit func(Sample)) {
	r.mu.Lock()
	process := &scope{list: r.process, of: reflect.ValueOf(r.Process).Elem(), fresh: r.fresh}
	s := r.databases[d]
	r.mu.Unlock()
	if s != nil {
		s.read(emit)
	}
	process.read(emit)
}
