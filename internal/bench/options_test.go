package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Loads = []string{"N", "-S", "wo"} }, ""},
		{func(o *Options) { o.Loads = []string{"n"} }, "--loads n: known are tpcb, -N"},
		{func(o *Options) { o.Servers = []string{"galera"} }, "--only galera"},
		{func(o *Options) { o.Clients = []int{0} }, "--clients 0"},
		{func(o *Options) { o.Clients = nil }, "--clients"},
		{func(o *Options) { o.Modes = []string{"prepare"} }, "--modes prepare: known are prepared, simple, extended"},
		{func(o *Options) { o.Rounds = 0 }, "--rounds 0"},
	} {
		o := Defaults()
		c.change(&o)
		if err := o.validate(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

// TestMissing: what is not installed is named, and nothing is run without it.
func TestMissing(t *testing.T) {
	o := Defaults()
	names, missing := o.available(tools{pgbench: "x"})
	if slices.Contains(names, bouncer) || len(missing) != 1 || !strings.Contains(missing[0], "PgBouncer is not installed") {
		t.Errorf("%v %v", names, missing)
	}
	ls, missing := withTools(o.chosen(names), tools{pgbench: "x"})
	for _, l := range ls {
		if l.tool != "pgbench" || slices.Contains(l.servers, bouncer) {
			t.Errorf("%s runs with %s on %v", l.name, l.tool, l.servers)
		}
	}
	if len(ls) != 4 || len(missing) != 1 || !strings.Contains(missing[0], "no update_non_index, write_only, read_write, read_only") {
		t.Errorf("%d loads, %v", len(ls), missing)
	}
	o.Loads, o.Servers = []string{"S", "tpcb"}, []string{tutti}
	names, _ = o.available(tools{pgbench: "x", pgbouncer: "y"})
	for _, l := range o.chosen(names) {
		if !slices.Equal(l.servers, []string{tutti}) || l.name != "-S" && l.name != "tpcb" {
			t.Errorf("%s on %v", l.name, l.servers)
		}
	}
}

// TestModes: what a generator has no mode for is not run in it, and a mode reaches the generator.
func TestModes(t *testing.T) {
	o := Defaults()
	o.Loads, o.Modes = []string{"N", "wo", "write_only"}, []string{"simple", "prepared", "extended"}
	var labels []string
	for _, l := range o.chosen([]string{plain, plainLazy, tutti}) {
		labels = append(labels, l.label())
		_, args := tool(pgbench{}).command(&l, &client{})
		want := l.mode
		if l.tool == "sysbench" {
			_, args = sysbench{}.command(&l, &client{})
			want = map[string]string{prepared: "--db-ps-mode=auto", simple: "--db-ps-mode=disable"}[l.mode]
		}
		if !slices.Contains(args, want) {
			t.Errorf("%s is run with %q, want %s", l.label(), args, want)
		}
	}
	want := []string{"-N simple", "-N", "-N extended", "wo", "write_only simple", "write_only"}
	if !slices.Equal(labels, want) {
		t.Errorf("loads %q, want %q", labels, want)
	}
}

// TestSpread is B2: the same processes for every server.
func TestSpread(t *testing.T) {
	three := &server{addresses: []string{"h:1", "h:2", "h:3"}}
	one := &server{addresses: []string{"h:9"}}
	for _, c := range []struct {
		clients int
		oneNode bool
		sizes   []int
		ports   []string
	}{
		{1, false, []int{1}, []string{"1"}},
		{2, false, []int{1, 1}, []string{"1", "2"}},
		{8, false, []int{3, 3, 2}, []string{"1", "2", "3"}},
		{24, true, []int{8, 8, 8}, []string{"1", "1", "1"}},
	} {
		l := &load{oneNode: c.oneNode}
		at3, at1 := spread(c.clients, l, three), spread(c.clients, l, one)
		if len(at3) != len(c.sizes) || len(at1) != len(c.sizes) {
			t.Fatalf("%d clients: %d and %d processes", c.clients, len(at3), len(at1))
		}
		for i := range c.sizes {
			if at3[i].clients != c.sizes[i] || at1[i].clients != c.sizes[i] || at3[i].port != c.ports[i] || at1[i].port != "9" {
				t.Errorf("%d clients, process %d: %+v %+v", c.clients, i, at3[i], at1[i])
			}
		}
	}
}

// TestSameSettings is B1.
func TestSameSettings(t *testing.T) {
	of := map[string]map[string]string{
		plain: {"shared_buffers": "128MB", "synchronous_commit": "on"}, "node1": {"shared_buffers": "128MB", "synchronous_commit": "off"},
	}
	if err := sameSettings(of); err != nil {
		t.Error(err)
	}
	of["node1"]["shared_buffers"] = "1GB"
	if err := sameSettings(of); err == nil || !strings.Contains(err.Error(), "shared_buffers") {
		t.Errorf("got %v", err)
	}
}
