package cluster

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
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

// from connects to node k from one of this machine's addresses, with these words of a connection string.
func (c *Cluster) from(k int, address, words string) (*pgconn.PgConn, error) {
	_, port, err := net.SplitHostPort(c.Node(k).Config.Listen)
	if err != nil {
		return nil, err
	}
	o, err := pgconn.ParseConfig(fmt.Sprintf("host=localhost port=%s dbname=postgres sslmode=disable "+
		"connect_timeout=20 %s", port, words))
	if err != nil {
		return nil, err
	}
	o.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	o.DialFunc = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext
	return pgconn.ConnectConfig(context.Background(), o)
}

// turnedAway connects as from does, and must be told this.
func (c *Cluster) turnedAway(address, words, code, message string) {
	c.tb.Helper()
	pg, err := c.from(1, address, words)
	if err == nil {
		_ = pg.Close(context.Background())
		c.tb.Errorf("%s from %s is let in", words, address)
		return
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Severity != "FATAL" || e.Code != code || e.Message != message {
		c.tb.Errorf("%s from %s: %v, want %s: %s", words, address, err, code, message)
	}
}

// admitted connects as from does, and runs a query.
func (c *Cluster) admitted(address, words, query string) (answer string) {
	c.tb.Helper()
	pg, err := c.from(1, address, words)
	if err != nil {
		c.tb.Errorf("%s from %s: %v", words, address, err)
		return ""
	}
	defer pg.Close(context.Background())
	r, err := pg.Exec(context.Background(), query).ReadAll()
	if err != nil {
		c.tb.Errorf("%s: %v", query, err)
		return ""
	}
	for _, row := range r[len(r)-1].Rows {
		for _, v := range row {
			answer += string(v) + " "
		}
	}
	return strings.TrimSpace(answer)
}

// said finds the record in node 1's log, which is in JSON, that has all of these.
func (c *Cluster) recorded(want map[string]any) (found bool) {
	c.tb.Helper()
	f, err := os.Open(c.Node(1).LogFile)
	if err != nil {
		c.tb.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		record := map[string]any{}
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			c.tb.Fatalf("a line of the log is no JSON: %s", lines.Text())
		}
		all := true
		for k, v := range want {
			all = all && fmt.Sprint(record[k]) == fmt.Sprint(v)
		}
		found = found || all
	}
	return found
}

// certificateOf writes a certificate for a user and its key into dir, signed by itself.
func certificateOf(t *testing.T, dir, user string) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, user+".pem"), filepath.Join(dir, user+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "EC PRIVATE KEY",
			Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// serverRules puts lines before the others of pg_hba.conf of node 1's PostgreSQL, and waits until they count.
func (c *Cluster) serverRules(lines string) {
	c.tb.Helper()
	path := filepath.Join(c.Node(1).Config.DataDir, "postgres", "pg_hba.conf")
	old, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append([]byte(lines), old...), 0o600)
	}
	if err != nil {
		c.tb.Fatal(err)
	}
	before := c.Connect(1).Get("SELECT pg_conf_load_time() FROM pg_reload_conf()")
	c.await(1, readyTimeout, func(context.Context) error {
		if c.Connect(1).Get("SELECT pg_conf_load_time()") == before {
			return errors.New("PostgreSQL has not read its files again")
		}
		return nil
	})
}

// TestWhoWasIt: rules by address are PostgreSQL's, in its words; who came, who was refused and who failed is in the
// log, and who is there in SQL.
func TestWhoWasIt(t *testing.T) {
	t.Parallel() // mostly it waits
	dir := t.TempDir()
	rules := filepath.Join(dir, "clients.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const first = "host all all 127.0.0.9/32 reject\nhost all postgres 127.0.0.1/32 trust\nhost all +staff " +
		"127.0.0.0/24 scram-sha-256\nhost all lax all scram-sha-256\n"
	write(first + "hostssl all byname all cert\n")
	cert, key := certificate(t, dir)
	mine, mineKey := certificateOf(t, dir, "byname")
	other, otherKey := certificateOf(t, dir, "other")
	var ca []byte
	for _, f := range []string{mine, other} {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		ca = append(ca, b...)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Start(t, 1, func(_ int, n *config.Config) {
		n.HBAFile, n.LogFormat, n.ApplicationNameAddHost = rules, "json", true
		n.ClientTLS = config.TLS{Cert: cert, Key: key, CA: filepath.Join(dir, "ca.pem")}
	})
	s := c.Connect(1)
	s.Do("CREATE ROLE staff")
	for _, role := range []string{"ann", "bob", "lax", "byname"} {
		s.Do("CREATE ROLE " + role + " LOGIN PASSWORD '" + verifier + "'")
	}
	s.Do("GRANT staff TO ann")
	c.serverRules("local all ann,bob scram-sha-256\n")

	c.whoIsThere()
	c.turnedAway("127.0.0.2", "user=ann password=wrong", "28P01", `password authentication failed for user "ann"`)
	c.turnedAway("127.0.0.9", "user=ann password=secret", "28000",
		`pg_hba.conf rejects connection for host "127.0.0.9", user "ann", database "postgres", no encryption`)
	c.turnedAway("127.0.0.2", "user=bob password=secret", "28000",
		`no pg_hba.conf entry for host "127.0.0.2", user "bob", database "postgres", no encryption`)
	c.turnedAway("127.0.0.2", "user=postgres", "28000",
		`no pg_hba.conf entry for host "127.0.0.2", user "postgres", database "postgres", no encryption`)
	c.turnedAway("127.0.0.2", "user=lax", "28000",
		`role "lax" is admitted by the local PostgreSQL by method trust, where scram-sha-256 is required`)
	s.Do("GRANT staff TO bob")
	c.admitted("127.0.0.2", "user=bob password=secret", "SELECT 1")

	tls := "sslmode=require user=byname sslcert=%s sslkey=%s"
	if got := c.admitted("127.0.0.3", fmt.Sprintf(tls, mine, mineKey),
		"SELECT client_addr, tls FROM tutti.sessions WHERE pid = pg_backend_pid()"); got != "127.0.0.3 TLSv1.3" {
		t.Errorf("with a certificate: %s", got)
	}
	c.turnedAway("127.0.0.3", fmt.Sprintf(tls, other, otherKey), "28000",
		`certificate authentication failed for user "byname"`)
	c.turnedAway("127.0.0.3", "user=byname", "28000",
		`no pg_hba.conf entry for host "127.0.0.3", user "byname", database "postgres", no encryption`)

	for _, want := range []map[string]any{
		{"level": "INFO", "msg": "client logged in", "client_addr": "127.0.0.2", "user": "bob", "database": "postgres",
			"method": "scram-sha-256", "rule": rules + ":3"},
		{"level": "INFO", "msg": "client logged in", "client_addr": "127.0.0.3", "user": "byname", "tls": "TLSv1.3",
			"rule": rules + ":5"},
		{"level": "INFO", "msg": "login failed", "client_addr": "127.0.0.2", "user": "ann", "database": "postgres",
			"sqlstate": "28P01"},
		{"level": "INFO", "msg": "client refused", "client_addr": "127.0.0.9", "user": "ann", "sqlstate": "28000",
			"rule": rules + ":1"},
		{"level": "INFO", "msg": "client refused", "client_addr": "127.0.0.2", "user": "bob", "sqlstate": "28000"},
		{"level": "INFO", "msg": "client refused", "client_addr": "127.0.0.3", "user": "byname",
			"error": `certificate authentication failed for user "byname"`},
	} {
		if !c.recorded(want) {
			t.Errorf("the log does not say %v", want)
		}
	}
	c.rulesChange(first, write)
	c.nobodyIsLeft()
	c.Stop(1)
	write("host all all all ldap\n")
	c.ends(1, "hba_file", rules+", line 1: method ldap is not possible here")
}

// whoIsThere: a session's address is in SQL from its first query on, for itself and for who may see it.
func (c *Cluster) whoIsThere() {
	c.tb.Helper()
	ann, err := c.from(1, "127.0.0.2", "user=ann password=secret application_name=books")
	if err != nil {
		c.tb.Fatal(err)
	}
	defer ann.Close(context.Background())
	port := ann.Conn().LocalAddr().(*net.TCPAddr).Port
	s := c.Connect(1)
	if got, want := s.Get("SELECT s.client_addr, s.client_port, s.usename, s.datname, s.tls IS NULL, "+
		"a.application_name FROM tutti.sessions s JOIN pg_stat_activity a USING (pid) WHERE pid = "+
		fmt.Sprint(ann.PID())),
		fmt.Sprintf("127.0.0.2|%d|ann|postgres|t|books - 127.0.0.2:%d", port, port); got != want {
		c.tb.Errorf("ann is shown as %s, want %s", got, want)
	}
	own := c.admitted("127.0.0.4", "user=ann password=secret",
		"SELECT string_agg(host(client_addr), ' ' ORDER BY client_addr), count(*) FILTER (WHERE client_addr IS NULL) "+
			"> 0 FROM tutti.sessions")
	if own != "127.0.0.2 127.0.0.4 t" {
		c.tb.Errorf("to ann are shown %s", own)
	}
	if !c.recorded(map[string]any{"msg": "client logged in", "client_addr": "127.0.0.2", "client_port": port,
		"pid": ann.PID(), "application_name": "books"}) {
		c.tb.Error("the log does not say that ann came")
	}
	s.Do("CREATE TABLE seen(a inet)", "BEGIN ISOLATION LEVEL SERIALIZABLE",
		"INSERT INTO seen SELECT client_addr FROM tutti.sessions", "COMMIT")
	if got := s.Get("SELECT count(*) > 1 FROM seen"); got != "t" {
		c.tb.Errorf("a SERIALIZABLE transaction has stored the addresses: %s", got)
	}
	if err := ann.Close(context.Background()); err != nil {
		c.tb.Error(err)
	}
	c.Eventually(1, "SELECT count(*) FROM tutti.sessions WHERE usename = 'ann'", "0")
	c.await(1, readyTimeout, func(context.Context) error {
		if !c.recorded(map[string]any{"msg": "client left", "client_port": port, "user": "ann"}) {
			return errors.New("the log does not say that ann left")
		}
		return nil
	})
}

// rulesChange: the file counts as it is now, unless it cannot be used.
func (c *Cluster) rulesChange(first string, write func(string)) {
	c.tb.Helper()
	c.turnedAway("127.0.5.5", "user=ann password=secret", "28000",
		`no pg_hba.conf entry for host "127.0.5.5", user "ann", database "postgres", no encryption`)
	write(first + "host all ann all scram-sha-256\n")
	c.admitted("127.0.5.5", "user=ann password=secret", "SELECT 1")
	for _, bad := range []string{"nonsense\n", "host all all all trust", "hostssl all all all scram-sha-256 \\\n"} {
		write(bad)
		c.admitted("127.0.5.5", "user=ann password=secret", "SELECT 1")
		c.turnedAway("127.0.0.9", "user=ann password=secret", "28000",
			`pg_hba.conf rejects connection for host "127.0.0.9", user "ann", database "postgres", no encryption`)
	}
	if !c.recorded(map[string]any{"level": "ERROR",
		"msg": "rules for clients stay as they were: hba_file has changed, and is not usable"}) {
		c.tb.Error("the log does not say that the rules cannot be used")
	}
	write(first)
	c.turnedAway("127.0.5.5", "user=ann password=secret", "28000",
		`no pg_hba.conf entry for host "127.0.5.5", user "ann", database "postgres", no encryption`)
}

// nobodyIsLeft: after a crash of PostgreSQL, of which no session is left, none is shown.
func (c *Cluster) nobodyIsLeft() {
	c.tb.Helper()
	old := c.PostgresPID(1)
	c.KillPostgres(1)
	c.await(1, readyTimeout, func(context.Context) error {
		if pid := c.PostgresPID(1); pid == old || pid == 0 {
			return errors.New("PostgreSQL is not back")
		}
		return nil
	})
	c.WaitReady()
	if got := c.Connect(1).Get("SELECT count(*), count(*) FILTER (WHERE pid = pg_backend_pid()) FROM " +
		"tutti.sessions"); got != "1|1" {
		c.tb.Errorf("after a crash %s sessions are shown, and this one", got)
	}
}
