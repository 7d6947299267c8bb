package transport

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// authority issues certificates for member names.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert: cert, key: key, pool: pool}
}

func memberName(id uint32) string { return fmt.Sprintf("member-%d.tutti", id) }

// issue makes a certificate with these names, changed by the given functions.
func (a *authority) issue(t testing.TB, names []string, change ...func(*x509.Certificate)) *TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, f := range change {
		f(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &TLS{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, a.pool}
}

func (a *authority) member(t testing.TB, id uint32) *TLS { return a.issue(t, []string{memberName(id)}) }

// secured gives credentials that do not change, with TLS.
func secured(c *TLS, secrets ...[]byte) func() Credentials {
	if len(secrets) == 0 {
		secrets = [][]byte{secret}
	}
	return func() Credentials { return Credentials{Secrets: secrets, TLS: c} }
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	one, two := pair(t, func(o *Options, _ *timing) {
		o.Credentials, o.PeerName = secured(ca.member(t, o.Self)), memberName
	})
	one.exchange(t, two)
	two.exchange(t, one)
	big := strings.Repeat("b", 1<<20)
	one.Send(2, []byte(big))
	two.expect(t, "1:"+big)
}

// TestTLSRefusals: a certificate must be there, from a known authority, valid now, with the right name. Who is told
// which reason: member 2 is as it should be, member 1 is not, and both dial.
func TestTLSRefusals(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	until := func(d time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(d-time.Hour), time.Now().Add(d) }
	}
	usage := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} }
	mine := []string{memberName(1)}
	for name, c := range map[string]struct {
		tls    *TLS     // of member 1
		first  []string // member 1's log, as dialer and as acceptor
		second []string // member 2's log
	}{
		"another member's": {ca.member(t, 3),
			[]string{"it refuses this member: wrong certificate: its name",
				"does not accept this member's certificate"},
			[]string{"this member refuses it: member 1: wrong certificate: its name is not that of the member",
				`error="member 1: wrong certificate: its name`, `member-3.tutti`}},
		"no name": {ca.issue(t, nil, func(c *x509.Certificate) { c.Subject.CommonName = memberName(1) }),
			[]string{"it refuses this member: wrong certificate: its name",
				"does not accept this member's certificate"},
			[]string{"this member refuses it: member 1: wrong certificate: its name",
				`error="member 1: wrong certificate: its name`}},
		"another authority's, which it knows alone": {stranger.issue(t, mine),
			[]string{"this member refuses it: member 2: wrong certificate: no authority",
				"does not accept this member's certificate"},
			[]string{"this member refuses it: member 1: wrong certificate: no authority",
				"does not accept this member's certificate"}},
		"another authority's": {&TLS{stranger.issue(t, mine).Certificate, ca.pool},
			[]string{"it refuses this member: wrong certificate: no authority",
				"does not accept this member's certificate"},
			[]string{"this member refuses it: member 1: wrong certificate: no authority",
				`error="member 1: wrong certificate: no authority`}},
		"expired": {ca.issue(t, mine, until(-time.Minute)),
			[]string{"it refuses this member: wrong certificate: it has expired",
				"does not accept this member's certificate"},
			[]string{"this member refuses it: member 1: wrong certificate: it has expired",
				`error="member 1: wrong certificate: it has expired`, "is valid from"}},
		"not valid yet": {ca.issue(t, mine, until(2*time.Hour)),
			[]string{"it refuses this member: wrong certificate: it has expired, or is not valid yet"},
			[]string{"this member refuses it: member 1: wrong certificate: it has expired, or is not valid yet"}},
		"for something else": {ca.issue(t, mine, usage),
			[]string{"it refuses this member: wrong certificate: it cannot be used"},
			[]string{"this member refuses it: member 1: wrong certificate: it cannot be used"}},
		"no certificate": {&TLS{Authorities: ca.pool},
			[]string{"remote error: tls: certificate required"},
			[]string{"client didn't provide a certificate", "does the member there have member_tls?"}},
		"no TLS": {nil,
			[]string{"no TLS: the other side has member_tls", "the other side speaks TLS, and this member does not"},
			[]string{"no TLS: the other side has member_tls", "does the member there have member_tls?"}},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := strangers(t, func(o *Options, tm *timing) {
				o.PeerName = memberName
				o.Credentials = secured(c.tls)
				if o.Self == 2 {
					o.Credentials = secured(ca.member(t, 2))
				}
			})
			for m, parts := range map[*member][]string{one: c.first, two: c.second} {
				for _, part := range parts {
					m.says(t, part)
				}
			}
			for m, other := range map[*member]uint32{one: 2, two: 1} {
				if s := m.Stats()[other]; s.Connected || s.Incoming || s.Connections > 0 || len(m.got) > 0 {
					t.Errorf("member %d has a connection: %+v", m.o.Self, s)
				}
			}
			one.Close()
			two.Close()
		})
	}
}

// says waits for a part of a log line.
func (m *member) says(t *testing.T, part string) {
	t.Helper()
	said := func() bool { return strings.Contains(strings.ReplaceAll(m.logs.String(), `\"`, `"`), part) }
	for deadline := time.Now().Add(20 * time.Second); !said(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("member %d does not say %q:\n%s", m.o.Self, part, m.logs)
		}
	}
}

// TestTLSDialerChecksFirst: an acceptor with another member's certificate gets nothing at all, not even the handshake.
func TestTLSDialerChecksFirst(t *testing.T) {
	ca := newAuthority(t)
	l := listen(t, "127.0.0.1:0")
	defer l.Close()
	m := launch(t, 1, listen(t, "127.0.0.1:0"), map[uint32]string{2: l.Addr().String()}, func(o *Options, _ *timing) {
		o.Credentials, o.PeerName = secured(ca.member(t, 1)), memberName
	})
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := io.ReadAll(tls.Server(conn, ca.member(t, 3).config()))
	if err == nil || len(got) > 0 {
		t.Errorf("the impostor received %q, %v", got, err)
	}
	eventually(t, "reason in the log", func() bool {
		return m.logs.count("this member refuses it: member 2: wrong certificate: its name") > 0
	})
}

// wiretap passes connections on to an address, and keeps what passes.
type wiretap struct {
	addr  string
	mu    sync.Mutex
	bytes []byte
}

func (w *wiretap) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes = append(w.bytes, b...)
	return len(b), nil
}

func (w *wiretap) seen() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.bytes)
}

func tap(t *testing.T, to string) *wiretap {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	w := &wiretap{addr: l.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{from, there}, {there, from}} {
				wg.Go(func() {
					// The end of either way is the end of both.
					_, _ = io.Copy(way[0], io.TeeReader(way[1], w))
					way[0].Close()
					way[1].Close()
				})
			}
		}
	})
	return w
}

// TestTLSHides puts proxies between two members. In the clear they see the handshake and the frames; with TLS nothing
// that could be read: no frame, no magic, no cluster, no name of a member.
func TestTLSHides(t *testing.T) {
	ca := newAuthority(t)
	for _, encrypted := range []bool{false, true} {
		l1, l2 := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
		taps := map[uint32]*wiretap{1: tap(t, l1.Addr().String()), 2: tap(t, l2.Addr().String())}
		change := func(o *Options, _ *timing) {
			o.Cluster, o.PeerName = "a cluster's name", memberName
			if encrypted {
				o.Credentials = secured(ca.member(t, o.Self))
			}
		}
		one := launch(t, 1, l1, map[uint32]string{2: taps[2].addr}, change)
		two := launch(t, 2, l2, map[uint32]string{1: taps[1].addr}, change)
		one.exchange(t, two)
		two.exchange(t, one)
		text := strings.Repeat("confidential ", 100)
		one.Send(2, []byte(text))
		two.expect(t, "1:"+text)
		for k, w := range taps {
			seen := w.seen()
			for _, word := range []string{"ping-pong", "confidential", magic, "cluster", "tutti", "member-1",
				"member-2"} {
				readable := bytes.Contains(seen, []byte(word))
				inClear := !encrypted && (k == 2 || word != "confidential") && !strings.HasPrefix(word, "member-") &&
					word != "tutti"
				if readable != inClear {
					t.Errorf("TLS: %t; in %d bytes to member %d %q is there: %t", encrypted, len(seen), k, word,
						readable)
				}
			}
		}
		one.Close()
		two.Close()
	}
}

// TestTLSBindsProofs: who has stolen the certificates of both members, but not the secret, cannot pass the proofs of
// one on to the other.
func TestTLSBindsProofs(t *testing.T) {
	ca := newAuthority(t)
	l, l2 := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	change := func(o *Options, _ *timing) { o.Credentials, o.PeerName = secured(ca.member(t, o.Self)), memberName }
	two := launch(t, 2, l2, map[uint32]string{1: "127.0.0.1:1"}, change)
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	stolen := map[uint32]*TLS{1: ca.member(t, 1), 2: ca.member(t, 2)}
	wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", l2.Addr().String())
			if err != nil {
				from.Close()
				continue
			}
			a, b := tls.Server(from, stolen[2].config()), tls.Client(there, stolen[1].config())
			for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
				wg.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					from.Close()
					there.Close()
				})
			}
		}
	})
	one := launch(t, 1, listen(t, "127.0.0.1:0"), map[uint32]string{2: l.Addr().String()}, change)
	eventually(t, "refusal", func() bool {
		return two.logs.count("wrong secret") > 0 &&
			one.logs.count("wrong secret") > 0
	})
	if one.Stats()[2].Connections > 0 || two.Stats()[1].Incoming {
		t.Error("the proofs were passed on")
	}
}

// TestTLSRotation: certificates, and the authority that signs them, are exchanged member by member. Connections that
// exist stay, and new ones use what is there now.
func TestTLSRotation(t *testing.T) {
	old, young := newAuthority(t), newAuthority(t)
	both := x509.NewCertPool()
	both.AddCert(old.cert)
	both.AddCert(young.cert)
	var now [3]atomic.Pointer[TLS]
	now[1].Store(old.member(t, 1))
	now[2].Store(old.member(t, 2))
	one, two := pair(t, func(o *Options, _ *timing) {
		o.PeerName = memberName
		o.Credentials = func() Credentials { return Credentials{Secrets: [][]byte{secret}, TLS: now[o.Self].Load()} }
	})
	connections := uint64(1)
	for step, c := range []struct {
		member uint32
		tls    *TLS
	}{
		{1, &TLS{old.member(t, 1).Certificate, both}}, {2, &TLS{old.member(t, 2).Certificate, both}},
		{2, &TLS{young.member(t, 2).Certificate, both}}, {1, &TLS{young.member(t, 1).Certificate, both}},
		{1, young.member(t, 1)}, {2, young.member(t, 2)},
	} {
		now[c.member].Store(c.tls)
		one.exchange(t, two)
		if n := one.Stats()[2].Connections; n != connections {
			t.Fatalf("step %d: %d connections, want %d: the one that existed was given up", step, n, connections)
		}
		for _, m := range []*member{one, two} {
			m.cut()
		}
		connections++
		eventually(t, "new connections", func() bool {
			return one.Stats()[2].Connections == connections && two.Stats()[1].Connections == connections
		})
		one.exchange(t, two)
		two.exchange(t, one)
	}
	one.Close()
	one = launch(t, 1, listen(t, one.addr), map[uint32]string{2: two.addr}, func(o *Options, _ *timing) {
		o.Credentials, o.PeerName = secured(old.member(t, 1)), memberName
	})
	eventually(t, "refusal", func() bool {
		return one.logs.count("this member refuses it") > 0 && two.logs.count("does not accept") > 0
	})
	if one.Stats()[2].Connections > 0 || two.Stats()[1].Incoming {
		t.Error("who was left behind has a connection")
	}
}

// cut closes the connections that the member has dialled.
func (m *member) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := map[string]bool{}
	for _, p := range *m.peers.Load() {
		mine[p.address] = true
	}
	for c := range m.conns {
		if mine[c.RemoteAddr().String()] {
			c.Close()
		}
	}
}
