package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

// MemberTLS is TLS between members: all three files, or none. They may be replaced while the node runs.
type MemberTLS struct {
	Cert string `toml:"cert"` // its name is this member's
	Key  string `toml:"key"`
	CA   string `toml:"ca"` // of all members' certificates
}

// On reports whether members talk TLS.
func (t MemberTLS) On() bool { return t != MemberTLS{} }

// validate refuses half a configuration.
func (t MemberTLS) validate() error {
	for what, file := range map[string]string{"cert": t.Cert, "key": t.Key, "ca": t.CA} {
		if file == "" && t.On() {
			return fmt.Errorf("member_tls: %s is missing: give cert, key and ca, or none of them", what)
		}
	}
	return nil
}

// Load reads the files. They must have been given.
func (t MemberTLS) Load() (tls.Certificate, *x509.CertPool, error) {
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return cert, nil, fmt.Errorf("member_tls: cert %s, key %s: %w", t.Cert, t.Key, err)
	}
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return cert, nil, fmt.Errorf("member_tls: ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return cert, nil, fmt.Errorf("member_tls: ca %s holds no certificate", t.CA)
	}
	return cert, pool, nil
}

const (
	secretBytesMin = 16
	secretsMax     = 2 // the one that is used, and the one that is exchanged
)

// Secrets reads what members prove themselves with: the lines of secret_file, one, or two while the secret is
// exchanged, or the one that is in the configuration.
func (c *Config) Secrets() ([]string, error) {
	if c.SecretFile == "" {
		return []string{c.Secret}, nil
	}
	text, err := os.ReadFile(c.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("secret_file: %w", err)
	}
	var secrets []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			secrets = append(secrets, line)
		}
	}
	for _, s := range secrets {
		if len(s) < secretBytesMin {
			return nil, fmt.Errorf("secret_file %s has a secret that is shorter than %d characters", c.SecretFile,
				secretBytesMin)
		}
	}
	switch {
	case len(secrets) == 0:
		return nil, errors.New("secret_file " + c.SecretFile + " is empty")
	case len(secrets) > secretsMax:
		return nil, fmt.Errorf("secret_file %s has %d lines: one secret, or two while it is exchanged", c.SecretFile,
			len(secrets))
	}
	return secrets, nil
}
