package wire

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	protocolMajor = 3

	// ProtocolMinorLong is the minor version that knows cancel keys of any length.
	ProtocolMinorLong = 2
)

// Startup is a client that has sent its start-up packet and is not yet
// authenticated. Its reads are limited (W4) until Authenticated is called,
// which Login does.
type Startup struct {
	Major, Minor   uint16            // the protocol spoken from here on: 3.0 to 3.2
	Params         map[string]string // without protocol options; "user" is never empty
	Ordered        []Param           // the same as they came, repetitions included
	UnknownOptions []string          // protocol options (_pq_.…) that were declined
	Conn           net.Conn          // possibly TLS; read it only through Reader
	TLS            *tls.ConnectionState
	Reader         *Reader   // holds what the client has already sent
	Deadline       time.Time // for the end of authentication

	budget *budgetConn
}

// Authenticated lifts the limits of an unauthenticated client: the deadline,
// the byte budget, and the refusal of every frame. Reader accepts
// FrontendLimits from now on.
func (s *Startup) Authenticated() error {
	s.budget.unlimited = true
	s.Reader.SetLimits(FrontendLimits())
	return s.Conn.SetDeadline(time.Time{})
}

// Refuse tells the client e as FATAL, within one second. The caller closes
// the connection.
func (s *Startup) Refuse(e *SQLError) error { return refuse(s.Conn, e) }

const refuseTimeout = time.Second

func refuse(conn net.Conn, e *SQLError) error { return lastWords(conn, e.AsFatal().Append(nil)) }

// refuseOld is refuse for a client of a protocol before 3.0, as send_message_to_frontend in
// PostgreSQL's elog.c does it.
func refuseOld(conn net.Conn, e *SQLError) error {
	return lastWords(conn, fmt.Appendf(nil, "E%s:  %s\n\x00", SeverityFatal, e.Message))
}

func lastWords(conn net.Conn, b []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(refuseTimeout)); err != nil {
		return err
	}
	_, err := conn.Write(b)
	return err
}

// CancelRequest asks to cancel what the session with this key is doing. It
// gets no answer; the connection is closed.
type CancelRequest struct {
	PID    uint32
	Secret []byte
}

// String leaves out the secret (W5).
func (c CancelRequest) String() string { return fmt.Sprintf("cancel request for pid %d", c.PID) }

// decodeCancel reads a CancelRequest after its code.
func decodeCancel(body []byte) (*CancelRequest, error) {
	if len(body) < 4 {
		return nil, fatalProtocol("invalid length of cancel request packet")
	}
	secret := body[4:]
	if len(secret) == 0 || len(secret) > cancelKeyBytesMax {
		return nil, fatalProtocol("invalid length of cancel key in cancel request packet")
	}
	return &CancelRequest{PID: binary.BigEndian.Uint32(body), Secret: bytes.Clone(secret)}, nil
}

// decodeStartup reads a StartupMessage from its protocol version on. minor is
// the minor version the client asked for, s.Minor the one it gets, minorMax at most. The rules
// are those of ProcessStartupPacket in PostgreSQL's backend_startup.c; that there must be a user
// is for the caller to say, after it has answered to the version.
func decodeStartup(body []byte, minorMax uint16) (s *Startup, minor uint16, err error) {
	version := binary.BigEndian.Uint32(body)
	major, minor := uint16(version>>16), uint16(version)
	if major != protocolMajor {
		return nil, 0, Fatalf(CodeFeatureNotSupported,
			"unsupported frontend protocol %d.%d: server supports %d.0 to %d.%d",
			major, minor, protocolMajor, protocolMajor, minorMax)
	}
	s = &Startup{Major: major, Minor: min(minor, minorMax), Params: map[string]string{}}
	c := cursor{b: body[4:]}
	for {
		name := c.str()
		if c.err != nil || name == "" {
			break
		}
		value := c.str()
		if strings.HasPrefix(name, "_pq_.") {
			s.UnknownOptions = append(s.UnknownOptions, name)
			continue
		}
		s.Params[name] = value
		s.Ordered = append(s.Ordered, Param{name, value})
	}
	if c.end() != nil {
		return nil, 0, fatalProtocol("invalid startup packet layout: expected terminator as last byte")
	}
	return s, minor, nil
}

// budgetConn counts what is read from an unauthenticated client, and gives
// back first what was read ahead.
type budgetConn struct {
	net.Conn
	ahead     []byte
	left      int
	unlimited bool
}

func (c *budgetConn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	if c.unlimited {
		return c.Conn.Read(p)
	}
	if c.left == 0 {
		return 0, fatalProtocol("more than %d bytes before authentication", preAuthBytesMax)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// NetConn returns the connection as it was accepted.
func (c *budgetConn) NetConn() net.Conn { return c.Conn }
