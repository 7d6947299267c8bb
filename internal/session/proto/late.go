package proto

import "github.com/tuttidb/tutti/internal/wire"

// Late keeps what PostgreSQL tells just before ReadyForQuery (P4): changed parameters, and notifications.
type Late struct {
	frames, notes []byte
}

// Keep keeps a frame. Of more than LateBytesMax the older ones are told now.
func (l *Late) Keep(out *wire.Writer, f wire.Frame) {
	keep := &l.frames
	if f.Type == wire.TypeNotificationResponse {
		keep = &l.notes
	}
	if len(*keep)+len(f.Raw) > LateBytesMax {
		out.Append(*keep)
		*keep = (*keep)[:0]
	}
	*keep = append(*keep, f.Raw...)
}

// Tell lets go what is due; notifications wait for the end of the block.
func (l *Late) Tell(out *wire.Writer, idle bool) {
	out.Append(l.frames)
	l.frames = l.frames[:0]
	if idle {
		out.Append(l.notes)
		l.notes = l.notes[:0]
	}
}
