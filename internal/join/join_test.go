package join

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
)

// TestInit: what is made is a configuration that can be used, with what is secret for its owner only; nothing is
// overwritten, and addresses that are none are refused and leave no configuration.
func TestInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	o := Options{Dir: dir, Cluster: "shop", Name: "alpha", Listen: "10.0.0.1:5432", MemberListen: "10.0.0.1:7432",
		Database: "orders"}
	var out bytes.Buffer
	if err := Init(o, &out); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, configName)
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Cluster != "shop" || c.Database != "orders" || c.Member != 1 || len(c.Members) != 1 ||
		c.Self() != o.member(1) || !c.MemberTLS.On() || c.DataDir != filepath.Join(dir, "data") {
		t.Errorf("%+v", c)
	}
	if _, _, err := c.MemberTLS.Load(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "tutti node --config "+path) {
		t.Errorf("it says %q", out.String())
	}
	for _, name := range []string{configName, secretName, "cluster/secret", "cluster/ca.key", "tls/member.key"} {
		if s, err := os.Stat(filepath.Join(dir, name)); err != nil || s.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if err := Init(o, &out); err == nil || !strings.Contains(err.Error(), "there is a node") {
		t.Errorf("it is made again: %v", err)
	}
	o.Dir, o.Listen = filepath.Join(t.TempDir(), "b"), "nowhere"
	if err := Init(o, &out); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a wrong address: %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, configName)); !os.IsNotExist(err) {
		t.Errorf("the configuration stays: %v", err)
	}
}

// TestJoinRefuses: without the keys of a cluster, or a node that runs, nothing is made.
func TestJoinRefuses(t *testing.T) {
	first := filepath.Join(t.TempDir(), "a")
	if err := Init(Options{Dir: first, Cluster: "shop", Name: "alpha", Listen: "h:1", MemberListen: "h:2",
		Database: "postgres"}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{ // order-free: each for itself
		t.TempDir():                    "must be a copy",
		filepath.Join(first, keysName): "ask 127.0.0.1:1",
	} {
		o := Options{Dir: filepath.Join(t.TempDir(), "b"), Keys: keys, From: "127.0.0.1:1", User: "postgres",
			Name: "beta", Listen: "h:3", MemberListen: "h:4"}
		if err := Join(t.Context(), o, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and it is to say %q", err, want)
		}
		if _, err := os.Stat(filepath.Join(o.Dir, configName)); !os.IsNotExist(err) {
			t.Errorf("there is a configuration: %v", err)
		}
	}
}
