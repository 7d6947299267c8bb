package clients

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
)

func clientAt(address string) *Client { return &Client{Address: netip.MustParseAddrPort(address)} }

// TestApplicationName: the address is always there as a whole, within PostgreSQL's 63 bytes.
func TestApplicationName(t *testing.T) {
	for _, c := range []struct{ name, address, want string }{
		{"psql", "10.0.0.7:51234", "psql - 10.0.0.7:51234"},
		{"", "10.0.0.7:51234", "app - 10.0.0.7:51234"},
		{"psql", "[::1]:5", "psql - [::1]:5"},
		{strings.Repeat("n", 70), "10.0.0.7:51234", strings.Repeat("n", 46) + " - 10.0.0.7:51234"},
		{strings.Repeat("ä", 30), "10.0.0.7:51234", strings.Repeat("ä", 23) + " - 10.0.0.7:51234"},
	} {
		who := clientAt(c.address)
		who.Says(map[string]string{"application_name": c.name})
		if got := who.applicationName(); got != c.want || len(got) > 63 {
			t.Errorf("%q at %s: %q, want %q", c.name, c.address, got, c.want)
		}
	}
	said := []wire.Param{{Name: "user", Value: "u"}, {Name: "application_name", Value: "a"}, {Name: "application_name",
		Value: "b"}}
	who := clientAt("10.0.0.7:1")
	who.Says(map[string]string{"application_name": "b"})
	if got := fmt.Sprint(who.Parameters(said, true)); got != "[{user u} {application_name b - 10.0.0.7:1}]" {
		t.Error(got)
	}
	if got := fmt.Sprint(who.Parameters(said, false)); got != fmt.Sprint(said) {
		t.Error(got)
	}
	who = clientAt("10.0.0.7:1")
	who.Says(map[string]string{"options": "--Application-Name=mine"})
	if got := fmt.Sprint(who.Parameters(said[:1], true)); got != "[{user u}]" {
		t.Error(got)
	}
}

// logged has a clientLog write into a buffer, at a time that the test moves.
func logged(format string) (l *Log, out *bytes.Buffer, now *time.Time) {
	out, now = &bytes.Buffer{}, new(time.Time)
	*now = time.Unix(1_000_000, 0)
	c := &config.Config{LogFormat: format}
	l = NewLog(slog.New(c.LogHandler(out, slog.LevelInfo)), &metrics.Clients{})
	l.now = func() time.Time { return *now }
	l.telling = true // the test tells
	return l, out, now
}

// TestClientLogInjection: what a client calls itself makes no line of its own in the log, and none that is long.
func TestClientLogInjection(t *testing.T) {
	const evil = "x\nlevel=INFO msg=\"client logged in\" user=postgres\r\x1b[31m\u202e\xff\" "
	for _, format := range []string{"text", "json"} {
		l, out, _ := logged(format)
		who := clientAt("10.0.0.1:5")
		who.Says(map[string]string{"user": evil, "database": strings.Repeat(evil, 300), "application_name": evil})
		l.Enter(who, &wire.LoginResult{BackendPID: 7})()
		l.Refuse(who, wire.Fatalf("28000", "no entry for %s", strings.Repeat(evil, 300)))
		l.Fail(who, &wire.BackendError{Fields: wire.ErrorFields{Severity: "FATAL", Code: "28P01", Message: evil}})
		l.Refuse(who, fmt.Errorf("TLS handshake: %s", evil))
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 5 {
			t.Fatalf("%d lines:\n%s", len(lines), out.String())
		}
		for _, line := range lines {
			if strings.ContainsAny(line, "\r\x1b") || !utf8.ValidString(line) ||
				format == "text" && strings.Contains(line,
					"\u202e") || len(line) > 4000 {
				t.Errorf("%d bytes: %q", len(line), line)
			}
			if format == "json" {
				m := map[string]any{}
				if err := json.Unmarshal([]byte(line), &m); err != nil || m["client_addr"] != "10.0.0.1" ||
					m["client_port"] != 5.0 || !strings.HasPrefix(m["user"].(string), "x\nlevel") {
					t.Errorf("%v: %s", err, line)
				}
			}
		}
	}
}

// TestClientLogSays: who, whence, where to, why; and nothing of one who only left.
func TestClientLogSays(t *testing.T) {
	l, out, _ := logged("text")
	who := clientAt("[fd00::1]:5")
	who.Says(map[string]string{"user": "ann"})
	who.TLS, who.rule = TLSVersion(tls.VersionTLS13), "/etc/hba:3"
	l.Enter(who, &wire.LoginResult{BackendPID: 7, Proof: wire.ProofSCRAM, BackendSecret: []byte("secret")})
	l.Fail(who, &wire.BackendError{Fields: wire.ErrorFields{Severity: "FATAL", Code: "28P01", Message: "no"}})
	l.Fail(who, &wire.ClientError{Err: io.EOF})
	l.Refuse(who, fmt.Errorf("read: %w", os.ErrDeadlineExceeded))
	for _, want := range []string{
		`level=INFO msg="client logged in" client_addr=fd00::1 client_port=5 user=ann database=ann tls=TLSv1.3 ` +
			`rule=/etc/hba:3 pid=7 method=scram-sha-256` + "\n",
		`level=INFO msg="login failed" client_addr=fd00::1 client_port=5 user=ann database=ann tls=TLSv1.3 ` +
			`rule=/etc/hba:3 severity=FATAL sqlstate=28P01 error=no` + "\n",
		`msg="client refused" client_addr=fd00::1 client_port=5 user=ann database=ann tls=TLSv1.3 rule=/etc/hba:3 ` +
			`error="the client did not say in time what it wants"` + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in\n%s", want, out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 3 || strings.Contains(out.String(), "secret") {
		t.Errorf("%d lines:\n%s", n, out)
	}
	if l.counts.Logins.Load() != 1 || l.counts.LoginsFailed.Load() != 1 || l.counts.Refused.Load() != 1 {
		t.Errorf("%d logins, %d failed, %d refused", l.counts.Logins.Load(), l.counts.LoginsFailed.Load(),
			l.counts.Refused.Load())
	}
}

// TestClientLogIsBounded: an hour of a flood from one address, and then from all, is some lines, and the rest is
// counted; who has another address is logged beside the one.
func TestClientLogIsBounded(t *testing.T) {
	l, out, now := logged("text")
	no := errors.New("no")
	lines := func() int { return strings.Count(out.String(), "\n") }
	for range 36_000 {
		*now = now.Add(100 * time.Millisecond)
		l.Refuse(clientAt("10.0.0.1:5"), no)
	}
	if n := lines(); n < 300 || n > 400 {
		t.Errorf("%d lines of one address in an hour", n)
	}
	l.Fail(clientAt("10.0.0.2:5"), no)
	if !strings.Contains(out.String(), "client_addr=10.0.0.2") {
		t.Error("another address is not logged")
	}
	before := lines()
	for i := range 360_000 {
		*now = now.Add(10 * time.Millisecond)
		a := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
		l.Refuse(clientAt(netip.AddrPortFrom(a, 5).String()), no)
	}
	if n := lines() - before; n < 3000 || n > 4000 {
		t.Errorf("%d lines of many addresses in an hour", n)
	}
	if len(l.each) > addressesLogged {
		t.Errorf("%d addresses are kept", len(l.each))
	}
	left := l.counts.Unlogged.Load()
	if sum := left + uint64(lines()); sum != 396_001 || l.leftOut != int(left) {
		t.Errorf("%d are logged or counted, %d to be told", sum, l.leftOut)
	}
	l.tell()
	if !strings.Contains(out.String(),
		fmt.Sprintf("level=WARN msg=\"more clients were refused, or failed to log in, than are logged\" left_out=%d\n",
			left)) {
		t.Errorf("how many were left out is not told:\n%s", out.String()[out.Len()-300:])
	}
	*now = now.Add(time.Hour)
	for i := range uint64(300) { // one machine has as many addresses of IPv6 as it likes
		l.Refuse(clientAt(fmt.Sprintf("[fd00::%x]:5", i)), no)
	}
	if n := strings.Count(out.String(), "client_addr=fd00"); n > addressLogBurst {
		t.Errorf("%d lines of one network", n)
	}
}

// TestPresented: the first common name counts, as a whole, of a certificate that was verified.
func TestPresented(t *testing.T) {
	name := func(names ...any) *x509.Certificate {
		c := &x509.Certificate{}
		for _, n := range names {
			c.Subject.Names = append(c.Subject.Names, pkix.AttributeTypeAndValue{Type: commonName, Value: n})
		}
		return c
	}
	for _, c := range []struct {
		user     string
		cert     *x509.Certificate
		verified bool
		ok       bool
	}{
		{"ann", name("ann"), true, true}, {"ann", name("ann"), false, false}, {"ann", name("Ann"), true, false}, {"ann",
			name("bob", "ann"), true, false},
		{"ann", name("ann\x00evil"), true, false}, {"ann", name(), true, false}, {"ann", name(7), true, false},
		{"ann", nil,
			true, false},
		{strings.Repeat("n", 70), name(strings.Repeat("n", 63)), true, true}, {strings.Repeat("n", 70),
			name(strings.Repeat("n", 70)), true, false},
	} {
		s := &wire.Startup{Params: map[string]string{"user": c.user}, TLS: &tls.ConnectionState{}}
		if c.cert != nil {
			s.TLS.PeerCertificates = []*x509.Certificate{c.cert}
			if c.verified {
				s.TLS.VerifiedChains = [][]*x509.Certificate{{c.cert}}
			}
		}
		if e := presented(s, true); (e == nil) != c.ok {
			t.Errorf("%q with %v: %v", c.user, c.cert, e)
		}
	}
	if e := presented(&wire.Startup{}, false); e == nil ||
		e.Message != "connection requires a valid client certificate" {
		t.Error(e)
	}
}
