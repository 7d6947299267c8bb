package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// scripted is one Login between a client and a server that the test plays.
type scripted struct {
	t       *testing.T
	client  net.Conn
	fromUs  *Reader // what the client receives
	backend net.Conn
	request *Reader // what the server receives, after the start-up packet
	done    chan loggedIn
}

type loggedIn struct {
	result *LoginResult
	err    error
}

func startLogin(t *testing.T, timeout time.Duration, o LoginOptions, params []Param) *scripted {
	t.Helper()
	client, front := tcpPair(t)
	backend, back := tcpPair(t)
	client.Write(userStartup(2))
	startup, _, err := Accept(front, FrontOptions{AuthTimeout: timeout, MinorMax: ProtocolMinorLong})
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{t: t, client: client, fromUs: NewReader(client, BackendLimits()), backend: backend,
		done: make(chan loggedIn, 1)}
	s.request = NewReader(backend, makeLimits("%d", map[uint32]string{1 << 20: "p"}))
	go func() {
		r, err := Login(startup, back, params, o)
		if err != nil {
			front.(*net.TCPConn).CloseWrite()
			back.Close()
		}
		s.done <- loggedIn{r, err}
	}()
	sent := params
	if sent == nil {
		sent = []Param{{"user", "u"}}
	}
	want := AppendStartup(nil, 3, 0, sent)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(backend, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("start-up packet %q, %v, want %q", got, err, want)
	}
	return s
}

// clientGets checks the next frame at the client.
func (s *scripted) clientGets(want []byte) {
	s.t.Helper()
	if f, err := s.fromUs.Next(); err != nil || !bytes.Equal(f.Raw, want) {
		s.t.Fatalf("client got %q, %v, want %q", f.Raw, err, want)
	}
}

func (s *scripted) serverGets(want []byte) {
	s.t.Helper()
	if f, err := s.request.Next(); err != nil || !bytes.Equal(f.Raw, want) {
		s.t.Fatalf("server got %q, %v, want %q", f.Raw, err, want)
	}
}

// exchange relays one question and its answer.
func (s *scripted) exchange(question, answer []byte) {
	s.t.Helper()
	s.backend.Write(question)
	s.clientGets(question)
	s.client.Write(answer)
	s.serverGets(answer)
}

var (
	greetingStatus = AppendNoticeResponse(AppendParameterStatus(AppendParameterStatus(nil, "server_version", "15.20"),
		"TimeZone", "UTC"),
		ErrorFields{Severity: "WARNING", Code: "01000", Message: "w"})
	greeting = AppendReadyForQuery(AppendBackendKeyData(append(AppendAuthenticationOk(nil), greetingStatus...), 4711,
		[]byte("wxyz")), 'I')
)

func (s *scripted) succeeds() *LoginResult {
	s.t.Helper()
	l := <-s.done
	if l.err != nil {
		s.t.Fatal(l.err)
	}
	s.clientGets(AppendAuthenticationOk(nil))
	s.client.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if f, err := s.fromUs.Next(); !isTimeout(err) {
		s.t.Fatalf("the client got more than AuthenticationOk: %q, %v", f.Raw, err)
	}
	return l.result
}

func TestLoginRelays(t *testing.T) {
	pw := AppendPasswordMessage(nil, "secret")
	for name, rounds := range map[string][][]byte{
		"password": {AppendAuthenticationCleartextPassword(nil), pw},
		"md5":      {AppendAuthenticationMD5Password(nil, [4]byte{1, 2, 3, 4}), pw},
		"scram": {
			AppendAuthenticationSASL(nil, []string{mechanismScram}),
			AppendSASLInitialResponse(nil, mechanismScram, []byte("n,,n=,r=x")),
			AppendAuthenticationSASLContinue(nil, []byte("r=xy")), AppendSASLResponse(nil, []byte("c=biws,r=xy")),
		},
	} {
		s := startLogin(t, 0, LoginOptions{}, nil)
		for i := 0; i < len(rounds); i += 2 {
			s.exchange(rounds[i], rounds[i+1])
		}
		if name == "scram" {
			s.backend.Write(AppendAuthenticationSASLFinal(nil, []byte("v=z")))
		}
		// What follows ReadyForQuery at once must not be lost.
		s.backend.Write(append(bytes.Clone(greeting), AppendParameterStatus(nil, "late", "1")...))
		if name == "scram" {
			s.clientGets(AppendAuthenticationSASLFinal(nil, []byte("v=z")))
		}
		r := s.succeeds()
		equal(t, name, *r, LoginResult{BackendPID: 4711, BackendSecret: []byte("wxyz"), TxStatus: 'I',
			Frames: greetingStatus, Reader: r.Reader,
			Proof:  map[string]Proof{"password": ProofPassword, "md5": ProofMD5, "scram": ProofSCRAM}[name],
			Status: map[string]string{"server_version": "15.20", "TimeZone": "UTC"}})
		if f, err := r.Reader.Next(); err != nil || f.Type != 'S' {
			t.Error(err)
		}
		if strings.Contains(r.String(), "wxyz") {
			t.Error("the secret shows")
		}
	}
}

func TestLoginEditedParams(t *testing.T) {
	s := startLogin(t, 0, LoginOptions{AllowTrust: true}, []Param{{"user", "u"}, {"database", "other"}})
	s.backend.Write(greeting)
	s.succeeds()
}

// fails checks the one FATAL the client gets and returns what Login says.
func (s *scripted) fails(code, message string) error {
	s.t.Helper()
	wantFatalReader(s.t, s.fromUs, code, message)
	l := <-s.done
	if l.err == nil || l.result != nil {
		s.t.Fatal("logged in")
	}
	return l.err
}

func wantFatalReader(t *testing.T, r *Reader, code, message string) {
	t.Helper()
	f, err := r.Next()
	if err != nil || f.Type != TypeErrorResponse {
		t.Fatalf("%q, %v", f.Raw, err)
	}
	fields := must[ErrorFields](t)(DecodeErrorFields(f.Body()))
	if fields.Severity != "FATAL" || fields.Code != code || !strings.Contains(fields.Message, message) {
		t.Errorf("got %+v, want %s %q", fields, code, message)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the FATAL: %v", err)
	}
}

// The server's own FATAL arrives word for word, once, before or after Ok.
func TestLoginRelaysFatal(t *testing.T) {
	fatal := AppendErrorResponse(nil, ErrorFields{Severity: "FATAL", Code: "3D000",
		Message: `database "d" does not exist`, File: "x.c", Line: 3})
	for _, ok := range []bool{false, true} {
		s := startLogin(t, 0, LoginOptions{AllowTrust: true}, nil)
		if ok {
			s.backend.Write(AppendAuthenticationOk(nil))
		}
		s.backend.Write(fatal)
		if ok {
			s.clientGets(AppendAuthenticationOk(nil))
		}
		s.clientGets(fatal)
		if _, err := s.fromUs.Next(); err != io.EOF {
			t.Error("told twice", err)
		}
		var b *BackendError
		if l := <-s.done; !errors.As(l.err, &b) || b.SQLState() != "3D000" || b.Fields.Line != 3 {
			t.Error(l.err)
		}
	}
}

func TestLoginRefusesMethods(t *testing.T) {
	raw := func(code byte) []byte { return []byte{'R', 0, 0, 0, 8, 0, 0, 0, code} }
	for _, c := range []struct {
		send          []byte
		code, message string
	}{
		{raw(AuthGSS), "0A000", "asks for GSSAPI authentication"},
		{raw(AuthSSPI), "0A000", "asks for SSPI authentication"},
		{raw(AuthKerberosV5), "0A000", "asks for Kerberos V5 authentication"},
		{raw(6), "0A000", "asks for unknown (code 6) authentication"},
		{AppendAuthenticationSASL(nil, []string{"SCRAM-SHA-256-PLUS"}), "0A000", "offers no SASL mechanism"},
		{AppendAuthenticationSASL(nil, []string{"OAUTHBEARER"}), "0A000", "offers no SASL mechanism"},
		{AppendAuthenticationSASL(nil, nil), "0A000", "offers no SASL mechanism"},
		{greeting, "28000", `role "u" was admitted by the local PostgreSQL without authentication`},
		{raw(AuthSASLContinue), "57P03", "closed or broke"},
		{raw(AuthSASLFinal), "57P03", "closed or broke"},
		{raw(AuthMD5Password), "57P03", "closed or broke"},
		{AppendReadyForQuery(nil, 'I'), "57P03", "closed or broke"},
		{AppendBackendKeyData(nil, 1, []byte("abcd")), "57P03", "closed or broke"},
		{AppendDataRow(nil, nil), "57P03", "closed or broke"},
		{header('R', 2001), "57P03", "closed or broke"},
		{header('S', 70_000), "57P03", "closed or broke"},
	} {
		s := startLogin(t, 0, LoginOptions{}, nil)
		s.backend.Write(c.send)
		err := s.fails(c.code, c.message)
		var e *SQLError
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%q: %v", c.send, err)
		}
	}
}

func TestLoginFiltersSASL(t *testing.T) {
	s := startLogin(t, 0, LoginOptions{}, nil)
	s.backend.Write(AppendAuthenticationSASL(nil, []string{"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "OAUTHBEARER"}))
	s.clientGets(AppendAuthenticationSASL(nil, []string{"SCRAM-SHA-256"}))
	answer := AppendSASLInitialResponse(nil, mechanismScram, []byte("y,,n=,r=x"))
	s.client.Write(answer)
	s.serverGets(answer)
}

// A client that wants channel binding, or breaks a limit, fails here.
func TestLoginClientBreaksProtocol(t *testing.T) {
	sasl := AppendAuthenticationSASL(nil, []string{mechanismScram})
	clear := AppendAuthenticationCleartextPassword(nil)
	for _, c := range []struct {
		question, answer []byte
		message          string
	}{
		{sasl, AppendSASLInitialResponse(nil, "SCRAM-SHA-256-PLUS", []byte("p=tls-server-end-point,,n=,r=x")),
			"invalid SASL authentication mechanism"},
		{sasl, AppendSASLInitialResponse(nil, "", nil), "invalid SASL authentication mechanism"},
		{sasl, AppendSASLInitialResponse(nil, mechanismScram, []byte("p=tls-server-end-point,,n=,r=x")),
			"malformed SCRAM message"},
		{sasl, AppendSASLInitialResponse(nil, mechanismScram, make([]byte, 1100)), "invalid message length"},
		{sasl, AppendSASLResponse(nil, []byte("x")), "invalid string in message"},
		{sasl, AppendQuery(nil, "select 1"), "expected SASL response, got message type 81"},
		{clear, AppendQuery(nil, "select 1"), "expected password response, got message type 81"},
		{clear, header('p', 65_536), "invalid message length"},
		{clear, header('p', 3), "invalid message length"},
	} {
		s := startLogin(t, 0, LoginOptions{}, nil)
		s.backend.Write(c.question)
		s.clientGets(c.question)
		s.client.Write(c.answer)
		var ce *ClientError
		if err := s.fails("08P01", c.message); !errors.As(err, &ce) {
			t.Errorf("%q: %v", c.answer, err)
		}
		if f, err := s.request.Next(); err == nil {
			t.Errorf("the server got %q", f.Raw)
		}
	}
}

func TestLoginTimeouts(t *testing.T) {
	s := startLogin(t, 150*time.Millisecond, LoginOptions{}, nil)
	s.backend.Write(AppendAuthenticationCleartextPassword(nil))
	s.clientGets(AppendAuthenticationCleartextPassword(nil))
	var ce *ClientError
	if err := s.fails("57014", "canceling authentication due to timeout"); !errors.As(err, &ce) {
		t.Error(err)
	}
	s = startLogin(t, 150*time.Millisecond, LoginOptions{}, nil)
	s.fails("57P03", "did not finish the start-up in time")
}

func TestLoginPeersLeave(t *testing.T) {
	s := startLogin(t, 0, LoginOptions{}, nil)
	s.backend.Close()
	s.fails("57P03", "closed or broke")

	s = startLogin(t, 0, LoginOptions{}, nil)
	s.backend.Write(AppendAuthenticationCleartextPassword(nil))
	s.clientGets(AppendAuthenticationCleartextPassword(nil))
	s.client.Close()
	var ce *ClientError
	if l := <-s.done; !errors.As(l.err, &ce) || !errors.Is(l.err, io.EOF) {
		t.Error(l.err)
	}
}

func TestLoginBoundsFrames(t *testing.T) {
	s := startLogin(t, 0, LoginOptions{AllowTrust: true}, nil)
	s.backend.Write(AppendAuthenticationOk(nil))
	go func() {
		for range 10 {
			s.backend.Write(AppendParameterStatus(nil, "a", strings.Repeat("x", 60_000)))
		}
	}()
	s.fails("57P03", "closed or broke")
}

// No error text holds what the client typed (W5).
func TestLoginErrorsHideSecrets(t *testing.T) {
	s := startLogin(t, 0, LoginOptions{}, nil)
	s.exchange(AppendAuthenticationCleartextPassword(nil), AppendPasswordMessage(nil, "topsecret"))
	s.backend.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, AuthGSS})
	if err := s.fails("0A000", "GSSAPI"); strings.Contains(err.Error(), "topsecret") {
		t.Error(err)
	}
}
