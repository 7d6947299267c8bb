package credentials

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/transport"
)

// Credentials are what the node proves itself with to the other members. What is in the files counts from the next
// connection on; files that cannot be used leave what was there before.
type Credentials struct {
	config *config.Config
	log    *slog.Logger

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

// New makes those of a node, which are not loaded yet.
func New(c *config.Config, log *slog.Logger) *Credentials { return &Credentials{config: c, log: log} }

// Begin loads them for the first time. Files that cannot be read are an error of configuration. A
// certificate that the others will not take is none: it can be replaced while the node runs.
func (c *Credentials) Begin() error {
	err := c.Load()
	if !c.usable {
		return err
	}
	return nil
}

// Watch looks at the files until ctx ends, so that who replaces them finds out at once what is wrong with
// them.
func (c *Credentials) Watch(ctx context.Context) {
	for process.Sleep(ctx, credentialsLook) {
		_ = c.Load() // it says so itself
	}
}

// Now loads them for a connection.
func (c *Credentials) Now() transport.Credentials {
	_ = c.Load() // it says so itself
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Load reads the secret and the certificate for members anew. It logs and returns what is wrong with them.
func (c *Credentials) Load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, leaf, err := c.read()
	if err == nil || !c.usable && next.Secrets != nil {
		c.tellCertificate(leaf)
		c.last, c.usable = next, true
	}
	if err == nil {
		c.complaint = ""
		return nil
	}
	if c.usable && (c.complaint != err.Error() || time.Since(c.complain) > complaintInterval) {
		c.log.Error("what this member proves itself with is not usable: other members refuse it, or it stays as it was",
			"error", err)
		c.complaint, c.complain = err.Error(), time.Now()
	}
	return err
}

// read reads the files. If they can be read, but not be used, there are both credentials and an error.
func (x *Credentials) read() (transport.Credentials, *x509.Certificate, error) {
	var c transport.Credentials
	secrets, err := x.config.Secrets()
	if err != nil {
		return c, nil, err
	}
	if x.config.MemberTLS.On() {
		t := &transport.TLS{}
		if t.Certificate, t.Authorities, err = x.config.MemberTLS.Load(); err != nil {
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
			return transport.Credentials{}, nil, fmt.Errorf("member_tls: cert %s: %w", x.config.MemberTLS.Cert, err)
		}
		chain = append(chain, cert)
	}
	if err := c.TLS.Verify(chain, x.config.Self().Name, time.Now()); err != nil {
		return c, chain[0], fmt.Errorf("member_tls: cert %s: %w", x.config.MemberTLS.Cert, err)
	}
	return c, chain[0], nil
}

// tellCertificate logs a certificate that is used from now on, and one that ends soon.
func (c *Credentials) tellCertificate(leaf *x509.Certificate) {
	if leaf == nil {
		return
	}
	if !c.usable || c.last.TLS == nil || !leaf.Equal(c.last.TLS.Certificate.Leaf) {
		c.log.Info("this is the certificate for other members now", "names", leaf.DNSNames, "until", leaf.NotAfter,
			"issuer", leaf.Issuer.String())
		c.warned = time.Time{}
	}
	if left := time.Until(leaf.NotAfter); left < expiryNotice && time.Since(c.warned) > expiryInterval {
		c.log.Warn("the certificate for other members ends soon: replace it; no restart is needed", "until",
			leaf.NotAfter)
		c.warned = time.Now()
	}
}

// Check says what is wrong with the files, and uses nothing of them.
func (c *Credentials) Check() error {
	_, _, err := c.read()
	return err
}
