package sim

import (
	"iter"
	"runtime/debug"
)

// coroutine is production code that was written to block. It runs until it waits, and goes on when the simulation says
// so: one goroutine at a time, handed over, so that nothing depends on a scheduler.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	ends  bool // it is unwinding, or over
	fault any  // with what it has panicked
	stack []byte
}

// unwinds is the panic by which a coroutine ends whose member is gone.
type unwinds struct{}

// crashed is the panic of a coroutine, as the simulation passes it on.
type crashed struct {
	value any
	stack []byte
}

// newCoroutine returns one that runs f when it is resumed for the first time.
func newCoroutine(f func()) *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		defer func() {
			c.ends = true
			switch p := recover().(type) {
			case nil, unwinds:
			case failure:
				c.fault = p
			default:
				c.fault = crashed{p, debug.Stack()}
			}
		}()
		f()
	})
	return c
}

// pause hands over until the coroutine is resumed. Only the coroutine itself may call it.
func (c *coroutine) pause() {
	if c.ends || !c.yield(struct{}{}) {
		c.ends = true
		panic(unwinds{})
	}
}

// resume runs the coroutine until it waits again, or is over.
func (c *coroutine) resume() {
	c.next()
	if p := c.fault; p != nil {
		c.fault = nil
		panic(p)
	}
}
