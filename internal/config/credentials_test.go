package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecrets: a file holds one secret, or two while it is exchanged, and is read anew.
func TestSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	c := &Config{SecretFile: path}
	for _, x := range []struct{ text, want, wrong string }{
		{"the first secret\n", "the first secret", ""},
		{"\n  the first secret  \r\nthe second secret", "the first secret|the second secret", ""},
		{"", "", "is empty"},
		{"the first secret\nshort\n", "", "shorter than 16"},
		{strings.Repeat("another secret..\n", 3), "", "has 3 lines"},
	} {
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := c.Secrets()
		if strings.Join(got, "|") != x.want || (err == nil) != (x.wrong == "") ||
			err != nil && !strings.Contains(err.Error(), x.wrong) {
			t.Errorf("%q: %q, %v, want %q, %q", x.text, got, err, x.want, x.wrong)
		}
	}
	if got, err := (&Config{Secret: "in the configuration"}).Secrets(); err != nil || len(got) != 1 ||
		got[0] != "in the configuration" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLoadCredentials: what contradicts itself is refused before the node starts.
func TestLoadCredentials(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("sixteen characters\nanother secret..\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const rest = "\ncluster = \"c\"\nmember = 1\ndata_dir = \"/d\"\nlisten = \"h:1\"\nmember_listen = \"h:2\"\n"
	const members = "[[members]]\nmember = 1\nname = \"a\"\naddress = \"h:2\"\n"
	path := filepath.Join(dir, "node.toml")
	for _, x := range []struct{ head, tail, wrong string }{
		{`secret_file = "` + secret + `"`, "", ""},
		{`secret = "sixteen characters"`, "", ""},
		{`secret = "sixteen characters"` + "\n" + `secret_file = "` + secret + `"`, "",
			"secret and secret_file are both given"},
		{`secret_file = "` + secret + `.not"`, "", "no such file"},
		{"", "", "secret is missing"},
		{`secret = "sixteen characters"`, "[member_tls]\ncert = \"c\"\nkey = \"k\"\nca = \"a\"\n", ""},
		{`secret = "sixteen characters"`, "[member_tls]\ncert = \"c\"\nkey = \"k\"\n", "member_tls: ca is missing"},
		{`secret = "sixteen characters"`, "[member_tls]\nca = \"c\"\nkey = \"k\"\n", "member_tls: cert is missing"},
	} {
		if err := os.WriteFile(path, []byte(x.head+rest+members+x.tail), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path)
		if (err == nil) != (x.wrong == "") || err != nil && !strings.Contains(err.Error(), x.wrong) {
			t.Errorf("%s %s: %v, want %q", x.head, x.tail, err, x.wrong)
		}
		if err == nil && (c.Secret != "sixteen characters" || c.MemberTLS.On() != (x.tail != "")) {
			t.Errorf("%s %s: secret %q, TLS %t", x.head, x.tail, c.Secret, c.MemberTLS.On())
		}
	}
}
