package wire

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// AuthTimeoutDefault bounds the time from accept to the end of authentication.
const AuthTimeoutDefault = 10 * time.Second

const (
	alpnProtocol       = "postgresql"
	tlsHandshakeRecord = 0x16
	aheadBytesMax      = 4 << 10 // read ahead in the clear, to notice what must not be there
)

// FrontOptions say how clients are let in.
type FrontOptions struct {
	// TLS is the server's certificate and policy; nil: TLS is declined.
	// Accept sets at least TLS 1.2 and the protocol "postgresql" on a copy.
	TLS *tls.Config
	// RequireTLS refuses sessions in the clear; cancel requests are taken.
	RequireTLS bool
	// MinorMax is the highest minor version of protocol 3 that is spoken: that of the server
	// behind, so that a client learns from it what it would learn there. Above
	// ProtocolMinorLong nothing is known.
	MinorMax uint16
	// AuthTimeout covers Accept and Login together. 0: AuthTimeoutDefault.
	// Too short hurts slow links, too long lets idle strangers hold sockets.
	AuthTimeout time.Duration
}

// Accept negotiates with a client until it has sent a start-up packet or a
// cancel request; exactly one result is not nil. It sets a deadline on conn
// that Startup.Authenticated lifts.
//
// On an error the client has been told what PostgreSQL would tell it (W6) and
// the caller closes conn. io.EOF means that the peer left between two packets,
// as port probes do.
func Accept(conn net.Conn, o FrontOptions) (*Startup, *CancelRequest, error) {
	if o.AuthTimeout == 0 {
		o.AuthTimeout = AuthTimeoutDefault
	}
	raw := &budgetConn{Conn: conn, left: preAuthBytesMax}
	n := &negotiation{options: o, raw: raw, conn: raw, deadline: time.Now().Add(o.AuthTimeout)}
	if err := conn.SetDeadline(n.deadline); err != nil {
		return nil, nil, fmt.Errorf("set the deadline of a new client: %w", err)
	}
	s, c, err := n.run()
	if err == nil {
		return s, c, nil
	}
	if e := toClient(err); e != nil && !n.mute {
		say := refuse
		if n.old {
			say = refuseOld
		}
		if werr := say(n.conn, e); werr != nil {
			err = errors.Join(err, werr)
		}
	}
	return nil, nil, err
}

// StartupError refuses a client that has said who it wants to be.
type StartupError struct {
	Params map[string]string // of its start-up packet
	Err    *SQLError
}

func (e *StartupError) Error() string { return e.Err.Error() }

// Unwrap returns what the client was told.
func (e *StartupError) Unwrap() error { return e.Err }

// negotiation is the state of one Accept.
//
//	start ──0x16──→ TLS ─────────┐
//	  │ ├─SSLRequest─→ 'S' TLS ──┤ (then no request but start-up or cancel)
//	  │ ├─SSLRequest─→ 'N' ──────┤ (then GSSENCRequest once)
//	  │ └─GSSENCRequest→ 'N' ────┤ (then SSLRequest once)
//	  └──────────────────────────┴─→ start-up packet or cancel request
type negotiation struct {
	options  FrontOptions
	raw      *budgetConn
	conn     net.Conn // raw, or TLS over it
	tls      *tls.ConnectionState
	deadline time.Time
	buf      []byte // read, not yet used
	sslDone  bool
	gssDone  bool
	mute     bool // inside a handshake: nothing can be said
	old      bool // the client speaks a protocol before 3.0
}

func (n *negotiation) run() (*Startup, *CancelRequest, error) {
	if err := n.fill(1); err != nil {
		return nil, nil, err
	}
	if n.buf[0] == tlsHandshakeRecord {
		if err := n.directTLS(); err != nil {
			return nil, nil, err
		}
	}
	for {
		body, err := n.packet()
		if err != nil {
			return nil, nil, err
		}
		code := binary.BigEndian.Uint32(body)
		switch {
		case code == codeCancelRequest:
			c, err := decodeCancel(body[4:])
			return nil, c, err
		case code == codeSSLRequest && !n.sslDone:
			err = n.sslRequest(body)
		case code == codeGSSENCRequest && !n.gssDone:
			err = n.gssRequest(body)
		default:
			s, err := n.startup(body)
			return s, nil, err
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// fill reads until size bytes are buffered.
func (n *negotiation) fill(size int) error {
	for len(n.buf) < size {
		have := len(n.buf)
		n.buf = slices.Grow(n.buf, max(size-have, aheadBytesMax))
		got, err := n.conn.Read(n.buf[have : have+max(size-have, aheadBytesMax)])
		n.buf = n.buf[:have+got]
		if err != nil && len(n.buf) < size {
			if errors.Is(err, io.EOF) && len(n.buf) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// packet returns the next start-up, cancel or negotiation packet without its
// length word; it is at least 4 bytes long.
func (n *negotiation) packet() ([]byte, error) {
	if err := n.fill(4); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(n.buf)
	if length < 8 || length > startupBytesMax+4 {
		return nil, fatalProtocol("invalid length of startup packet")
	}
	if err := n.fill(int(length)); err != nil {
		return nil, err
	}
	body := n.buf[4:length:length]
	n.buf = n.buf[length:]
	return body, nil
}

// sslRequest answers an SSLRequest.
func (n *negotiation) sslRequest(body []byte) error {
	if err := n.nothingAhead(body, "SSL"); err != nil {
		return err
	}
	n.sslDone = true
	if n.options.TLS == nil {
		return n.answer('N')
	}
	n.gssDone = true
	if err := n.answer('S'); err != nil {
		return err
	}
	return n.handshake()
}

// gssRequest declines a GSSENCRequest.
func (n *negotiation) gssRequest(body []byte) error {
	if err := n.nothingAhead(body, "GSSAPI encryption"); err != nil {
		return err
	}
	n.gssDone = true
	return n.answer('N')
}

// nothingAhead enforces W3.
func (n *negotiation) nothingAhead(body []byte, what string) error {
	if len(body) != 4 {
		return fatalProtocol("invalid length of startup packet")
	}
	if len(n.buf) == 0 {
		return nil
	}
	e := fatalProtocol("received unencrypted data after %s request", what)
	e.Detail = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack."
	return e
}

func (n *negotiation) answer(b byte) error {
	_, err := n.conn.Write([]byte{b})
	return err
}

// directTLS starts TLS without an SSLRequest, which demands ALPN.
func (n *negotiation) directTLS() error {
	n.sslDone, n.gssDone = true, true
	if n.options.TLS == nil {
		n.mute = true
		return errors.New("client began a direct TLS connection, but TLS is not configured")
	}
	n.raw.ahead, n.buf = n.buf, nil
	if err := n.handshake(); err != nil {
		return err
	}
	if n.tls.NegotiatedProtocol != alpnProtocol {
		return fatalProtocol("received direct SSL connection request without ALPN protocol negotiation extension")
	}
	return nil
}

func (n *negotiation) handshake() error {
	config := n.options.TLS.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.NextProtos = []string{alpnProtocol}
	config.SessionTicketsDisabled = true // as PostgreSQL; a copy's ticket keys would be useless
	conn := tls.Server(n.raw, config)
	n.mute = true
	if err := conn.Handshake(); err != nil {
		return fmt.Errorf("TLS handshake with a client: %w", err)
	}
	state := conn.ConnectionState()
	n.conn, n.tls, n.mute = conn, &state, false
	return nil
}

// startup finishes the negotiation with a start-up packet.
func (n *negotiation) startup(body []byte) (*Startup, error) {
	n.old = binary.BigEndian.Uint16(body) < protocolMajor
	s, minor, err := decodeStartup(body, n.options.MinorMax)
	if err != nil {
		return nil, err
	}
	if minor > s.Minor || len(s.UnknownOptions) > 0 {
		if _, err := n.conn.Write(AppendNegotiateProtocolVersion(nil, s.Minor, s.UnknownOptions)); err != nil {
			return nil, err
		}
	}
	if s.Params["user"] == "" {
		return nil, Fatalf(CodeInvalidAuthorization, "no PostgreSQL user name specified in startup packet")
	}
	if n.options.RequireTLS && n.tls == nil {
		return nil, &StartupError{s.Params, Fatalf(CodeInvalidAuthorization,
			"connections without encryption are not allowed").
			WithHint("Connect with sslmode=require or stronger.")}
	}
	s.Conn, s.TLS, s.Deadline, s.budget = n.conn, n.tls, n.deadline, n.raw
	s.Reader = NewReader(n.conn, Limits{unknown: "message type %d before authentication"})
	s.Reader.unread(n.buf)
	return s, nil
}
