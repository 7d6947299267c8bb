package process

import "testing"

// TestBindingNext: who stays, moves, is let go and is bound again.
func TestBindingNext(t *testing.T) {
	for name, c := range map[string]struct {
		b      Binding
		idle   []float64
		use    float64
		number int
		want   int
		waits  int
	}{
		"its own processor first":             {Binding{home: free}, []float64{1, 0.8}, 0.1, 1, 1, 0},
		"another one with much more room":     {Binding{home: free}, []float64{1, 0.6}, 0.1, 1, 0, 0},
		"too much for one":                    {Binding{home: free}, []float64{0.2, 0.2}, 0.8, 0, free, 0},
		"full processors, but it would fit":   {Binding{home: free}, []float64{0, 0}, 0.6, 0, 0, 0},
		"not so soon again":                   {Binding{home: free, waits: 2}, []float64{1, 1}, 0.1, 0, free, 1},
		"the last wait":                       {Binding{home: free, waits: 1}, []float64{1, 1}, 0.1, 0, free, 0},
		"stays":                               {Binding{home: 0}, []float64{0.3, 0.6}, 0.5, 0, 0, 0},
		"moves from who else is there":        {Binding{home: 0}, []float64{0, 0.7}, 0.2, 0, 1, 0},
		"let go when full":                    {Binding{home: 0}, []float64{0.04, 0.3}, 0.9, 0, free, bindLater},
		"full, and so are the others":         {Binding{home: 0}, []float64{0, 0.1}, 0.6, 0, 0, 0},
		"the others together":                 {Binding{home: 1}, []float64{0.15, 0, 0.15}, 0.9, 1, free, bindLater},
		"one too many goes where room is":     {Binding{home: 0}, []float64{0.25, 0.75}, 0.2, 2, 1, 0},
		"one too many does not for little":    {Binding{home: 0}, []float64{0.5, 0.75}, 0.2, 2, 0, 0},
		"one too many is let go with clients": {Binding{home: 0}, []float64{0.5, 0.5}, 0.5, 2, free, 0},
		"and stays so":                        {Binding{home: free}, []float64{0.5, 0.5}, 0.5, 2, free, 0},
		"until it does little":                {Binding{home: free}, []float64{0.3, 0.5}, 0.2, 2, 1, 0},
	} {
		b := c.b
		if got := b.next(c.idle, c.use, c.number); got != c.want || b.waits != c.waits {
			t.Errorf("%s: on %d, waits %d; want %d, %d", name, got, b.waits, c.want, c.waits)
		}
	}
}
