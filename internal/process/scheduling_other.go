//go:build !linux

package process

// RelaxTimers does nothing here.
func RelaxTimers() {}

// ExactTimers does nothing here.
func ExactTimers() {}

// YieldThread does nothing here.
func YieldThread() (restore func()) { return func() {} }
