package clients

import (
	"context"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/hba"
	"github.com/tuttidb/tutti/internal/wire"
)

// Rules are those of hba_file. The file is read anew when it has changed, as the certificate for clients is. If
// it cannot be read then, or not be honoured, the rules stay as they were.
type Rules struct {
	o       RuleOptions
	inForce atomic.Pointer[hba.Rules] // nil: none are configured

	mu   sync.Mutex
	last *hba.Rules // what was read last, in force or not

	roles roleAsker
}

// RuleOptions are what rules for clients need of their node.
type RuleOptions struct {
	Config     *config.Config
	Log        *slog.Logger
	AllowTrust func() bool            // as it is configured now
	ConnString func() (string, error) // of the local PostgreSQL, of which roles are asked
}

func NewRules(o RuleOptions) *Rules {
	return &Rules{o: o, roles: roleAsker{turn: make(chan struct{}, 1)}}
}

// Load reads hba_file; an error leaves the rules as they were.
func (x *Rules) Load() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	rules, warnings, err := x.o.Config.ClientRules()
	if rules != nil || err == nil {
		x.last = rules
	}
	if err != nil {
		return err
	}
	for _, w := range warnings {
		x.o.Log.Warn("a rule for clients is of no use", "rule", w)
	}
	if x.inForce.Swap(rules) != nil || rules != nil {
		x.o.Log.Info("rules for clients are in force", "hba_file", x.o.Config.HBAFile)
	}
	return nil
}

// follow reads hba_file anew if it has changed.
func (x *Rules) follow() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last == nil || !x.last.Changed() {
		return
	}
	rules, warnings, err := x.o.Config.ClientRules()
	if rules != nil {
		x.last = rules
	}
	if err == nil && rules != nil && rules.Half() {
		err = errors.New("it ends within a line, and may not be written yet to its end")
	}
	if err != nil {
		x.o.Log.Error("rules for clients stay as they were: hba_file has changed, and is not usable", "hba_file",
			x.o.Config.HBAFile, "error", err)
		return
	}
	x.inForce.Store(rules)
	x.o.Log.Info("rules for clients have changed", "hba_file", x.o.Config.HBAFile, "warnings",
		strings.Join(warnings, "; "))
}

// Admission says what the rules demand of a client, or why it is refused, in PostgreSQL's words.
func (x *Rules) Admission(ctx context.Context, c *Client, s *wire.Startup) (wire.LoginOptions, *wire.SQLError) {
	x.follow()
	rules := x.inForce.Load()
	if rules == nil {
		return wire.LoginOptions{AllowTrust: x.o.AllowTrust()}, nil
	}
	ctx, cancel := context.WithDeadline(ctx, s.Deadline)
	defer cancel()
	rule, err := rules.Find(ctx, hba.Client{Address: c.Address.Addr(), User: s.Params["user"],
		Database: s.Params["database"], TLS: s.TLS != nil,
		Member: func(role, of string) (bool, error) { return x.isMember(ctx, role, of) }})
	encryption := "no encryption"
	if s.TLS != nil {
		encryption = "SSL encryption"
	}
	refused := func(format string) *wire.SQLError {
		return wire.Fatalf(wire.CodeInvalidAuthorization, format, c.Address.Addr(), cutName(c.user),
			cutName(c.database),
			encryption)
	}
	if rule != nil {
		c.rule = rule.String()
	}
	switch {
	case err != nil:
		x.o.Log.Debug("a rule for clients could not be looked at", "error", err)
		return wire.LoginOptions{}, wire.Fatalf(wire.CodeCannotConnectNow,
			"the rules for clients depend on roles, about which this member's PostgreSQL cannot be asked now").
			WithHint("Try again, or connect to another member.")
	case rule == nil:
		return wire.LoginOptions{}, refused("no pg_hba.conf entry for host \"%s\", user \"%s\", database \"%s\", %s")
	case rule.Method == hba.Reject:
		return wire.LoginOptions{},
			refused("pg_hba.conf rejects connection for host \"%s\", user \"%s\", database \"%s\", %s")
	case rule.Certificate != "":
		if e := presented(s, rule.Certificate == "verify-full"); e != nil {
			return wire.LoginOptions{}, e
		}
	}
	switch rule.Method {
	case hba.SCRAM:
		return wire.LoginOptions{Require: wire.ProofSCRAM}, nil
	case hba.MD5:
		return wire.LoginOptions{Require: wire.ProofMD5}, nil
	case hba.Trust: // allow_trust may have been taken away since the rules were read
		return wire.LoginOptions{AllowTrust: x.o.AllowTrust()}, nil
	case hba.Cert:
		return wire.LoginOptions{AllowTrust: true}, nil
	}
	return wire.LoginOptions{}, wire.Fatalf(wire.CodeFeatureNotSupported, "authentication method %s is not possible",
		rule.Method) // Check refuses it
}

// nameBytesMax is to what PostgreSQL cuts names in a start-up packet.
const nameBytesMax = 63

func cutName(s string) string { return s[:min(len(s), nameBytesMax)] }

var commonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// presented checks the certificate that a client has presented: that it was verified and, if it shall be the user's,
// its common name.
func presented(s *wire.Startup, user bool) *wire.SQLError {
	if s.TLS == nil || len(s.TLS.VerifiedChains) == 0 || len(s.TLS.PeerCertificates) == 0 {
		return wire.Fatalf(wire.CodeInvalidAuthorization, "connection requires a valid client certificate")
	}
	name := cutName(s.Params["user"])
	if user && (name == "" || nameOf(s.TLS.PeerCertificates[0]) != name) {
		return wire.Fatalf(wire.CodeInvalidAuthorization, "certificate authentication failed for user \"%s\"", name)
	}
	return nil
}

// nameOf is a certificate's common name, the first if there are several, as X509_NAME_get_text_by_NID gives it to
// PostgreSQL.
func nameOf(c *x509.Certificate) string {
	for _, n := range c.Subject.Names {
		if n.Type.Equal(commonName) {
			text, ok := n.Value.(string)
			if !ok || strings.ContainsRune(text, 0) {
				return ""
			}
			return text
		}
	}
	return ""
}

const memberTimeout = 2 * time.Second

// isMember asks the local server whether a role is a member of another.
func (x *Rules) isMember(ctx context.Context, role, of string) (bool, error) {
	if !utf8.ValidString(role) || !utf8.ValidString(of) {
		return false, errors.New("a name is not valid UTF-8")
	}
	connString, err := x.o.ConnString()
	if err != nil {
		return false, err
	}
	return x.roles.ask(ctx, connString, role, of)
}

// roleAsker asks about roles, for one client after the other: strangers must not make connections to the local server.
type roleAsker struct {
	turn chan struct{} // has an element while somebody asks
	conn *pgconn.PgConn
}

// memberQuery is is_member_of_role_nosuper of PostgreSQL's acl.c: being a superuser makes nobody a member.
const memberQuery = `WITH RECURSIVE m(oid) AS (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $1
UNION SELECT a.roleid FROM m JOIN pg_catalog.pg_auth_members a ON a.member = m.oid)
SELECT 1 FROM m JOIN pg_catalog.pg_roles r ON r.oid = m.oid WHERE r.rolname = $2`

func (a *roleAsker) ask(ctx context.Context, connString, role, of string) (member bool, err error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), memberTimeout)
	defer cancel()
	for range 2 { // the server may have been restarted since the last time
		if a.conn == nil || a.conn.IsClosed() {
			if a.conn, err = link.Connect(ctx, connString, "tutti rules", nil); err != nil {
				return false, err
			}
		}
		r := a.conn.ExecParams(ctx, memberQuery, [][]byte{[]byte(role), []byte(of)}, nil, nil, nil).Read()
		if err = r.Err; err == nil {
			return len(r.Rows) > 0, nil
		}
		_ = a.conn.Close(ctx) // it is of no use
	}
	return false, fmt.Errorf("clients: is %q a member of %q: %w", role, of, err)
}
