package credentials

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// secretFile writes secrets into a file that c names.
func secretFile(t *testing.T, c *config.Config, text string) {
	t.Helper()
	if err := os.WriteFile(c.SecretFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// selfSigned writes a certificate that vouches for itself, with this name and until then.
func selfSigned(t *testing.T, c *config.Config, name string, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotBefore: until.Add(-1000 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, text := range map[string][]byte{c.MemberTLS.Cert: cert, c.MemberTLS.CA: cert,
		c.MemberTLS.Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func credentialsOf(t *testing.T) (*Credentials, *config.Config, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	c := &config.Config{Member: 1, SecretFile: filepath.Join(dir, "secret"),
		Members: []config.Member{{Member: 1, Name: "alpha"}},
		MemberTLS: config.MemberTLS{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"),
			CA: filepath.Join(dir, "ca")}}
	secretFile(t, c, "the first secret\n")
	var log bytes.Buffer
	return New(c, slog.New(slog.NewTextHandler(&log, nil))), c, &log
}

// TestCredentials: what is in the files counts from the next connection on, and what cannot be used leaves what was
// there.
func TestCredentials(t *testing.T) {
	n, c, log := credentialsOf(t)
	if err := n.Begin(); err == nil || !strings.Contains(err.Error(), "member_tls") {
		t.Fatalf("without the files: %v", err)
	}
	selfSigned(t, c, "alpha", time.Now().Add(100*24*time.Hour))
	if err := n.Begin(); err != nil {
		t.Fatal(err)
	}
	first := n.Now()
	if len(first.Secrets) != 1 || string(first.Secrets[0]) != "the first secret" || first.TLS == nil {
		t.Fatalf("%+v", first)
	}
	same := func(what string, want string) {
		t.Helper()
		log.Reset()
		if got := n.Now(); string(got.Secrets[0]) != "the first secret" ||
			!got.TLS.Certificate.Leaf.Equal(first.TLS.Certificate.Leaf) {
			t.Errorf("%s is used", what)
		}
		n.Now()
		if s := log.String(); strings.Count(s, "level=ERROR") != 1 || !strings.Contains(s, want) {
			t.Errorf("%s: the log does not say %q once:\n%s", what, want, s)
		}
	}
	secretFile(t, c, "the second secret\nshort\n")
	same("half a secret", "shorter than 16")
	secretFile(t, c, "the second secret\nthe first secret\n")
	if err := os.WriteFile(c.MemberTLS.Key, []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	same("half a key", "PEM")
	selfSigned(t, c, "alpha", time.Now().Add(-time.Minute))
	same("a certificate that has expired", "has expired")
	selfSigned(t, c, "beta", time.Now().Add(time.Hour))
	same("another's certificate", "beta")
	log.Reset()
	selfSigned(t, c, "alpha", time.Now().Add(time.Hour))
	got := n.Now()
	if len(got.Secrets) != 2 || string(got.Secrets[0]) != "the second secret" ||
		got.TLS.Certificate.Leaf.Equal(first.TLS.Certificate.Leaf) {
		t.Errorf("the new files are not used: %s", log)
	}
	n.Now()
	if s := log.String(); strings.Count(s, "certificate for other members now") != 1 ||
		strings.Count(s, "ends soon") != 1 {
		t.Errorf("the log does not say once what is used now, and that it ends soon:\n%s", s)
	}
}

// TestCredentialsAtStart: a node starts with a certificate that the others will refuse, and says so.
func TestCredentialsAtStart(t *testing.T) {
	n, c, log := credentialsOf(t)
	selfSigned(t, c, "alpha", time.Now().Add(-time.Minute))
	if err := n.Begin(); err != nil || !strings.Contains(log.String(), "has expired") {
		t.Errorf("%v:\n%s", err, log)
	}
	if got := n.Now(); got.TLS == nil || len(got.Secrets) != 1 {
		t.Errorf("%+v", got)
	}
	if err := n.Check(); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("--check-config: %v", err)
	}
	selfSigned(t, c, "alpha", time.Now().Add(time.Hour))
	if err := n.Check(); err != nil {
		t.Errorf("--check-config: %v", err)
	}
}

// TestReadmeCertificates runs the README's commands. What they make is what member_tls needs, for the member alpha
// alone.
func TestReadmeCertificates(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	n, c, _ := credentialsOf(t)
	dir := filepath.Dir(c.SecretFile)
	ran := 0
	for line := range strings.Lines(string(page)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "openssl" {
			continue
		}
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		ran++
	}
	if ran < 3 {
		t.Fatalf("the README has %d commands", ran)
	}
	c.MemberTLS = config.MemberTLS{Cert: filepath.Join(dir, "alpha.crt"), Key: filepath.Join(dir, "alpha.key"),
		CA: filepath.Join(dir, "ca.crt")}
	if err := n.Load(); err != nil {
		t.Error(err)
	}
	c.Members[0].Name = "beta"
	if err := n.Load(); err == nil || !strings.Contains(err.Error(),
		`the member is "beta", and the certificate is for ["alpha"]`) {
		t.Errorf("as beta: %v", err)
	}
}
