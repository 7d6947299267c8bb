//go:build planted

package quorum

// planted names the bug that is switched on. The build tag is for testing the tests only.
var planted string

// Plant switches a bug on, or with an empty name all of them off.
func Plant(name string) { planted = name }
