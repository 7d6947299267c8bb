package node

import "encoding/binary"

// Kinds of frames between members: the first byte. Then comes the number of the database, as a uvarint.
const (
	frameRaft   = 'R'
	frameStatus = 'S'
	frameCheck  = 'C'

	frameRehearse  = 'T' // see replay.DryRuns
	frameRehearsed = 'U'

	frameFront = 'F' // see streaming.report

	frameHold = 'H' // see grants.Locks
	frameHeld = 'I'

	frameRelay   = 'V' // see core.Core.Relay
	frameRelayed = 'W'
)

func (l *life) sendFrame(to uint32, kind byte, data []byte) bool {
	return l.tenure.send(to, kind, l.id.group, data)
}

func (t *tenure) send(to uint32, kind byte, group uint64, data []byte) bool {
	frame := make([]byte, 1, len(data)+1+binary.MaxVarintLen64)
	frame[0] = kind
	return t.transport.Send(to, append(binary.AppendUvarint(frame, group), data...))
}

// receive takes a frame of another member from the transport, and gives it to the life of the database it is about.
func (t *tenure) receive(from uint32, frame []byte) {
	if len(frame) == 0 {
		return
	}
	group, n := binary.Uvarint(frame[1:])
	if n <= 0 {
		t.node.log.Warn("a member sent a frame that names no database", "member", from)
		return
	}
	t.words.Heard(from)
	kind, body := frame[0], frame[1+n:]
	if l := t.life(group); l != nil {
		l.receiveFrame(from, kind, body)
	} else if kind == frameRaft {
		t.retired.Receive(group, from, body)
	} // else it is not there yet, or any more
}

// receiveFrame takes a frame of another member's life of this database.
func (l *life) receiveFrame(from uint32, kind byte, body []byte) {
	switch kind {
	case frameRaft:
		l.order.core.Receive(from, body)
	case frameRelay:
		l.refuses(from, l.order.core.Relay(from, body))
	case frameRelayed:
		l.refuses(from, l.order.core.Relayed(body))
	case frameStatus:
		if err := l.others.peers.Hear(from, body); err != nil {
			l.log.Warn("a member's status cannot be read", "member", from, "error", err)
			return
		}
		l.notices.Wake()
		l.flow.throttle.Regulate(l.others.peers.Flow())
	case frameCheck:
		l.audit.Receive(from, body)
	case frameFront:
		l.order.paces.Heard(from, l.id.incarnation, body)
	case frameRehearse:
		l.trials.dryRuns.TryFor(from, body)
	case frameRehearsed:
		l.trials.dryRuns.Outcome(body)
	case frameHold:
		l.grants.Hear(from, body)
	case frameHeld:
		l.grants.Answered(from, body)
	default:
		l.log.Warn("a member sent a frame of unknown kind", "member", from, "kind", kind)
	}
}

// refuses says why a member's frame was not taken, if it was not.
func (l *life) refuses(from uint32, err error) {
	if err != nil {
		l.log.Warn("refused a member's frame", "member", from, "error", err)
	}
}
