//go:build planted

package session

// planted names the bug that is switched on. The build tag is for testing the tests only.
var planted string

// Plant switches a bug on, or with an empty name all of them off.
func Plant(name string) { planted = name }

// plantTwice is a bug that may be built in: a request that is done again is done twice, and nobody is told.
func plantTwice(d *retrying, r *request) {
	if planted == "redone-twice" && r.does.added > r.does.reads {
		again, told, bytes := *r, d.told, d.bytesTold
		_, _, _ = d.carrying.once(&again)
		d.told, d.bytesTold = told, bytes
	}
}
