package transport

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Credentials are what a member proves itself with, and judges the others by.
type Credentials struct {
	// Secrets are shared by all members, and there is at least one. A dialer shows the first, and if that is refused
	// the next; an acceptor takes any. Each should have 32 random bytes: who records a handshake without TLS can try
	// out short ones.
	Secrets [][]byte
	// TLS, if set, is used on all connections: without it members talk in the clear.
	TLS *TLS
}

// TLS is a member's certificate, and who signs those of the others.
type TLS struct {
	Certificate tls.Certificate
	Authorities *x509.CertPool
}

// Refusals that are about certificates.
const (
	refusedAuthority refusal = 16
	refusedExpired   refusal = 17
	refusedUnfit     refusal = 18
	refusedClear     refusal = 19
)

// A TLS record with a handshake begins with these two bytes.
const (
	recordHandshake = 0x16
	recordVersion   = 0x03
)

// errSpeaksTLS is what an acceptor without TLS sees of a dialer with it.
var errSpeaksTLS = errors.New("the other side speaks TLS, and this member does not: it needs member_tls, too")

// errTLS is in the chain of what goes wrong before the handshake.
var errTLS = errors.New("TLS")

const (
	labelExporter = "EXPORTER-tutti-member-stream"
	labelChannel  = "tutti member stream 1 channel\x00"
	exporterBytes = 32
)

// channel is what TLS tells of a connection: the peer's certificates, its own one first, and bytes that only its two
// ends know. In the clear it is empty.
type channel struct {
	chain   []*x509.Certificate
	binding []byte
}

// bind gives the key for the proofs of a handshake on this channel. A proof that was made on one channel is worth
// nothing on another, so nobody who has a certificate can stand between two members and pass their proofs on.
func (c channel) bind(secret []byte) []byte {
	if c.binding == nil {
		return secret
	}
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(labelChannel))
	m.Write(c.binding)
	return m.Sum(nil)
}

// config is for both sides. crypto/tls makes sure that the peer has the key of its certificate; what that is worth says
// judge, so that an acceptor can tell why it refuses, and a dialer need not name the peer in the clear.
func (t *TLS) config() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{t.Certificate}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true,
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
	}
}

// channelOf is what TLS tells after its handshake.
func channelOf(conn *tls.Conn) (channel, error) {
	state := conn.ConnectionState()
	binding, err := state.ExportKeyingMaterial(labelExporter, nil, exporterBytes)
	return channel{state.PeerCertificates, binding}, err
}

// dial runs TLS, if there is any, as the dialer towards a member, whose certificate it judges before anything is sent
// to it.
func (c Credentials) dial(ctx context.Context, conn net.Conn, member uint32, name func(uint32) string) (net.Conn,
	channel, error) {
	if c.TLS == nil {
		return conn, channel{}, nil
	}
	config := c.TLS.config()
	config.VerifyConnection = func(s tls.ConnectionState) error { return c.judge(s.PeerCertificates, member, name) }
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		var judged refusal
		var late net.Error
		switch {
		case errors.As(err, &judged):
			err = fmt.Errorf("this member refuses it: %w", err)
		case !errors.As(err, &late) || !late.Timeout():
			err = fmt.Errorf("%w: %w; does the member there have member_tls?", errTLS, err)
		}
		return nil, channel{}, err
	}
	ch, err := channelOf(secured)
	return secured, ch, err
}

// accept runs TLS, if there is any, as the acceptor. The dialer's certificate is not judged yet.
func (c Credentials) accept(ctx context.Context, conn net.Conn) (net.Conn, channel, error) {
	if c.TLS == nil {
		return conn, channel{}, nil
	}
	secured := tls.Server(conn, c.TLS.config())
	if err := secured.HandshakeContext(ctx); err != nil {
		var header tls.RecordHeaderError
		var remote *net.OpError
		switch {
		case errors.As(err, &header) && strings.HasPrefix(magic, string(header.RecordHeader[:])):
			return nil, channel{}, refuse(conn, refusedClear)
		case errors.As(err, &remote) && remote.Op == "remote error" && strings.Contains(err.Error(), "certificate"):
			err = fmt.Errorf("%w: the other side does not accept this member's certificate, and its log says why: %w",
				errTLS, err)
		default:
			err = fmt.Errorf("%w: %w", errTLS, err)
		}
		return nil, channel{}, err
	}
	ch, err := channelOf(secured)
	return secured, ch, err
}

// judge says whether certificates, the owner's own one first, prove that the owner is this member. Without TLS there is
// nothing to judge.
func (c Credentials) judge(chain []*x509.Certificate, member uint32, name func(uint32) string) error {
	if c.TLS == nil {
		return nil
	}
	if err := c.TLS.Verify(chain, name(member), time.Now()); err != nil {
		return fmt.Errorf("member %d: %w", member, err)
	}
	return nil
}

// Verify says whether certificates, the owner's own one first, prove at this time that the owner is the member of this
// name.
func (t *TLS) Verify(chain []*x509.Certificate, name string, now time.Time) error {
	if len(chain) == 0 {
		return fmt.Errorf("%w: there is none", refusedUnfit)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: t.Authorities, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: %w; it was issued by %q", refusedAuthority, err, chain[0].Issuer)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: that of %q is valid from %s to %s", refusedExpired, invalid.Cert.Subject,
			invalid.Cert.NotBefore.Format(time.RFC3339), invalid.Cert.NotAfter.Format(time.RFC3339))
	case err != nil:
		return fmt.Errorf("%w: %w", refusedUnfit, err)
	}
	for _, n := range chain[0].DNSNames {
		if strings.EqualFold(n, name) {
			return nil
		}
	}
	return fmt.Errorf("%w: the member is %q, and the certificate is for %q (DNS names of subjectAltName)",
		refusedCertificate, name, chain[0].DNSNames)
}

// secretTurn is which of several secrets a dialer shows. While they are exchanged, not all members have the first one
// yet.
type secretTurn struct {
	index   int // of the one that is shown
	refused int // in a row
}

func (s *secretTurn) of(secrets [][]byte) []byte { return secrets[s.index%len(secrets)] }

// next goes on to the next secret, of n, after one was refused. It is false when all were.
func (s *secretTurn) next(n int) bool {
	s.index, s.refused = (s.index+1)%n, s.refused+1
	return s.refused%n != 0
}
