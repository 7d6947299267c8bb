//go:build !planted

package ordering

// planted names the bug built in, as in package engine: none.
const planted = ""
