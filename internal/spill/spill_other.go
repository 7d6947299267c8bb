//go:build !linux

package spill

import "errors"

// spill is only known for Linux.
func (*Files) spill([]byte) error { return errors.New("spill: this system is not known") }

func forget(_, _ uintptr) {}
