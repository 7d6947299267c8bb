package bench

import (
	"math"
	"slices"
)

// median of values, 0 if there are none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v) / 2
	if len(v)%2 == 1 {
		return v[n]
	}
	return (v[n-1] + v[n]) / 2
}

// spreadOf needs at least one value.
func spreadOf(v []float64) *Spread {
	return &Spread{Median: median(v), Min: slices.Min(v), Max: slices.Max(v)}
}

// cell is what the rounds of a comparison have in common.
type cell struct {
	load    string
	clients int
	server  string
}

func (r *Run) cell() cell { return cell{r.Load, r.Clients, r.Server} }

// cells lists the cells in the order of their first runs.
func cells(runs []Run) (order []cell, of map[cell][]Run) {
	of = map[cell][]Run{}
	for _, r := range runs {
		c := r.cell()
		if _, ok := of[c]; !ok {
			order = append(order, c)
			of[c] = nil
		}
		if r.Error == "" {
			of[c] = append(of[c], r)
		}
	}
	return order, of
}

// summarize computes medians, ratios and the cost of remote transactions from the runs.
func (r *Report) summarize() {
	order, of := cells(r.Runs)
	r.Medians, r.Ratios = nil, nil
	for _, c := range order {
		if len(of[c]) > 0 {
			r.Medians = append(r.Medians, medianRun(of[c]))
		}
	}
	for _, to := range order {
		for _, name := range []string{tutti, bouncer} {
			if name == to.server || to.server == tutti {
				continue
			}
			if x, ok := ratio(of[cell{to.load, to.clients, name}], of[to]); ok {
				r.Ratios = append(r.Ratios, x)
			}
		}
	}
	r.Remote = remote(order, of)
}

// pairs calls f with the runs of the same round.
func pairs(a, b []Run, f func(x, y *Run)) {
	for i := range a {
		for j := range b {
			if a[i].Round == b[j].Round {
				f(&a[i], &b[j])
			}
		}
	}
}

func ratio(of, to []Run) (Ratio, bool) {
	var x Ratio
	pairs(of, to, func(a, b *Run) {
		if b.TPS > 0 {
			x.Rounds = append(x.Rounds, a.TPS/b.TPS)
			x.Load, x.Clients, x.Of, x.To = a.Load, a.Clients, a.Server, b.Server
		}
	})
	if len(x.Rounds) == 0 {
		return x, false
	}
	x.Spread = *spreadOf(x.Rounds)
	return x, true
}

// medianRun takes the median of each figure by itself.
func medianRun(runs []Run) Run {
	m := Run{Load: runs[0].Load, Clients: runs[0].Clients, Server: runs[0].Server}
	get := func(f func(*Run) float64) float64 {
		var v []float64
		for i := range runs {
			v = append(v, f(&runs[i]))
		}
		return median(v)
	}
	count := func(f func(*Run) int64) int64 {
		return int64(math.Round(get(func(r *Run) float64 { return float64(f(r)) })))
	}
	m.Transactions = count(func(r *Run) int64 { return r.Transactions })
	m.Aborts = count(func(r *Run) int64 { return r.Aborts })
	m.Failed = count(func(r *Run) int64 { return r.Failed })
	m.TPS = get(func(r *Run) float64 { return r.TPS })
	m.MeanMs = get(func(r *Run) float64 { return r.MeanMs })
	m.P95Ms = get(func(r *Run) float64 { return r.P95Ms })
	m.AbortShare = get(func(r *Run) float64 { return r.AbortShare })
	m.LostShare = get(func(r *Run) float64 { return r.LostShare })
	m.OthersShare = get(func(r *Run) float64 { return r.OthersShare })
	m.Fsyncs = get(func(r *Run) float64 { return r.Fsyncs })
	m.CatchUpMs = get(func(r *Run) float64 { return r.CatchUpMs })
	if runs[0].CPU != nil {
		m.CPU = &CPU{
			Database:   get(func(r *Run) float64 { return r.CPU.Database }),
			Applying:   get(func(r *Run) float64 { return r.CPU.Applying }),
			Middleware: get(func(r *Run) float64 { return r.CPU.Middleware }),
			Client:     get(func(r *Run) float64 { return r.CPU.Client }),
		}
	}
	return m
}

// remote evaluates load wo; nil if it was not measured.
func remote(order []cell, of map[cell][]Run) *Remote {
	i := slices.IndexFunc(order, func(c cell) bool { return c.load == remoteLoad && c.server == tutti })
	if i < 0 {
		return nil
	}
	c := order[i]
	var apply, node, origin, plains, toPlain, toOrigin []float64
	for _, t := range of[c] {
		if t.CPU == nil || t.Members[0].Sessions <= 0 {
			continue
		}
		others := t.Members[1:]
		a, n := 0.0, 0.0
		for _, m := range others {
			a += m.Applier / float64(len(others))
			n += m.Middleware / float64(len(others))
		}
		apply, node, origin = append(apply, a), append(node, n), append(origin, t.Members[0].Sessions)
		toOrigin = append(toOrigin, a/t.Members[0].Sessions)
		pairs([]Run{t}, of[cell{c.load, c.clients, plain}], func(_, p *Run) {
			if s := p.Members[0].Sessions; s > 0 {
				plains, toPlain = append(plains, s), append(toPlain, a/s)
			}
		})
	}
	if len(apply) == 0 {
		return nil
	}
	x := &Remote{Clients: c.clients, Apply: spreadOf(apply), Node: spreadOf(node), Origin: spreadOf(origin),
		ToOrigin: spreadOf(toOrigin)}
	if len(plains) > 0 {
		x.Plain, x.ToPlain = spreadOf(plains), spreadOf(toPlain)
	}
	return x
}
