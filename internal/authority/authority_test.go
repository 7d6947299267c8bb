package authority

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWrite: what is written can be used as it is, by both sides, for the name it was issued for and no longer than it
// should; nobody else can read it (A2).
func TestWrite(t *testing.T) {
	a, err := New("test")
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Hour)
	f, err := a.Write(filepath.Join(t.TempDir(), "new", "tls"), "node1", Validity{time.Now().Add(-time.Minute), until})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("the authority's file has no certificate")
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		for name, at := range map[string]time.Time{"node1": time.Now(), "node2": time.Now(),
			"": until.Add(time.Minute)} {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: at,
				KeyUsages: []x509.ExtKeyUsage{usage}})
			if (err == nil) != (name == "node1") {
				t.Errorf("usage %d, name %q at %v: %v", usage, name, at, err)
			}
		}
	}
	for _, path := range []string{f.Cert, f.Key, f.CA} {
		if s, err := os.Stat(path); err != nil || s.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, s.Mode(), err)
		}
	}
	other, err := New("test")
	if err != nil {
		t.Fatal(err)
	}
	strange := x509.NewCertPool()
	strange.AppendCertsFromPEM(other.PEM())
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: strange}); err == nil {
		t.Error("an authority of the same name vouches for it")
	}
}

// TestSave: an authority that was saved signs as before; half of one, and two halves of two, are refused.
func TestSave(t *testing.T) {
	a, err := New("test")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	b, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := b.Write(filepath.Join(dir, "tls"), "node1", Years(1))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "node1"}); err != nil {
		t.Errorf("what it signs is not known: %v", err)
	}
	if s, err := os.Stat(filepath.Join(dir, caKeyName)); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("its key: %v, %v", s.Mode(), err)
	}
	other, err := New("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, caName), other.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("the key of another one is taken")
	}
	if err := os.WriteFile(filepath.Join(dir, caName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("an empty file is taken")
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("nothing is taken")
	}
}
