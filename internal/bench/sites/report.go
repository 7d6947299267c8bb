package sites

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/lead"
)

// Report is everything that was found; it is what --json writes. Sites are numbered from 1, times are in milliseconds.
type Report struct {
	Started  time.Time `json:"started"`
	Diameter int       `json:"diameter_ms"` // each way
	Ways     lead.Ways `json:"ways_ms"`     // each way
	Paper    float64   `json:"paper_ms"`
	// Settled is how long it took, after the ways had become long, until the lead was where all need least.
	Settled float64 `json:"settled_s"`
	// Idle are updates that all sites make in turn.
	Idle  Measured `json:"idle"`
	Moved Moved    `json:"moved"`
	Lost  Lost     `json:"lost"`
}

// Measured are updates at sites with one leader.
type Measured struct {
	Leader int  `json:"leader"`
	Sites  []At `json:"sites"`
	// Ratio is that of the sums over sites.
	Ratio float64 `json:"ratio"`
}

// At are the updates of a site.
type At struct {
	Site    int     `json:"site"`
	Floor   int64   `json:"floor_ms"` // what the protocol needs
	Near    float64 `json:"near_ms"`  // the median when all sites were at one place
	Median  float64 `json:"median_ms"`
	Least   float64 `json:"least_ms"`
	Ratio   float64 `json:"ratio"`   // to Floor
	Updates int     `json:"updates"` // counted
}

// Moved says how the lead followed a site that was the only one to write.
type Moved struct {
	Site    int     `json:"site"`
	Seconds float64 `json:"seconds"` // until the lead had moved; zero: it did not
	Before  At      `json:"before"`
	After   At      `json:"after"`
	From    int     `json:"from"`
	To      int     `json:"to"`
}

// Lost says what the others saw of a site that was lost, and came back.
type Lost struct {
	Site    int     `json:"site"`
	Led     bool    `json:"led"`
	Longest float64 `json:"longest_ms"` // that an update took meanwhile at another site
	Updates int     `json:"updates"`    // of the others while it was away
	Median  float64 `json:"median_ms"`
	Back    float64 `json:"back_s"` // from its start until its first update
	Equal   bool    `json:"equal"`  // at the end all databases are
}

// at makes a site's figures of what its updates took.
func at(site int, floor int64, near, took []time.Duration) At {
	a := At{Site: site + 1, Floor: floor, Near: ms(median(near)), Median: ms(median(took)), Updates: len(took)}
	if len(took) > 0 {
		a.Least = ms(slices.Min(took))
	}
	if floor > 0 {
		a.Ratio = a.Median / float64(floor)
	}
	return a
}

// measured sums up.
func measured(leader int, sites []At) Measured {
	m := Measured{Leader: leader + 1, Sites: sites}
	took, floors := 0.0, 0.0
	for _, a := range sites {
		took, floors = took+a.Median, floors+float64(a.Floor)
	}
	if floors > 0 {
		m.Ratio = took / floors
	}
	return m
}

func ms(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// median of times, 0 if there are none.
func median(v []time.Duration) time.Duration {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// print writes it for people.
func (r *Report) print(out io.Writer) {
	fmt.Fprintf(out, "\n%d sites, %d ms from end to end each way; site %d leads, after %.0f s\n\n", len(r.Ways),
		r.Diameter, r.Idle.Leader, r.Settled)
	fmt.Fprintf(out, "site  the protocol's delays  an update takes  ratio  without distances\n")
	for _, a := range r.Idle.Sites {
		fmt.Fprintf(out, "%4d %19d ms %13.1f ms %6.2f %15.1f ms\n", a.Site, a.Floor, a.Median, a.Ratio, a.Near)
	}
	fmt.Fprintf(out, "all: %.2f of the delays; the paper's: %.0f ms\n\n", r.Idle.Ratio, r.Paper)
	m, l := &r.Moved, &r.Lost
	fmt.Fprintf(out, "only site %d writes: the lead goes from site %d to site %d in %.1f s, an update takes %.1f ms "+
		"(delays: %d) and then %.1f ms (%d)\n", m.Site, m.From, m.To, m.Seconds, m.Before.Median, m.Before.Floor,
		m.After.Median, m.After.Floor)
	fmt.Fprintf(out, "site %d is lost (it leads: %v): the others make %d updates, median %.1f ms, the "+
		"longest %.0f ms; it is back after %.1f s; all databases are equal: %v\n", l.Site, l.Led, l.Updates, l.Median,
		l.Longest, l.Back, l.Equal)
}
