package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
)

// certificate writes a self-signed certificate for localhost and its key into dir.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// secure connects to node 1 as localhost with these words of a connection string.
func (c *Cluster) secure(words string) (*pgconn.PgConn, error) {
	_, port, err := net.SplitHostPort(c.Node(1).Config.Listen)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return pgconn.Connect(ctx, fmt.Sprintf("host=localhost port=%s user=postgres dbname=postgres %s", port, words))
}

// secureTry is secure with a statement; it fails unless the error's text has want in it, which is empty where there
// must be none.
func (c *Cluster) secureTry(words, want string) {
	c.tb.Helper()
	pg, err := c.secure(words)
	if err == nil {
		_, err = pg.Exec(context.Background(), "SELECT 1").ReadAll()
		_ = pg.Close(context.Background())
	}
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		c.tb.Errorf("%s: %v, want %q", words, err, want)
	}
}

// TestClientTLS has clients speak TLS to a node with a certificate: it is asked for before the start-up packet, or
// begun at once.
func TestClientTLS(t *testing.T) {
	t.Parallel() // mostly it waits
	cert, key := certificate(t, t.TempDir())
	other, otherKey := certificate(t, t.TempDir())
	c := Start(t, 1, func(_ int, n *config.Config) { n.ClientTLS = config.TLS{Cert: cert, Key: key} })
	verified := "sslmode=verify-full sslrootcert=" + cert
	direct := verified + " sslnegotiation=direct"
	for words, want := range map[string]string{
		"sslmode=disable": "", "sslmode=prefer": "", "sslmode=require": "", verified: "", direct: "",
		verified + " max_protocol_version=3.2": "", direct + " max_protocol_version=latest": "",
		direct + " min_protocol_version=3.2 max_protocol_version=3.2": "protocol version",
		"sslmode=verify-full sslrootcert=" + other:                    "certificate",
	} {
		c.secureTry(words, want)
	}
	c.scramOverTLS(verified)
	for _, words := range []string{"sslmode=disable", verified, direct + " max_protocol_version=3.2"} {
		for _, how := range []func([]byte){c.cancelClear, c.cancelSecure} {
			c.cancels(words, how)
		}
	}
	if err := os.WriteFile(key, []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.secureTry(verified, "") // with the old one
	certificate(t, filepath.Dir(cert))
	c.secureTry(verified, "")
	c.Stop(1)
	c.Node(1).Config.ClientTLS.Require, c.Node(1).Config.ClientTLS.CA = true, cert
	if err := c.Node(1).WriteConfig(); err != nil {
		t.Fatal(err)
	}
	c.Run(1)
	mine := fmt.Sprintf("%s sslcert=%s sslkey=%s", verified, cert, key)
	c.await(1, readyTimeout, func(context.Context) error {
		pg, err := c.secure(mine)
		if err == nil {
			err = pg.Close(context.Background())
		}
		return err
	})
	c.secureTry("sslmode=disable", "connections without encryption are not allowed (SQLSTATE 28000)")
	c.secureTry(verified, "certificate required")
	c.secureTry(fmt.Sprintf("%s sslcert=%s sslkey=%s", verified, other, otherKey), "tls: ")
	c.cancels(mine, c.cancelClear)
	c.Stop(1)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	c.ends(1, "client_tls: open "+key)
}

// scramOverTLS logs a role with a password in. Its PostgreSQL does not know of the client's TLS, so that there is
// nothing to bind to.
func (c *Cluster) scramOverTLS(verified string) {
	c.tb.Helper()
	// The password is "secret".
	c.Connect(1).Do("SET password_encryption = 'scram-sha-256'", "CREATE ROLE bound LOGIN PASSWORD "+
		"'SCRAM-SHA-256$4096:c2l4dGVlbiBieXRlcyBpdA==$Rby+BBFwBuPJWW6eE4shy4lPvqKfbLSFCpIsqlFHZ28=:Et4rMfs5YNnnuxMTDppIYsUXiLt4m1x3YMUxxcQGN4g='")
	path := filepath.Join(c.Node(1).Config.DataDir, "postgres", "pg_hba.conf")
	old, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append([]byte("local all bound scram-sha-256\n"), old...), 0o600)
	}
	if err != nil {
		c.tb.Fatal(err)
	}
	c.Connect(1).Do("SELECT pg_reload_conf()")
	c.await(1, readyTimeout, func(context.Context) error {
		if _, err := c.secure(verified + " user=bound password=wrong"); Code(err) != "28P01" {
			return fmt.Errorf("%w, want 28P01", err)
		}
		return nil
	})
	c.secureTry(verified+" user=bound password=secret", "")
	c.secureTry(verified+" user=bound password=secret sslnegotiation=direct", "")
	c.secureTry(verified+" user=bound password=secret channel_binding=require", "channel binding required")
}

// cancels runs a statement that sleeps, and has how cancel it, which is given the request.
func (c *Cluster) cancels(words string, how func(request []byte)) {
	c.tb.Helper()
	pg, err := c.secure(words)
	if err != nil {
		c.tb.Error(err)
		return
	}
	defer pg.Close(context.Background())
	done := make(chan error, 1)
	go func() { _, err := pg.Exec(context.Background(), "SELECT pg_sleep(30)").ReadAll(); done <- err }()
	request := append([]byte{0, 0, 0, 16, 4, 210, 22, 46, byte(pg.PID() >> 24), byte(pg.PID() >> 16),
		byte(pg.PID() >> 8), byte(pg.PID())}, pg.SecretKey()...)
	for {
		how(request)
		select {
		case err := <-done:
			if Code(err) != "57014" {
				c.tb.Errorf("%s: %v, want 57014", words, err)
			}
			return
		case <-time.After(200 * time.Millisecond): // it had not begun
		}
	}
}

// cancelClear sends a cancel request and waits until the node hangs up.
func (c *Cluster) cancelClear(request []byte) { c.cancelBy(nil, request) }

// cancelSecure does the same in TLS, begun at once, as libpq does for a session that was begun so.
func (c *Cluster) cancelSecure(request []byte) {
	c.cancelBy(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"postgresql"}}, request)
}

func (c *Cluster) cancelBy(secure *tls.Config, request []byte) {
	c.tb.Helper()
	conn, err := net.Dial("tcp", c.Node(1).Config.Listen)
	if err != nil {
		c.tb.Error(err)
		return
	}
	defer conn.Close()
	if secure != nil {
		conn = tls.Client(conn, secure)
	}
	if _, err := conn.Write(request); err != nil {
		c.tb.Error(err)
	}
	if b, _ := io.ReadAll(conn); len(b) > 0 {
		c.tb.Errorf("a cancel request is answered: %q", b)
	}
}
