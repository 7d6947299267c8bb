package wire

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// tlsConfigs makes a self-signed certificate for "localhost".
func tlsConfigs(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	pool := x509.NewCertPool()
	pool.AddCert(must[*x509.Certificate](t)(x509.ParseCertificate(der)))
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: pool, ServerName: "localhost"}
}

type accepted struct {
	startup *Startup
	cancel  *CancelRequest
	err     error
}

// tcpPair returns both ends of a TCP connection.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	client = must[net.Conn](t)(net.Dial("tcp", l.Addr().String()))
	server = must[net.Conn](t)(l.Accept())
	client.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// startAccept runs Accept on one end and returns the other.
func startAccept(t *testing.T, o FrontOptions) (net.Conn, chan accepted) {
	t.Helper()
	client, server := tcpPair(t)
	done := make(chan accepted, 1)
	go func() {
		s, c, err := Accept(server, o)
		if err != nil {
			server.(*net.TCPConn).CloseWrite()
		}
		done <- accepted{s, c, err}
	}()
	return client, done
}

func userStartup(minor uint16, more ...Param) []byte {
	return AppendStartup(nil, 3, minor, append([]Param{{"user", "u"}}, more...))
}

func TestAcceptStartup(t *testing.T) {
	for name, c := range map[string]struct {
		send    []byte
		minor   uint16
		unknown []string
		answer  []byte
	}{
		"3.0":    {send: userStartup(0)},
		"3.1":    {send: userStartup(1), minor: 1},
		"3.2":    {send: userStartup(2), minor: 2},
		"3.9999": {send: userStartup(9999), minor: 2, answer: AppendNegotiateProtocolVersion(nil, 2, nil)},
		"option": {send: userStartup(0, Param{"_pq_.a", "1"}), unknown: []string{"_pq_.a"},
			answer: AppendNegotiateProtocolVersion(nil, 0, []string{"_pq_.a"})},
		"3.3 option": {send: userStartup(3, Param{"_pq_.a", "1"}), minor: 2, unknown: []string{"_pq_.a"},
			answer: AppendNegotiateProtocolVersion(nil, 2, []string{"_pq_.a"})},
	} {
		conn, done := startAccept(t, FrontOptions{MinorMax: ProtocolMinorLong})
		conn.Write(c.send)
		a := <-done
		if a.err != nil || a.cancel != nil {
			t.Errorf("%s: %v", name, a.err)
			continue
		}
		equal(t, name, []any{a.startup.Major, a.startup.Minor, a.startup.UnknownOptions, a.startup.Ordered},
			[]any{uint16(3), c.minor, c.unknown, []Param{{"user", "u"}}})
		a.startup.Conn.Close()
		got := must[[]byte](t)(io.ReadAll(conn))
		equal(t, name+" answer", append([]byte{}, got...), append([]byte{}, c.answer...))
	}
}

func TestAcceptParams(t *testing.T) {
	conn, done := startAccept(t, FrontOptions{})
	params := []Param{{"user", "u"}, {"database", "d"}, {"a", "1"}, {"a", "2"}, {"empty", ""}}
	conn.Write(AppendStartup(nil, 3, 0, params))
	s := (<-done).startup
	equal(t, "ordered", s.Ordered, params)
	equal(t, "map", s.Params, map[string]string{"user": "u", "database": "d", "a": "2", "empty": ""})
	if s.TLS != nil || time.Until(s.Deadline) > AuthTimeoutDefault || time.Until(s.Deadline) < AuthTimeoutDefault/2 {
		t.Error(s.TLS, s.Deadline)
	}
}

func TestAcceptCancel(t *testing.T) {
	for _, n := range []int{4, 32, 256} {
		conn, done := startAccept(t, FrontOptions{RequireTLS: true})
		secret := bytes.Repeat([]byte{'k'}, n)
		conn.Write(AppendCancelRequest(nil, 77, secret))
		a := <-done
		if a.err != nil || a.startup != nil || a.cancel.PID != 77 || !bytes.Equal(a.cancel.Secret, secret) {
			t.Errorf("%d: %+v", n, a)
		}
		if s := a.cancel.String(); strings.Contains(s, "k, ") || !strings.Contains(s, "77") ||
			strings.Contains(s, "kkk") {
			t.Error(s)
		}
	}
}

// What PostgreSQL refuses is refused in its words.
func TestAcceptRefuses(t *testing.T) {
	serverTLS, _ := tlsConfigs(t)
	const layout = "invalid startup packet layout: expected terminator as last byte"
	ssl := func(more []byte) []byte { return append(AppendSSLRequest(nil), more...) }
	for name, c := range map[string]struct {
		send    []byte
		options FrontOptions
		code    string
		message string
	}{
		"length 7": {send: []byte{0, 0, 0, 7}, code: "08P01", message: "invalid length of startup packet"},
		"length 0": {send: []byte{0, 0, 0, 0}, code: "08P01", message: "invalid length of startup packet"},
		"length 10005": {send: []byte{0, 0, 0x27, 0x15}, code: "08P01",
			message: "invalid length of startup packet"},
		"http": {send: []byte("GET / HTTP/1.1\r\n\r\n"), code: "08P01",
			message: "invalid length of startup packet"},
		"4.1": {send: AppendStartup(nil, 4, 1, nil), code: "0A000",
			message: "unsupported frontend protocol 4.1: server supports 3.0 to 3.0"},
		"no user": {send: AppendStartup(nil, 3, 0, []Param{{"database", "d"}}), code: "28000",
			message: "no PostgreSQL user name specified in startup packet"},
		"empty user": {send: AppendStartup(nil, 3, 0, []Param{{"user", ""}}), code: "28000",
			message: "no PostgreSQL user name specified in startup packet"},
		"no terminator": {send: []byte("\x00\x00\x00\x0f\x00\x03\x00\x00user\x00u\x00"), code: "08P01",
			message: layout},
		"no value": {send: []byte("\x00\x00\x00\x0d\x00\x03\x00\x00user\x00"), code: "08P01",
			message: layout},
		"after terminator": {send: []byte("\x00\x00\x00\x11\x00\x03\x00\x00user\x00u\x00\x00x"), code: "08P01",
			message: layout},
		"no params": {send: []byte("\x00\x00\x00\x08\x00\x03\x00\x00"), code: "08P01", message: layout},
		"cancel without key": {send: AppendCancelRequest(nil, 1, nil), code: "08P01",
			message: "invalid length of cancel key in cancel request packet"},
		"cancel key 257": {send: AppendCancelRequest(nil, 1, make([]byte, 257)), code: "08P01",
			message: "invalid length of cancel key in cancel request packet"},
		"cancel without pid": {send: []byte("\x00\x00\x00\x08\x04\xd2\x16\x2e"), code: "08P01",
			message: "invalid length of cancel request packet"},
		"ahead of SSL": {send: ssl(userStartup(0)), options: FrontOptions{TLS: serverTLS}, code: "08P01",
			message: "received unencrypted data after SSL request"},
		"ahead of declined": {send: ssl(userStartup(0)), code: "08P01",
			message: "received unencrypted data after SSL request"},
		"ahead of GSS": {send: append(AppendGSSENCRequest(nil), 'x'), code: "08P01",
			message: "received unencrypted data after GSSAPI encryption request"},
		"long SSL request": {send: []byte("\x00\x00\x00\x09\x04\xd2\x16\x2fx"), code: "08P01",
			message: "invalid length of startup packet"},
		"encryption required": {send: userStartup(0), options: FrontOptions{TLS: serverTLS, RequireTLS: true},
			code: "28000", message: "connections without encryption are not allowed"},
	} {
		conn, done := startAccept(t, c.options)
		conn.Write(c.send)
		a := <-done
		if a.err == nil || a.startup != nil || a.cancel != nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		wantFatal(t, name, conn, c.code, c.message)
	}
}

// A client of protocol 2 or 1 is told in its own form.
func TestAcceptRefusesOld(t *testing.T) {
	conn, done := startAccept(t, FrontOptions{})
	conn.Write(AppendStartup(nil, 2, 0, nil))
	if a := <-done; a.err == nil {
		t.Error("accepted")
	}
	b, err := io.ReadAll(conn)
	if want := "EFATAL:  unsupported frontend protocol 2.0: server supports 3.0 to 3.0\n\x00"; string(b) != want ||
		err != nil {
		t.Errorf("got %q, %v, want %q", b, err, want)
	}
}

// wantFatal reads one FATAL and the end of the stream.
func wantFatal(t *testing.T, name string, conn io.Reader, code, message string) {
	t.Helper()
	r := NewReader(conn, BackendLimits())
	f, err := r.Next()
	if err != nil || f.Type != TypeErrorResponse {
		t.Errorf("%s: %c, %v", name, f.Type, err)
		return
	}
	fields, err := DecodeErrorFields(f.Body())
	if err != nil || fields.Severity != "FATAL" || fields.SeverityUnlocalized != "FATAL" || fields.Code != code ||
		fields.Message != message {
		t.Errorf("%s: got %+v %v, want %s %q", name, fields, err, code, message)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("%s: after the FATAL: %v", name, err)
	}
}

// answers reads single bytes.
func wantByte(t *testing.T, conn io.Reader, want byte) {
	t.Helper()
	var b [1]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil || b[0] != want {
		t.Fatalf("got %q, %v, want %q", b[0], err, want)
	}
}

func TestAcceptDeclines(t *testing.T) {
	for _, order := range [][][]byte{
		{AppendGSSENCRequest(nil), AppendSSLRequest(nil)},
		{AppendSSLRequest(nil), AppendGSSENCRequest(nil)},
	} {
		conn, done := startAccept(t, FrontOptions{})
		for _, request := range order {
			conn.Write(request)
			wantByte(t, conn, 'N')
		}
		conn.Write(userStartup(0))
		if a := <-done; a.err != nil || a.startup.Params["user"] != "u" {
			t.Error(a.err)
		}
	}
	// a second time is a bad version
	for _, request := range [][]byte{AppendSSLRequest(nil), AppendGSSENCRequest(nil)} {
		conn, done := startAccept(t, FrontOptions{})
		conn.Write(request)
		wantByte(t, conn, 'N')
		conn.Write(request)
		if a := <-done; a.err == nil || !strings.Contains(a.err.Error(), "unsupported frontend protocol 1234.56") {
			t.Error(a.err)
		}
	}
}

func TestAcceptTLS(t *testing.T) {
	serverTLS, clientTLS := tlsConfigs(t)
	conn, done := startAccept(t, FrontOptions{TLS: serverTLS, RequireTLS: true, MinorMax: ProtocolMinorLong})
	conn.Write(AppendGSSENCRequest(nil))
	wantByte(t, conn, 'N')
	conn.Write(AppendSSLRequest(nil))
	wantByte(t, conn, 'S')
	secure := tls.Client(conn, clientTLS)
	secure.Write(append(userStartup(2), AppendPasswordMessage(nil, "early")...))
	a := <-done
	if a.err != nil || a.startup.TLS == nil || a.startup.TLS.Version < tls.VersionTLS12 || a.startup.Minor != 2 {
		t.Fatalf("%+v", a)
	}
	if a.startup.Reader.BufferedBytes() == 0 {
		t.Error("what the client sent inside TLS was lost")
	}
	if _, ok := a.startup.Conn.(*tls.Conn); !ok {
		t.Errorf("connection is a %T", a.startup.Conn)
	}
	if serverTLS.NextProtos != nil || serverTLS.MinVersion != 0 {
		t.Error("the caller's configuration was changed")
	}
}

// Inside TLS there is no second negotiation.
func TestAcceptTLSOnce(t *testing.T) {
	serverTLS, clientTLS := tlsConfigs(t)
	for _, request := range [][]byte{AppendSSLRequest(nil), AppendGSSENCRequest(nil)} {
		conn, done := startAccept(t, FrontOptions{TLS: serverTLS})
		conn.Write(AppendSSLRequest(nil))
		wantByte(t, conn, 'S')
		secure := tls.Client(conn, clientTLS)
		secure.Write(request)
		f, err := NewReader(secure, BackendLimits()).Next()
		if err != nil || f.Type != 'E' || !bytes.Contains(f.Raw, []byte("unsupported frontend protocol 1234.56")) {
			t.Error(err, string(f.Raw))
		}
		if a := <-done; a.err == nil {
			t.Error("accepted")
		}
	}
}

func TestAcceptDirectTLS(t *testing.T) {
	serverTLS, clientTLS := tlsConfigs(t)
	for _, c := range []struct {
		alpn    []string
		version uint16
		wantErr string
	}{
		{[]string{"postgresql"}, 0, ""},
		{[]string{"h2", "postgresql"}, tls.VersionTLS12, ""},
		{nil, 0, "without ALPN"},
		{[]string{"h2"}, 0, "TLS handshake"},
		{[]string{"postgresql"}, tls.VersionTLS11, "TLS handshake"},
	} {
		conn, done := startAccept(t, FrontOptions{TLS: serverTLS})
		config := clientTLS.Clone()
		config.NextProtos = c.alpn
		if c.version != 0 {
			config.MinVersion, config.MaxVersion = tls.VersionTLS10, c.version
		}
		secure := tls.Client(conn, config)
		secure.Write(userStartup(0))
		a := <-done
		if c.wantErr == "" && (a.err != nil || a.startup.TLS == nil) ||
			c.wantErr != "" && (a.err == nil || !strings.Contains(a.err.Error(), c.wantErr)) {
			t.Errorf("%v: %v, want %q", c.alpn, a.err, c.wantErr)
		}
		if c.alpn == nil {
			wantFatal(t, "no ALPN", firstFrames{secure}, "08P01",
				"received direct SSL connection request without ALPN protocol negotiation extension")
		}
	}
	conn, done := startAccept(t, FrontOptions{})
	go tls.Client(conn, clientTLS).Handshake()
	if a := <-done; a.err == nil || !strings.Contains(a.err.Error(), "TLS is not configured") {
		t.Error(a.err)
	}
}

// firstFrames reads a missing close_notify as the end of the stream.
type firstFrames struct{ io.Reader }

func (f firstFrames) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// A slow client is cut off on time, however it drips.
func TestAcceptSlowloris(t *testing.T) {
	conn, done := startAccept(t, FrontOptions{AuthTimeout: 150 * time.Millisecond})
	start := time.Now()
	go func() {
		for _, b := range userStartup(0, Param{"a", strings.Repeat("x", 500)}) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond) // ten seconds in all
		}
	}()
	a := <-done
	if !errors.Is(a.err, os.ErrDeadlineExceeded) || time.Since(start) > 6*time.Second {
		t.Fatal(a.err, time.Since(start))
	}
}

func TestAcceptEOF(t *testing.T) {
	for n, want := range map[int]error{0: io.EOF, 3: io.ErrUnexpectedEOF, 10: io.ErrUnexpectedEOF} {
		conn, done := startAccept(t, FrontOptions{})
		conn.Write(userStartup(0)[:n])
		conn.Close()
		if a := <-done; a.err != want {
			t.Errorf("after %d bytes: %v", n, a.err)
		}
	}
}

// An unauthenticated client gets 64 KiB, TLS included (W4).
func TestAcceptBudget(t *testing.T) {
	client, server := tcpPair(t)
	go client.Write(append(userStartup(0), make([]byte, 70_000)...))
	s, _, err := Accept(server, FrontOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Reader.SetLimits(makeLimits("%d", map[uint32]string{1 << 20: "\x00"}))
	n, err := io.Copy(io.Discard, s.Conn)
	wantProtocolError(t, "budget", err, SeverityFatal)
	if total := int(n) + s.Reader.BufferedBytes() + len(userStartup(0)); total != preAuthBytesMax {
		t.Errorf("%d bytes were read", total)
	}
	if err := s.Authenticated(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyN(io.Discard, s.Conn, 4_000); err != nil {
		t.Fatal(n, err)
	}
}

// Before authentication no frame is accepted, after it the frontend's.
func TestAcceptReaderLimits(t *testing.T) {
	client, server := tcpPair(t)
	client.Write(append(userStartup(0), AppendQuery(nil, "select 1")...))
	s, _, err := Accept(server, FrontOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Authenticated(); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Reader.Next(); err != nil || f.Type != 'Q' {
		t.Fatal(err)
	}
	client.Write(AppendPasswordMessage(nil, "late"))
	_, err = s.Reader.Next()
	wantProtocolError(t, "late password", err, SeverityFatal)
}
