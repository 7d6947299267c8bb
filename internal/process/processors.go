package process

import "sync/atomic"

// Processors tells whether they are scarce, once Watch runs. The zero value says no.
type Processors struct{ scarce atomic.Bool }

// Scarce reports whether the machine has less processors than its processes want, as seen by this process: whether its
// threads, ready to run, had to wait for a fifth of the last 300 ms or longer. No as well where the kernel does not
// tell.
func (p *Processors) Scarce() bool { return p.scarce.Load() }
