package wire

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// dialogue is what a client says before it is logged in, in the clear or in TLS. What is left out: of packets that are
// none a server says nothing, and Accept why; to a request for GSS encryption many servers say yes.
type dialogue struct {
	name string
	last []byte // a start-up packet, and what the client sends right behind
	old  bool   // it expects no frames
}

// cutStartup is a start-up packet whose last bytes are missing.
func cutStartup(n int) []byte {
	b := userStartup(0, Param{"database", "postgres"})
	b = b[:len(b)-n]
	b[3] = byte(len(b))
	return b
}

func dialogues() []dialogue {
	trusted := func(major, minor uint16, more ...Param) []byte {
		return AppendStartup(nil, major, minor, append([]Param{{"user", "u_trust"}, {"database", "postgres"}}, more...))
	}
	return []dialogue{
		{name: "3.0", last: trusted(3, 0)},
		{name: "3.1", last: trusted(3, 1)},
		{name: "3.2", last: trusted(3, 2)},
		{name: "a version that is never used", last: trusted(3, 9999, Param{"_pq_.test_protocol_negotiation", ""})},
		{name: "protocol options", last: trusted(3, 0, Param{"_pq_.b", "1"}, Param{"application_name", "x"},
			Param{"_pq_.a", ""}, Param{"_pq_.b", "2"})},
		{name: "3.2 with protocol options", last: trusted(3, 2, Param{"_pq_.a", "x"})},
		{name: "what only looks like a protocol option", last: trusted(3, 0, Param{"_PQ_.a", "x"})},
		{name: "1.0", last: trusted(1, 0), old: true},
		{name: "2.0", last: trusted(2, 0), old: true},
		{name: "4.0", last: trusted(4, 0)},
		{name: "no user", last: AppendStartup(nil, 3, 0, []Param{{"database", "postgres"}})},
		{name: "no user, 3.2", last: AppendStartup(nil, 3, 2, []Param{{"database", "postgres"}, {"_pq_.a", "x"}})},
		{name: "no parameters", last: AppendStartup(nil, 3, 0, nil)},
		{name: "no such database, 3.2", last: AppendStartup(nil, 3, 2,
			[]Param{{"user", "u_trust"}, {"database", "nowhere"}})},
		{name: "no such parameter", last: trusted(3, 0, Param{"no_such", "x"})},
		{name: "cut by 1", last: cutStartup(1)},
		{name: "cut by 2", last: cutStartup(2)},
		{name: "password of the wrong type", last: append(AppendStartup(nil, 3, 0,
			[]Param{{"user", "u_pw"}, {"database", "postgres"}}), AppendQuery(nil, "select 1")...)},
		{name: "cancel of nobody", last: AppendCancelRequest(nil, 1, []byte{1, 2, 3, 4})},
	}
}

// say carries a dialogue out and renders the answers.
func (d *dialogue) say(t *testing.T, addr string, secure *tls.Config) string {
	t.Helper()
	conn := must[net.Conn](t)(net.Dial("tcp", addr))
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	var said strings.Builder
	if secure != nil {
		conn.Write(AppendSSLRequest(nil))
		wantByte(t, conn, 'S')
		conn = tls.Client(conn, secure)
	}
	conn.Write(d.last)
	if d.old {
		b, err := io.ReadAll(firstFrames{conn})
		return fmt.Sprintf("%q %v", b, err)
	}
	r := NewReader(firstFrames{conn}, BackendLimits())
	for {
		f, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(&said, err)
			}
			return said.String() + "(closed)\n"
		}
		said.WriteString(render(f))
		if f.Type == TypeReadyForQuery {
			return said.String()
		}
	}
}

// render leaves out what differs from session to session, and where in the source an error comes from.
func render(f Frame) string {
	switch f.Type {
	case TypeParameterStatus:
		return ""
	case TypeBackendKeyData:
		return fmt.Sprintf("key of %d bytes\n", len(f.Body())-4)
	case TypeErrorResponse:
		e, err := DecodeErrorFields(f.Body())
		return fmt.Sprintf("%s %s: %s; detail %q, hint %q %v\n", e.Severity, e.Code, e.Message, e.Detail, e.Hint, err)
	}
	return fmt.Sprintf("%c %x\n", f.Type, f.Body())
}

// files writes the certificate where the server can read it.
func (s *testServer) files(c tls.Certificate) (cert, key string) {
	s.t.Helper()
	cert, key = filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	der := must[[]byte](s.t)(x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey)))
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: c.Certificate[0]},
		key: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			s.t.Fatal(err)
		}
		if s.attr != nil {
			if err := os.Chown(path, int(s.attr.Credential.Uid), int(s.attr.Credential.Gid)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return cert, key
}

// TestPostgresSaysTheSame compares what a server says of start-up packets with what Accept and Login say in front of
// it.
func TestPostgresSaysTheSame(t *testing.T) {
	serverTLS, clientTLS := tlsConfigs(t)
	server := startPostgres(t, serverTLS.Certificates[0])
	r := startRelay(t, server, FrontOptions{TLS: serverTLS}, LoginOptions{AllowTrust: true})
	for _, d := range dialogues() {
		for _, c := range []struct {
			name   string
			secure *tls.Config
		}{{"in the clear", nil}, {"in TLS", clientTLS}} {
			want, got := d.say(t, server.addr, c.secure), d.say(t, r.addr.String(), c.secure)
			if got != want {
				t.Errorf("%s, %s: got\n%swant\n%s", d.name, c.name, got, want)
			}
		}
	}
	for _, inside := range [][]byte{AppendSSLRequest(nil), AppendGSSENCRequest(nil)} {
		d := dialogue{last: inside} // once more
		if want, got := d.say(t, server.addr, clientTLS), d.say(t, r.addr.String(), clientTLS); got != want {
			t.Errorf("%x inside TLS: got\n%swant\n%s", inside, got, want)
		}
	}
}

// freePort is one that nobody listened to a moment ago.
func freePort(t *testing.T) string {
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
