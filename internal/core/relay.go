package core

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
)

// relayTargetsMax bounds for how many members one frame is.
const relayTargetsMax = 64

var errRelay = errors.New("core: bad frame to be passed on")

// appendRelay makes the frame by which a leader sends a message once to those of one site: how many they are, their
// numbers, the message.
func appendRelay(targets []uint32, data []byte) []byte {
	b := binary.AppendUvarint(make([]byte, 0, len(data)+2+2*len(targets)), uint64(len(targets)))
	for _, m := range targets {
		b = binary.AppendUvarint(b, uint64(m))
	}
	return append(b, data...)
}

// decodeRelay takes it apart. Data is part of frame.
func decodeRelay(frame []byte) (targets []uint32, data []byte, err error) {
	count, n := binary.Uvarint(frame)
	if n <= 0 || count == 0 || count > relayTargetsMax {
		return nil, nil, errRelay
	}
	for frame = frame[n:]; len(targets) < int(count); frame = frame[n:] {
		var m uint32
		if m, n = member(frame); n == 0 || slices.Contains(targets, m) {
			return nil, nil, errRelay
		}
		targets = append(targets, m)
	}
	return targets, frame, nil
}

// member reads a member's number, of n bytes; zero bytes: it is none.
func member(b []byte) (m uint32, n int) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v == 0 || v > 1<<32-1 {
		return 0, 0
	}
	return uint32(v), n
}

// appendRelayed makes the frame by which a message of origin's is passed on.
func appendRelayed(origin uint32, data []byte) []byte {
	return append(binary.AppendUvarint(make([]byte, 0, len(data)+2), uint64(origin)), data...)
}

// Relay takes a frame that is for several members of this one's site, perhaps this one among them, and passes it on.
func (c *Core) Relay(from uint32, frame []byte) error {
	targets, data, err := decodeRelay(frame)
	if err != nil {
		return err
	}
	for _, to := range targets {
		switch to {
		case c.o.Member:
			c.receive(memberFrame{from: from, data: data, relayed: true})
		case from: // it has it
		default:
			c.o.Relayed(to, appendRelayed(from, data)) // else it is sent again, in another way
		}
	}
	return nil
}

// Relayed takes a message that another member of this one's site has passed on.
func (c *Core) Relayed(frame []byte) error {
	origin, n := member(frame)
	if n == 0 {
		return errRelay
	}
	c.receive(memberFrame{from: origin, data: frame[n:], relayed: true})
	return nil
}

// send sends a message, and reports whether it may have left.
func (c *Core) send(m *ordering.Message) bool {
	if len(m.For) == 0 || len(m.For) == 1 && m.For[0] == m.To {
		return c.o.Send(m.To, m.Data)
	}
	c.o.Metrics.Log.Relayed.Add(1)
	return c.o.Relay(m.To, appendRelay(m.For, m.Data))
}

// unsent says whom a message does not reach.
func (c *Core) unsent(m *ordering.Message) {
	c.engine.Unreachable(m.To)
	for _, to := range m.For {
		if to != m.To {
			c.engine.Unreachable(to)
		}
	}
}

// stepFrame gives the engine a frame.
func (c *Core) stepFrame(m memberFrame) error {
	if m.relayed {
		return engine.Relayed(c.engine, m.from, m.data)
	}
	return c.engine.Step(m.from, m.data)
}
