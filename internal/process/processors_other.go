//go:build !linux

package process

// Scarce reports whether the machine has less processors than its processes want; it is not known here.
func Scarce() bool { return false }
