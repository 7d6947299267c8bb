package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

// authority issues certificates for member names.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
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

// config returns the TLS configuration of a member whose certificate carries name.
func (a *authority) config(t *testing.T, name string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      a.pool, ClientCAs: a.pool, MinVersion: tls.VersionTLS13,
	}
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	for _, withSecret := range []bool{false, true} {
		one, two := pair(t, func(o *Options, _ *timing) {
			if !withSecret {
				o.Secret = nil
			}
			o.TLS, o.PeerName = ca.config(t, memberName(o.Self)), memberName
		})
		one.exchange(t, two)
		two.exchange(t, one)
		big := strings.Repeat("b", 1<<20)
		one.Send(2, []byte(big))
		two.expect(t, "1:"+big)
	}
}

// TestTLSRefusals: a certificate must be there, from the right authority, with the right name,
// on both sides.
func TestTLSRefusals(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	for name, c := range map[string]struct {
		config func() *tls.Config // of member 1, the dialer
		why    string             // in member 2's log
	}{
		"other member's certificate": {func() *tls.Config { return ca.config(t, memberName(3)) }, "wrong certificate"},
		"other authority": {func() *tls.Config {
			c := stranger.config(t, memberName(1))
			c.RootCAs = ca.pool
			return c
		}, "unknown authority"},
		"no certificate": {func() *tls.Config {
			return &tls.Config{RootCAs: ca.pool, ClientCAs: ca.pool, MinVersion: tls.VersionTLS13}
		}, "didn't provide a certificate"},
		"no TLS": {nil, "TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := strangers(t, func(o *Options, _ *timing) {
				o.PeerName = memberName
				if o.Self == 2 {
					o.TLS = ca.config(t, memberName(2))
				} else if c.config != nil {
					o.TLS = c.config()
				}
			})
			eventually(t, c.why+" in the log", func() bool { return two.logs.count(c.why) > 0 })
			if one.Stats()[2].Connected || two.Stats()[1].Incoming {
				t.Error("the connection was accepted")
			}
			one.Close()
			two.Close()
		})
	}
}

// TestTLSDialerChecksName: an acceptor with another member's certificate gets no frames.
func TestTLSDialerChecksName(t *testing.T) {
	ca := newAuthority(t)
	one, two := strangers(t, func(o *Options, _ *timing) {
		o.PeerName = memberName
		name := memberName(o.Self)
		if o.Self == 2 {
			name = memberName(3)
		}
		o.TLS = ca.config(t, name)
	})
	one.Send(2, []byte("confidential"))
	eventually(t, "reason in the log", func() bool { return one.logs.count("not member-2.tutti") > 0 })
	if len(two.got) > 0 || one.Stats()[2].Connected {
		t.Error("the connection was accepted")
	}
}
