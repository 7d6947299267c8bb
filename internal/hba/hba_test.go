package hba

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files is a file system of strings.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	if s, ok := f[path]; ok {
		return []byte(s), nil
	}
	return nil, os.ErrNotExist
}

func rules(t *testing.T, text string) *Rules {
	t.Helper()
	r, err := load("/d/hba", files{"/d/hba": text}.read)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func client(address string) Client {
	return Client{Address: netip.MustParseAddr(address), User: "ann", Database: "shop"}
}

// found is the line of the rule for a client; zero for none.
func found(t *testing.T, r *Rules, c Client) int {
	t.Helper()
	rule, err := r.Find(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if rule == nil {
		return 0
	}
	return rule.Line
}

// TestWhole: one wrong line refuses the file, and all of them are named (A2).
func TestWhole(t *testing.T) {
	_, err := load("/d/hba",
		files{"/d/hba": "host all all all trust\nhost all all\nhost all all all magic\nhost all @more all reject\n",
			"/d/more": ""}.read)
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"/d/hba, line 2: end-of-line before IP address specification",
		`/d/hba, line 3: invalid authentication method "magic"`, "/d/hba, line 4: more holds no words"} {
		want = strings.Replace(want, ": more", ": /d/more", 1)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	for text, want := range map[string]string{
		"host all all 10.1/16 reject\n":                          `invalid IP address "10.1"`,
		"host all /^a all reject\n":                              "regular expressions are not possible here",
		"include other\n":                                        "include is not possible here",
		"host all all all reject \\\n":                           "the last line ends with a backslash",
		"host all all all reject\x00\n":                          "zero byte",
		"host all @hba all reject\n":                             "deep",
		"host all @missing all reject\n":                         "does not exist",
		"host all " + strings.Repeat("u", 256) + " all reject\n": "more than 255 bytes",
		"hostssl all all all cert map=m\n":                       `authentication option "map" is not possible here`,
		"hostssl all all all scram-sha-256 clientname=DN\n":      "clientname=DN is not possible here",
		"host all all all scram-sha-256 " +
			"clientcert=verify-full\n": `clientcert can only be configured for "hostssl" rows`,
	} {
		if _, err := load("/d/hba", files{"/d/hba": text}.read); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if r, err := load("/d/none", files{}.read); err == nil || r.Changed() {
		t.Error("a file that does not exist is taken")
	}
}

// TestCheck: what a member cannot do for its clients it refuses beforehand.
func TestCheck(t *testing.T) {
	all := Capabilities{Trust: true, TLS: true, Verify: true}
	for _, c := range []struct {
		text    string
		without func(*Capabilities)
		want    string
	}{
		{"host all all all trust\n", func(c *Capabilities) { c.Trust = false },
			"line 1: trust needs allow_trust = true"},
		{"\nhostssl all all all cert\n", func(c *Capabilities) { c.Verify = false },
			"line 2: certificates of clients need ca"},
		{"hostssl all all all scram-sha-256 clientcert=verify-ca\n", func(c *Capabilities) { c.Verify = false },
			"certificates of clients need ca"},
		{"host all all all ldap\n", func(*Capabilities) {}, "method ldap is not possible here"},
		{"host all all all password\n", func(*Capabilities) {}, "method password is not possible here"},
	} {
		r := rules(t, c.text)
		can := all
		c.without(&can)
		if _, err := r.Check(can); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
		if strings.Contains(c.want, "not possible") {
			continue
		}
		if _, err := r.Check(all); err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	r := rules(t,
		"local all postgres peer\nlocal all all trust\nhostssl all all all reject\nhostgssenc all all all reject\n")
	warnings, err := r.Check(Capabilities{})
	if err != nil || len(warnings) != 2 || !strings.HasPrefix(warnings[0], "/d/hba:3: hostssl matches nobody") ||
		!strings.HasPrefix(warnings[1], "/d/hba:4: hostgssenc") {
		t.Errorf("%q, %v", warnings, err)
	}
}

// TestNobody: who has no rule has none; "local" lines are for nobody here (A1).
func TestNobody(t *testing.T) {
	if n := found(t, rules(t, "local all all trust\nhost other all all trust\nhostssl all all all reject\n"),
		client("10.0.0.1")); n != 0 {
		t.Errorf("line %d", n)
	}
}

// TestLongNames: PostgreSQL cuts names, so a rule for the cut one is not evaded by a longer one (A3).
func TestLongNames(t *testing.T) {
	name := strings.Repeat("n", 63)
	r := rules(t, "host all "+name+" all reject\nhost "+name+" all all reject\nhost all all all scram-sha-256\n")
	c := client("10.0.0.1")
	c.User += strings.Repeat("x", 80)
	if n := found(t, r, c); n != 3 {
		t.Errorf("line %d for another name", n)
	}
	c.User = name + "more"
	if n := found(t, r, c); n != 1 {
		t.Errorf("line %d for a longer user", n)
	}
	c.User, c.Database = "ann", name+"more"
	if n := found(t, r, c); n != 2 {
		t.Errorf("line %d for a longer database", n)
	}
}

// TestMembersUnknown: who cannot be asked about refuses the client, but not one whom an earlier rule is about (A4).
func TestMembersUnknown(t *testing.T) {
	r := rules(t, "host first all all trust\nhost all +staff all reject\nhost all all all trust\n")
	c := client("10.0.0.1")
	c.Member = func(string, string) (bool, error) { return false, errors.New("no server") }
	if rule, err := r.Find(t.Context(), c); rule != nil || err == nil {
		t.Errorf("%v, %v", rule, err)
	}
	c.Database = "first"
	if n := found(t, r, c); n != 1 {
		t.Errorf("line %d", n)
	}
	r = rules(t, "host samerole all all reject\nhost all all all trust\n")
	if rule, err := r.Find(t.Context(), c); rule != nil || err == nil {
		t.Errorf("%v, %v", rule, err)
	}
}

// dns is a Resolver.
type dns struct {
	names, addresses map[string][]string
	asked            int
}

func (d *dns) LookupAddr(_ context.Context, a string) ([]string, error) {
	d.asked++
	return d.names[a], nil
}

func (d *dns) LookupHost(_ context.Context, h string) ([]string, error) {
	return d.addresses[h], nil
}

// TestNames: a name counts if it leads back to the address. It is looked for once, and only if a rule has one.
func TestNames(t *testing.T) {
	d := &dns{names: map[string][]string{"10.0.0.1": {"Db.Example.org."}, "10.0.0.2": {"db.example.org."}},
		addresses: map[string][]string{"Db.Example.org": {"10.0.0.9", "10.0.0.1"}}}
	r := rules(t,
		"host all all 10.0.0.7/32 reject\nhost all all example.org reject\nhost all all db.example.org trust\nhost "+
			"all all .example.ORG reject\nhost all all .org trust\n")
	for address, want := range map[string]int{"10.0.0.7": 1, "10.0.0.1": 3, "10.0.0.2": 0, "10.0.0.3": 0,
		"::ffff:10.0.0.1": 3} {
		c := client(address)
		c.Resolver = d
		d.asked = 0
		if n := found(t, r, c); n != want || want == 1 && d.asked != 0 || d.asked > 1 {
			t.Errorf("%s: line %d after %d questions, want %d", address, n, d.asked, want)
		}
	}
	for pattern, yes := range map[string]bool{"a.b": true, "A.B": true, ".b": true, ".a.b": false, "b": false,
		".": false} {
		if matchName(pattern, "a.b") != yes {
			t.Errorf("%s is not %v", pattern, yes)
		}
	}
}

// TestNets: the machine's own addresses, and their networks.
func TestNets(t *testing.T) {
	own := func() []*net.IPNet {
		return []*net.IPNet{{IP: net.ParseIP("10.1.2.3"), Mask: net.CIDRMask(16, 32)}, {IP: net.ParseIP("fd00::5"),
			Mask: net.CIDRMask(64, 128)}}
	}
	r := rules(t, "host all all samehost trust\nhost all all samenet reject\n")
	for address, want := range map[string]int{"10.1.2.3": 1, "10.1.9.9": 2, "10.2.0.1": 0, "fd00::5": 1, "fd00::6": 2,
		"fd00:0:0:1::5": 0, "::ffff:10.1.2.3": 1, "fd00::5%eth0": 1} {
		c := client(address)
		c.Interfaces = own
		if n := found(t, r, c); n != want {
			t.Errorf("%s: line %d, want %d", address, n, want)
		}
	}
	if c := client("127.0.0.1"); found(t, r, c) != 1 {
		t.Error("this machine's own address is none of its addresses")
	}
}

// TestChanged: files are looked at by what they hold, those that are included, too.
func TestChanged(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("hba", "host all @users all reject\n")
	write("users", "ann\n")
	r, err := Load(filepath.Join(dir, "hba"))
	if err != nil || r.Changed() || r.Half() {
		t.Fatalf("%v, changed %v, half %v", err, r.Changed(), r.Half())
	}
	write("users", "bob\n")
	if !r.Changed() {
		t.Error("another word in an included file is no change")
	}
	if r, err = Load(filepath.Join(dir, "hba")); err != nil || r.Changed() {
		t.Fatal(err)
	}
	write("users", "bo")
	if r, err = Load(filepath.Join(dir, "hba")); err != nil || !r.Half() {
		t.Fatalf("%v, half %v", err, r.Half())
	}
	if err := os.Remove(filepath.Join(dir, "users")); err != nil {
		t.Fatal(err)
	}
	if !r.Changed() {
		t.Error("a file that is gone is no change")
	}
	if r, err = Load(filepath.Join(dir, "hba")); err == nil || r.Changed() {
		t.Errorf("%v, changed %v", err, r.Changed())
	}
}

// FuzzLoad: no text makes the reader fail otherwise than with an error.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{"host all all all trust\n", "host \"a\"\"b\",@x 10.0.0.0/8 \\\n reject # c\n", "\"", "@",
		"a,\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := load("/d/hba", files{"/d/hba": text, "/d/x": text}.read)
		if err == nil {
			c := client("10.0.0.1")
			c.Member = func(string, string) (bool, error) { return true, nil }
			c.Resolver = &dns{}
			if _, err := r.Find(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
	})
}
