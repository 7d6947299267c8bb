//go:build !planted

package sim

// plant does nothing: this build's engine has no bugs to switch on.
func plant(string) {}
