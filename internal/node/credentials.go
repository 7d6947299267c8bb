package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/transport"
)

// credentials are what the node proves itself with to the other members. What is in the files counts from the next
// connection on; files that cannot be used leave what was there before.
type credentials struct {
	mu        sync.Mutex
	usable    bool // something was loaded
	last      transport.Credentials
	complaint string // that was logged last
	complain  time.Time
	warned    time.Time // that the certificate expires soon
}

const (
	credentialsLook   = time.Minute         // how often the files are looked at, beside at every connection
	complaintInterval = 10 * time.Minute    // between lines that say the same of them
	expiryNotice      = 14 * 24 * time.Hour // before a certificate's end
	expiryInterval    = 24 * time.Hour      // between warnings of that
)

// beginCredentials loads them for the first time. Files that cannot be read are an error of configuration. A
// certificate that the others will not take is none: it can be replaced while the node runs.
func (n *Node) beginCredentials() error {
	err := n.LoadCredentials()
	if !n.credentials.usable {
		return err
	}
	return nil
}

// watchCredentials looks at the files until ctx ends, so that who replaces them finds out at once what is wrong with
// them.
func (n *Node) watchCredentials(ctx context.Context) {
	for process.Sleep(ctx, credentialsLook) {
		_ = n.LoadCredentials() // it says so itself
	}
}

// memberCredentials loads them for a connection.
func (n *Node) memberCredentials() transport.Credentials {
	_ = n.LoadCredentials() // it says so itself
	n.credentials.mu.Lock()
	defer n.credentials.mu.Unlock()
	return n.credentials.last
}

// LoadCredentials reads the secret and the certificate for members anew. It logs and returns what is wrong with them.
func (n *Node) LoadCredentials() error {
	c := &n.credentials
	c.mu.Lock()
	defer c.mu.Unlock()
	next, leaf, err := n.readCredentials()
	if err == nil || !c.usable && next.Secrets != nil {
		n.tellCertificate(leaf)
		c.last, c.usable = next, true
	}
	if err == nil {
		c.complaint = ""
		return nil
	}
	if c.usable && (c.complaint != err.Error() || time.Since(c.complain) > complaintInterval) {
		n.log.Error("what this member proves itself with is not usable: other members refuse it, or it stays as it was",
			"error", err)
		c.complaint, c.complain = err.Error(), time.Now()
	}
	return err
}

// readCredentials reads the files. If they can be read, but not be used, there are both credentials and an error.
func (n *Node) readCredentials() (transport.Credentials, *x509.Certificate, error) {
	var c transport.Credentials
	secrets, err := n.config.Secrets()
	if err != nil {
		return c, nil, err
	}
	if n.config.MemberTLS.On() {
		t := &transport.TLS{}
		if t.Certificate, t.Authorities, err = n.config.MemberTLS.Load(); err != nil {
			return c, nil, err
		}
		c.TLS = t
	}
	for _, s := range secrets {
		c.Secrets = append(c.Secrets, []byte(s))
	}
	if c.TLS == nil {
		return c, nil, nil
	}
	var chain []*x509.Certificate
	for _, der := range c.TLS.Certificate.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return transport.Credentials{}, nil, fmt.Errorf("member_tls: cert %s: %w", n.config.MemberTLS.Cert, err)
		}
		chain = append(chain, cert)
	}
	if err := c.TLS.Verify(chain, n.config.Self().Name, time.Now()); err != nil {
		return c, chain[0], fmt.Errorf("member_tls: cert %s: %w", n.config.MemberTLS.Cert, err)
	}
	return c, chain[0], nil
}

// tellCertificate logs a certificate that is used from now on, and one that ends soon.
func (n *Node) tellCertificate(leaf *x509.Certificate) {
	c := &n.credentials
	if leaf == nil {
		return
	}
	if !c.usable || c.last.TLS == nil || !leaf.Equal(c.last.TLS.Certificate.Leaf) {
		n.log.Info("this is the certificate for other members now", "names", leaf.DNSNames, "until", leaf.NotAfter,
			"issuer", leaf.Issuer.String())
		c.warned = time.Time{}
	}
	if left := time.Until(leaf.NotAfter); left < expiryNotice && time.Since(c.warned) > expiryInterval {
		n.log.Warn("the certificate for other members ends soon: replace it; no restart is needed", "until",
			leaf.NotAfter)
		c.warned = time.Now()
	}
}

// nameOf is a member's name, which its certificate must have.
func (n *Node) nameOf(member uint32) string {
	for _, m := range n.config.Members {
		if m.Member == member {
			return m.Name
		}
	}
	return ""
}

// CheckConfig says what is wrong with the files that a configuration names. It starts nothing, and can be used beside a
// running node.
func CheckConfig(c *config.Config) error {
	n := New(c, slog.New(slog.DiscardHandler))
	_, _, err := n.readCredentials()
	err = errors.Join(err, n.loadClientTLS(), n.rules.Load())
	if dir := c.Postgres.BinDir; dir != "" {
		if _, e := os.Stat(filepath.Join(dir, "postgres")); e != nil {
			err = errors.Join(err, fmt.Errorf("postgres: bin_dir: %w", e))
		}
	}
	return err
}
