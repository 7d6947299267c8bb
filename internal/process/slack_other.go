//go:build !linux

package process

// RelaxTimers does nothing here.
func RelaxTimers() {}

// ExactTimers does nothing here.
func ExactTimers() {}
