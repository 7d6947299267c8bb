package hba

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/pgtest"
)

const (
	filesOfWords = 30 // of lines in all forms, of which many are wrong
	filesOfRules = 16 // of right ones, about which PostgreSQL is asked by connecting
	linesOfFile  = 40
)

// oracle is a PostgreSQL that reads the same files.
type oracle struct {
	*testing.T
	server *pgtest.Server
	conn   *pgx.Conn
	path   string
	random *rand.Rand
}

func newOracle(t *testing.T) *oracle {
	s := pgtest.Start(t, pgtest.TCP(), pgtest.Setting("password_encryption", "md5"), pgtest.Setting("log_min_messages",
		"panic"))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	o := &oracle{T: t, server: s, conn: s.Connect(t, ""), path: filepath.Join(s.DataDir(), "pg_hba.conf"),
		random: rand.New(rand.NewPCG(seed, 0))}
	o.certificate()
	return o
}

// certificate has the server speak TLS.
func (o *oracle) certificate() {
	o.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		o.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(cryptorand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		o.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		o.Fatal(err)
	}
	owner, err := os.Stat(filepath.Join(o.server.DataDir(), "PG_VERSION"))
	if err != nil {
		o.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"server.crt": {Type: "CERTIFICATE", Bytes: der},
		"server.key": {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		path := filepath.Join(o.server.DataDir(), name)
		err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600)
		if st := owner.Sys().(*syscall.Stat_t); err == nil {
			err = os.Chown(path, int(st.Uid), int(st.Gid))
		}
		if err != nil {
			o.Fatal(err)
		}
	}
	o.server.Exec(o.T, "", "ALTER SYSTEM SET ssl_ca_file = 'server.crt'", "ALTER SYSTEM SET ssl = on")
	o.load("local all all trust\n")
}

func (o *oracle) write(text string) {
	o.Helper()
	if err := os.WriteFile(o.path, []byte(text), 0o644); err != nil {
		o.Fatal(err)
	}
}

func (o *oracle) one(words ...string) string { return words[o.random.IntN(len(words))] }

// names is a field of databases or users, in one of the ways to write it.
func (o *oracle) names(words ...string) string {
	out := o.one("all", o.one(words...))
	for o.random.IntN(3) == 0 {
		out += o.one(",", ", ", ",,", ", \t") + o.one(words...)
	}
	return out
}

var (
	databaseWords = []string{"all", `"all"`, "sameuser", `"sameuser"`, "samerole", "samegroup", "replication",
		"postgres", "alice", "team", `"te""am"`, `te"a"m`, `""`, `"a b,#c"`, "ALL", "@names"}
	userWords = []string{"all", `"all"`, "alice", "bob", "+team", `"+team"`, "+sub", "+nobody", "+", `"Bob"`,
		strings.Repeat("n", 63), "@names"}
	addressWords = []string{"all", `"all"`, "samehost", "samenet", "127.0.0.1/32", "127.0.0.2/31", "127.0.0.9/8",
		"0.0.0.0/0", "::1/128", "::/0", "127.0.0.2 255.255.255.255", "127.0.0.7 255.0.255.0",
		"fe80::1/10", "::ffff:127.0.0.1/128", "::1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "127.0.0.1/0"}
	wrongAddresses = []string{"127.0.0.1", "127.0.0.1/33", "127.0.0.1/", "127.0.0.1/x", "host.example/8",
		"127.0.0.1 ::1", "::1 255.0.0.0", "127.0.0.1,127.0.0.2", "host.example", ".example", "127.0.0.1 mask",
		"::1/129",
		"::1/-1"}
	methodWords = []string{"trust", "reject", "scram-sha-256", "md5", "password"}
)

// rule is a line that PostgreSQL takes.
func (o *oracle) rule() string {
	gap := func() string { return o.one(" ", "\t", "   ", " \t ", "\\\n ", " \\\n") }
	return o.one("host", "host", "host", "hostnossl", "hostssl",
		"hostnogssenc") + gap() + o.names(databaseWords...) + gap() + o.names(userWords...) + gap() +
		o.one(addressWords...) + gap() +
		o.one(methodWords...) + o.one("", " # why", "#", " \r")
}

// words is a line that it may refuse.
func (o *oracle) words() string {
	line := strings.Fields(o.rule())
	switch o.random.IntN(8) {
	case 0:
		i := o.random.IntN(len(line))
		line = slices.Delete(line, i, i+1)
	case 1:
		line = slices.Insert(line, o.random.IntN(len(line)),
			o.one("x", ",", ",x", `"`, `""`, "all", "#", "a,b", `a"b c"d`,
				`"a"b`, `a""`))
	case 2:
		line = []string{o.one("host", "hostssl"), "all", "all", o.one(wrongAddresses...), "trust"}
	case 3:
		line = append([]string{"hostssl all all all", o.one("cert", "trust", "scram-sha-256")},
			o.one("clientcert=verify-full", "clientcert=verify-ca", "clientcert=no", "clientcert",
				"clientcert=verify-ca,clientname=CN", `"clientcert=verify-full"`))
	case 4:
		line = []string{o.one("host", "hostnossl"), "all all all",
			o.one("cert", "peer", "clientcert=verify-ca", "magic",
				"Trust", `"trust"`, "trust,reject", "ident", "trust clientcert=verify-ca")}
	case 5:
		line = []string{o.one("local all all peer", "local all trust", "local replication postgres trust",
			"socket all all trust", "host,local all all all trust", "hostgssenc all all all trust", "", "# host", " ,",
			`"host" all all all trust`)}
	}
	return strings.Join(line, o.one(" ", "\t", "  "))
}

// TestParsedAsPostgreSQL compares each line with what PostgreSQL says of it in pg_hba_file_rules.
func TestParsedAsPostgreSQL(t *testing.T) {
	o := newOracle(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(o.path), "names"), []byte("team, \"all\"\n# no\nother\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	good, bad := 0, 0
	for range filesOfWords {
		text := "local all all trust\n"
		for range linesOfFile {
			text += o.words() + "\n"
		}
		o.write(text)
		ours, theirs := o.ours(), o.theirs()
		for number := 1; number <= strings.Count(text, "\n"); number++ {
			if ours[number] != theirs[number] {
				t.Errorf("line %d of\n%s\nis      %s\nbut for PostgreSQL %s", number, text, ours[number],
					theirs[number])
				return
			}
			switch ours[number] {
			case "":
			case "refused":
				bad++
			default:
				good++
			}
		}
	}
	if good < 300 || bad < 100 {
		t.Errorf("only %d lines were taken and %d refused", good, bad)
	}
}

// ours gives each line in words.
func (o *oracle) ours() map[int]string {
	o.Helper()
	r := &reader{read: os.ReadFile, files: map[string][]byte{}}
	lines, err := r.lines(o.path, 0)
	if err != nil {
		o.Fatal(err)
	}
	out := map[int]string{}
	list := func(tokens []token) (out []string) {
		for _, t := range tokens {
			out = append(out, t.text)
		}
		return out
	}
	for _, l := range lines {
		rule, err := parse(l)
		if err != nil {
			out[l.number] = "refused"
			continue
		}
		address, mask := map[addressKind]string{anyAddress: "all", sameHost: "samehost", sameNet: "samenet",
			named: rule.address.name}[rule.address.kind], ""
		if rule.Type == "local" {
			address = ""
		}
		if rule.address.kind == network {
			at, _ := netip.AddrFromSlice(rule.address.at)
			under, _ := netip.AddrFromSlice(rule.address.mask)
			address, mask = at.String(), under.String()
		}
		out[l.number] = fmt.Sprintf("%s %q %q %s %s %s %s", rule.Type, list(rule.databases), list(rule.users), address,
			mask, rule.Method, rule.Certificate)
	}
	return out
}

func (o *oracle) theirs() map[int]string {
	o.Helper()
	rows, err := o.conn.Query(context.Background(),
		"SELECT line_number, type, database, user_name, coalesce(address, ''), coalesce(netmask, ''), auth_method, "+
			"options, error FROM pg_hba_file_rules")
	if err != nil {
		o.Fatal(err)
	}
	out := map[int]string{}
	var number int
	var kind, address, mask, method, wrong *string
	var databases, users, options []string
	_, err = pgx.ForEachRow(rows, []any{&number, &kind, &databases, &users, &address, &mask, &method, &options, &wrong},
		func() error {
			if wrong != nil || kind == nil { // some that are refused have neither
				out[number] = "refused"
				return nil
			}
			certificate := ""
			for _, option := range options {
				if value, ok := strings.CutPrefix(option, "clientcert="); ok {
					certificate = value
				}
			}
			if _, err := numeric(*address); err != nil && *address != "" { // it takes "::1x" for a name
				out[number] = "refused"
				return nil
			}
			plain := func(s string) string { // "::ffff:0:0/96" has two forms
				if ip, err := netip.ParseAddr(s); err == nil {
					return ip.String()
				}
				return s
			}
			out[number] = fmt.Sprintf("%s %q %q %s %s %s %s", *kind, databases, users, plain(*address), plain(*mask),
				*method,
				certificate)
			return nil
		})
	if err != nil {
		o.Fatal(err)
	}
	return out
}

// TestFoundAsPostgreSQL has clients from several addresses ask for several databases, here and there.
func TestFoundAsPostgreSQL(t *testing.T) {
	o := newOracle(t)
	o.server.Exec(t, "", "CREATE ROLE team", "CREATE ROLE sub ROLE team", "DROP ROLE sub",
		"CREATE ROLE sub IN ROLE team", "CREATE ROLE alice LOGIN IN ROLE team",
		"CREATE ROLE bob LOGIN SUPERUSER IN ROLE sub")
	members := map[string][]string{"alice": {"team"}, "bob": {"sub", "team"}, "sub": {"team"}}
	known := []string{"alice", "bob", "sub", "team"}
	member := func(role, of string) (bool, error) {
		return slices.Contains(known, role) && (role == of || slices.Contains(members[role], of)), nil
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(o.path), "names"), []byte("bob \"all\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sources := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.5.0.7", "127.5.6.7"}
	if c, err := net.Dial("tcp", fmt.Sprintf("[::1]:%d", o.server.Port())); err == nil {
		_ = c.Close()
		sources = append(sources, "::1")
	}
	verdicts := map[string]int{}
	for range filesOfRules {
		text := ""
		for range 2 + o.random.IntN(8) {
			text += o.rule() + "\n"
		}
		o.load("local all all trust\n" + text)
		rules, err := Load(o.path)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		for range 20 {
			c := Client{Address: netip.MustParseAddr(o.one(sources...)),
				Database: o.one("", "postgres", "alice", "team",
					`te"am`, "all", "replication"), User: o.one("alice", "bob", "team", "nobody", "all", "+team", "Bob",
					"sub",
					strings.Repeat("n", 70)), TLS: o.random.IntN(5) == 0, Member: member}
			rule, err := rules.Find(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			ours := "none"
			if rule != nil {
				ours = rule.Method
			}
			theirs := o.ask(c)
			verdicts[theirs]++
			if ours != theirs {
				t.Fatalf("for %s (TLS %v) as %q to %q: %v, %s, but PostgreSQL says %s of\n%s", c.Address, c.TLS, c.User,
					c.Database, rule, ours, theirs, text)
			}
		}
	}
	if len(verdicts) < 4 {
		t.Errorf("clients were told %v only", verdicts)
	}
}

// load has PostgreSQL go by a file.
func (o *oracle) load(text string) {
	o.Helper()
	o.write(text)
	var before, now time.Time
	if err := o.conn.QueryRow(context.Background(),
		"SELECT pg_conf_load_time() FROM pg_reload_conf()").Scan(&before); err != nil {
		o.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); !now.After(before); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			o.Fatal("PostgreSQL does not read its files again")
		}
		c, err := pgx.Connect(context.Background(), o.server.ConnString(""))
		if err == nil {
			err = c.QueryRow(context.Background(), "SELECT pg_conf_load_time()").Scan(&now)
			_ = c.Close(context.Background())
		}
		if err != nil {
			o.Fatal(err)
		}
	}
	if err := o.conn.Close(context.Background()); err != nil {
		o.Fatal(err)
	}
	o.conn = o.server.Connect(o.T, "")
}

// ask connects as a client, and gives the method that PostgreSQL begins with.
func (o *oracle) ask(c Client) string {
	o.Helper()
	host := "127.0.0.1"
	if c.Address.Is6() {
		host = "::1"
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: c.Address.AsSlice()}, Timeout: 10 * time.Second}
	conn, err := d.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(o.server.Port())))
	if err != nil {
		o.Fatal(err)
	}
	defer conn.Close()
	if c.TLS {
		if _, err := conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
			o.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			o.Fatal(err)
		}
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	body := "user\x00" + c.User + "\x00"
	if c.Database != "" {
		body += "database\x00" + c.Database + "\x00"
	}
	packet := binary.BigEndian.AppendUint32(nil, uint32(len(body)+9))
	packet = append(binary.BigEndian.AppendUint32(packet, 3<<16), body+"\x00"...)
	if _, err := conn.Write(packet); err != nil {
		o.Fatal(err)
	}
	head := make([]byte, 9)
	if _, err := io.ReadFull(conn, head); err != nil {
		o.Fatal(err)
	}
	if head[0] == 'R' {
		return map[uint32]string{0: "trust", 3: "password", 5: "md5",
			10: "scram-sha-256"}[binary.BigEndian.Uint32(head[5:])]
	}
	rest, _ := io.ReadAll(conn)
	if strings.Contains(string(rest), "no pg_hba.conf entry for host") {
		return "none"
	}
	if strings.Contains(string(rest), "pg_hba.conf rejects connection") {
		return "reject"
	}
	return string(rest)
}
