//go:build !linux

package process

import (
	"context"
	"log/slog"
)

// Run would keep the group together; nothing is known here of where processes run.
func (*Binding) Run(context.Context, func() int, *slog.Logger) {}
