//go:build !planted

package quorum

// planted names the bug built in; in this build there is none, and the compiler drops
// every branch that asks for one.
const planted = ""
