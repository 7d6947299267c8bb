//go:build !linux

package chaos

import "errors"

// smallDisk needs Linux; see kind.possible.
type smallDisk struct{ k int }

func (c *cluster) mountDisk(*node) error { return nil }

func (d *smallDisk) fill() error    { return errors.New("needs Linux") }
func (d *smallDisk) free() error    { return errors.New("needs Linux") }
func (d *smallDisk) unmount() error { return nil }

func unmountBelow(string) error { return nil }
