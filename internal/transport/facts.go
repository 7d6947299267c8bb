package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The second part of the handshake, between members that have proved themselves. Each says what its owner
// wants the other to know, and each judges that before any frame is sent:
//
//	D → A  facts of D
//	A → D  facts of A
//	D → A  D's judgement of A: empty, or why D does not talk to A
//	A → D  A's judgement of D
//
// Both have the other's facts also where one refuses, and both know why. Each message has four bytes of length.

const (
	factsBytesMax     = 32 << 20
	judgementBytesMax = 64 << 10
)

// Refused is why a member that has proved itself is not talked to: one of the two does not accept the other's facts.
type Refused struct {
	Member uint32 // the other one
	Here   bool   // this member refuses it; else the other one refuses
	Why    string
}

func (r *Refused) Error() string {
	if r.Here {
		return fmt.Sprintf("member %d is refused: %s", r.Member, r.Why)
	}
	return fmt.Sprintf("member %d refuses this member: %s", r.Member, r.Why)
}

// exchangeAsDialer tells the acceptor this member's facts, hears and judges its.
func (t *Transport) exchangeAsDialer(rw io.ReadWriter, to uint32) error {
	if err := writeText(rw, t.facts()); err != nil {
		return err
	}
	theirs, err := readText(rw, factsBytesMax)
	if err != nil {
		return err
	}
	here := t.judge(to, theirs)
	if err := writeText(rw, reason(here)); err != nil {
		return err
	}
	there, err := readText(rw, judgementBytesMax)
	return verdictOf(to, here, there, err)
}

// exchangeAsAcceptor hears a dialer's facts, tells this member's, and judges the dialer's.
func (t *Transport) exchangeAsAcceptor(rw io.ReadWriter, from uint32) error {
	theirs, err := readText(rw, factsBytesMax)
	if err != nil {
		return err
	}
	if err := writeText(rw, t.facts()); err != nil {
		return err
	}
	here := t.judge(from, theirs)
	there, err := readText(rw, judgementBytesMax)
	if e := writeText(rw, reason(here)); err == nil {
		err = e
	}
	return verdictOf(from, here, there, err)
}

func (t *Transport) facts() []byte {
	if t.o.Facts == nil {
		return nil
	}
	return t.o.Facts()
}

func (t *Transport) judge(member uint32, facts []byte) error {
	if t.o.Judge == nil {
		return nil
	}
	return t.o.Judge(member, facts)
}

// reason is a judgement as it is sent.
func reason(err error) []byte {
	if err == nil {
		return nil
	}
	text := []byte(err.Error())
	return text[:min(len(text), judgementBytesMax)]
}

// verdictOf puts both judgements together. err is why the other's was not heard.
func verdictOf(member uint32, here error, there []byte, err error) error {
	switch {
	case here != nil:
		return &Refused{Member: member, Here: true, Why: here.Error()}
	case err != nil:
		return err
	case len(there) > 0:
		return &Refused{Member: member, Why: string(there)}
	}
	return nil
}

func writeText(w io.Writer, text []byte) error {
	_, err := w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func readText(r io.Reader, bytesMax uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("the handshake was not finished: %w", err)
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length > bytesMax {
		return nil, errGarbage
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("the handshake was not finished: %w", err)
	}
	return text, nil
}

var errRenewed = errors.New("the connection is made anew, with new facts")

// Renew ends this member's connections to the others and makes them anew: what it says of itself has changed. Frames
// that are queued are lost. A connection that is being made meanwhile is ended, too; when Renew returns, nothing is
// sent any more to a member that has not heard of what Options.Facts gives by then.
func (t *Transport) Renew() {
	for _, p := range *t.peers.Load() { // order-free: each by itself
		p.renew()
	}
}

// current is the connection a peer has, or is making.
func (p *peer) hold(c net.Conn) {
	p.mu.Lock()
	p.conn, p.renewed = c, false
	p.mu.Unlock()
}

// release forgets it, and reports whether Renew has ended it.
func (p *peer) release() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	renewed := p.renewed
	p.conn, p.renewed = nil, false
	return renewed
}

func (p *peer) renew() {
	p.mu.Lock()
	if p.conn != nil {
		p.renewed = true
		p.conn.Close()
	}
	p.mu.Unlock()
	p.hurry()
}

// hurry has the dialer try again now.
func (p *peer) hurry() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}
