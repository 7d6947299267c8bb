package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Validity is from when to when a certificate can be used.
type Validity struct{ From, Until time.Time }

// Years is the validity from now on, with an hour for clocks that differ.
func Years(n int) Validity {
	now := time.Now()
	return Validity{now.Add(-time.Hour), now.AddDate(n, 0, 0)}
}

// years is how long an authority is valid.
const years = 10

// New makes an authority of this name.
func New(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	a, v := &Authority{key: key}, Years(years)
	der, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: v.From, NotAfter: v.Until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return a, nil
}

// sign signs what is to belong to the owner of key. Without a certificate of its own yet, the authority signs that.
func (a *Authority) sign(c *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	c.SerialNumber = serial
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return der, nil
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Issue makes a key and a certificate for the member of this name, both in PEM.
func (a *Authority) Issue(name string, v Validity) (cert, key []byte, err error) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("authority: %w", err)
	}
	der, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: v.From, NotAfter: v.Until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}, secret)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, fmt.Errorf("authority: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// Files are what a member needs; the fields are those of config.MemberTLS.
type Files struct{ Cert, Key, CA string }

// Write issues a certificate and writes what the member needs into dir, which it makes.
func (a *Authority) Write(dir, name string, v Validity) (Files, error) {
	f := Files{filepath.Join(dir, "member.crt"), filepath.Join(dir, "member.key"), filepath.Join(dir, "ca.crt")}
	cert, key, err := a.Issue(name, v)
	if err != nil {
		return f, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return f, fmt.Errorf("authority: %w", err)
	}
	for _, w := range []struct {
		path string
		data []byte
	}{{f.CA, a.PEM()}, {f.Key, key}, {f.Cert, cert}} {
		if err := renameio.WriteFile(w.path, w.data, 0o600); err != nil {
			return f, fmt.Errorf("authority: %w", err)
		}
	}
	return f, nil
}

// Names of an authority's own files.
const (
	caName    = "ca.crt"
	caKeyName = "ca.key"
)

// Save writes the authority itself, with its key, into a directory that is there.
func (a *Authority) Save(dir string) error {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err = renameio.WriteFile(filepath.Join(dir, caKeyName), key, 0o600); err == nil {
		err = renameio.WriteFile(filepath.Join(dir, caName), a.PEM(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	return nil
}

// Load reads what Save wrote.
func Load(dir string) (*Authority, error) {
	parse := func(name string) ([]byte, error) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("authority: %w", err)
		}
		b, _ := pem.Decode(text)
		if b == nil {
			return nil, fmt.Errorf("authority: %s in %s holds no PEM", name, dir)
		}
		return b.Bytes, nil
	}
	der, err := parse(caName)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("authority: %s: %w", caName, err)
	}
	if der, err = parse(caKeyName); err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("authority: %s: %w", caKeyName, err)
	}
	k, is := key.(*ecdsa.PrivateKey)
	if !is || !k.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("authority: %s in %s is not the key of %s", caKeyName, dir, caName)
	}
	return &Authority{cert: cert, key: k}, nil
}
