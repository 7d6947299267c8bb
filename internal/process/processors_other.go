//go:build !linux

package process

import "context"

// Watch would measure, until ctx ends; nothing can be measured here.
func (*Processors) Watch(context.Context) {}
