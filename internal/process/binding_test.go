package process

import "testing"

// TestBindingNext: who stays, moves, is let go and is bound again.
func TestBindingNext(t *testing.T) {
	of := func(number, home int) Binding { return Binding{Number: number, home: home} }
	for name, c := range map[string]struct {
		b     Binding
		idle  []float64
		use   float64
		want  int
		waits int
	}{
		"its own processor":                 {of(1, free), []float64{1, 0.6}, 0.1, 1, 0},
		"its own is full, the other is not": {of(1, free), []float64{0.2, 0.04}, 0.1, free, 0},
		"too much for one":                  {of(0, free), []float64{0.2, 0.2}, 0.8, free, 0},
		"full processors, but it would fit": {of(0, free), []float64{0, 0}, 0.6, 0, 0},
		"the same load waits": {Binding{home: free, waits: 9, used: 0.9}, []float64{1, 1}, 0.73,
			free, 8},
		"another load does not": {Binding{home: free, waits: 9, used: 0.9}, []float64{1, 1}, 0.7, 0,
			8},
		"the last wait": {Binding{home: free, waits: 1, used: 0.3}, []float64{1, 1}, 0.3,
			free, 0},
		"stays":                              {of(0, 0), []float64{0.06, 0.6}, 0.5, 0, 0},
		"let go when full":                   {of(0, 0), []float64{0.04, 0.3}, 0.9, free, bindLater},
		"let go for now when full of others": {of(0, 0), []float64{0.04, 0.3}, 0.05, free, 0},
		"full, and so are the others":        {of(0, 0), []float64{0, 0.1}, 0.6, 0, 0},
		"the others together":                {of(1, 1), []float64{0.15, 0, 0.15}, 0.9, free, bindLater},
		"another failure": {Binding{home: 0, failed: 2}, []float64{0, 0.25}, 0.9, free,
			4 * bindLater},
		"one too many goes where room is":         {of(2, 0), []float64{0.25, 0.75}, 0.2, 1, 0},
		"one too many does not for little":        {of(2, 0), []float64{0.5, 0.75}, 0.2, 0, 0},
		"one too many is let go with clients":     {of(2, 0), []float64{0.5, 0.5}, 0.5, free, 0},
		"and stays so":                            {of(2, free), []float64{0.5, 0.5}, 0.5, free, 0},
		"until it does little":                    {of(2, free), []float64{0.3, 0.5}, 0.2, 1, 0},
		"one too many goes back when all is full": {of(2, 1), []float64{0, 0}, 0.1, 0, 0},
		"driven away, and there is room":          {of(2, 1), []float64{0, 0.06}, 0.1, 1, 0},
	} {
		b := c.b
		if got := b.next(c.idle, c.use); got != c.want || b.waits != c.waits {
			t.Errorf("%s: on %d, waits %d; want %d, %d", name, got, b.waits, c.want, c.waits)
		}
	}
}

// TestBindingAgain: it is tried less and less often where it keeps failing, and as at first once it lasted.
func TestBindingAgain(t *testing.T) {
	b := Binding{home: free}
	full, spread, room := []float64{0, 0.25}, []float64{0.12, 0.12}, []float64{0.9, 0.9}
	for k := range bindDoubled + 3 {
		if b.home = b.next(spread, 0.7); b.home != 0 {
			t.Fatalf("time %d: on %d", k, b.home)
		}
		b.home = b.next(full, 0.7)
		want := bindLater << min(k, bindDoubled)
		for range want {
			if b.home != free {
				t.Fatalf("time %d: bound before %d measurements", k, want)
			}
			b.home = b.next(spread, 0.7)
		}
	}
	if b.home = b.next(spread, 0.7); b.home != 0 {
		t.Fatalf("at last: on %d", b.home)
	}
	b.home = b.next(full, 0.7)
	if b.home = b.next(spread, 0.5); b.home != 0 { // a smaller load need not wait
		t.Fatalf("a smaller load: on %d", b.home)
	}
	for range bindProven - 2 {
		b.home = b.next(room, 0.1)
	}
	b.home = b.next(full, 0.7)
	b.home = b.next(spread, 0.1)
	b.home = b.next(room, 0.1)
	b.home = b.next(room, 0.1)
	if b.home = b.next(full, 0.7); b.home != free || b.waits != bindLater<<bindDoubled {
		t.Errorf("after it had not lasted: on %d, waits %d", b.home, b.waits)
	}
	b.home = b.next(spread, 0.1)
	for range bindProven {
		b.home = b.next(room, 0.1)
	}
	if b.home = b.next(full, 0.7); b.home != free || b.waits != bindLater {
		t.Errorf("after it had lasted: on %d, waits %d", b.home, b.waits)
	}
}
