package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Config is one node's configuration.
type Config struct {
	Cluster      string `toml:"cluster"`       // name of the cluster; all members agree
	Member       uint32 `toml:"member"`        // this node's number, 1…
	DataDir      string `toml:"data_dir"`      // holds the log, the state and a managed PostgreSQL
	Listen       string `toml:"listen"`        // host:port for PostgreSQL clients
	MemberListen string `toml:"member_listen"` // host:port for the other members
	// Witness: this member votes and keeps the log, and has no PostgreSQL and no clients.
	Witness    bool   `toml:"witness"`
	Secret     string `toml:"secret"`      // shared by all members; proves membership
	SecretFile string `toml:"secret_file"` // file that holds it, instead; see Secrets
	Database   string `toml:"database"`    // the replicated database; default "postgres"
	// most members the cluster can have, among which sequences' values are divided; equal at all of them; default 16
	SequenceStep int    `toml:"sequence_step"`
	LogLevel     string `toml:"log_level"`     // debug, info, warn, error
	DrainTimeout string `toml:"drain_timeout"` // for open transactions when the node is told to stop; default "10s"
	// ExpelAfter is the silence after which a member stops voting until it is back, where as many as MinCopies wants
	// are there; "0s": never; default "10s". It is for the beginning of a cluster: see Expel.
	ExpelAfter string `toml:"expel_after"`
	// MinCopies are how many there are to be of what is acknowledged: as many members vote as make them a majority, or
	// all of fewer; default 2. With 1 the last one goes on. It is for the beginning of a cluster: see Copies.
	MinCopies int    `toml:"min_copies"`
	LogFormat string `toml:"log_format"` // text, json; default text
	HBAFile   string `toml:"hba_file"`   // rules for clients, in the form of pg_hba.conf; empty: none, see README
	// ApplicationNameAddHost adds " - address:port" of the client to the application_name with which a session begins.
	ApplicationNameAddHost bool `toml:"application_name_add_host"`
	// SharesMachine: nodes of other members run on this machine. Each, with its PostgreSQL, keeps to one processor
	// while what it does fits on it. Who catches up rests, so that the others can work.
	SharesMachine bool     `toml:"shares_machine"`
	Members       []Member `toml:"members"`
	Postgres      Postgres `toml:"postgres"`
	ClientTLS     TLS      `toml:"client_tls"`
	Limits        Limits   `toml:"limits"`
	Admin         Admin    `toml:"admin"`

	MemberTLS MemberTLS `toml:"member_tls"`

	roster *roster // made by Validate
}

// Member is one member of the cluster, this one included. The list is that of the beginning: members come and go by the
// order (Roster).
type Member struct {
	Member  uint32 `toml:"member"`
	Name    string `toml:"name"`
	Address string `toml:"address"` // host:port of its member port
	Clients string `toml:"clients"` // host:port of its client port, for status
	Role    Role   `toml:"-"`
	Rank    int    `toml:"-"` // of those that could vote as well the one of the higher rank does
	Site    string `toml:"-"` // where it is; what members of one site send each other is not far
}

// Role is what a member is to the order.
type Role string

// Roles. A voter has a database and votes when it is there, a learner has one and never votes, a witness votes, keeps
// the log and has no database.
const (
	Voter   Role = ""
	Learner Role = "learner"
	Witness Role = "witness"
)

// Postgres describes the managed local server.
type Postgres struct {
	BinDir   string `toml:"bin_dir"`   // empty: the system's ≥ 15, else a pinned download
	NoSystem bool   `toml:"no_system"` // never use the system's binaries
	// donor of the first start: the name of a member, or a connection string; empty: a new database
	CloneFrom  string            `toml:"clone_from"`
	AllowTrust bool              `toml:"allow_trust"` // let in clients whom PostgreSQL asks for no password
	Settings   map[string]string `toml:"settings"`    // added to postgresql.conf
}

// TLS is the server side of client connections.
type TLS struct {
	Cert    string `toml:"cert"`
	Key     string `toml:"key"`
	CA      string `toml:"ca"`      // if set, clients must present a certificate of it
	Require bool   `toml:"require"` // refuse sessions in the clear
}

// Limits bounds what a node holds and does at once. Zero means the default; where a limit can
// be switched off, -1 does.
type Limits struct {
	Sessions        int   `toml:"sessions"`          // client sessions at once; default 150
	Databases       int   `toml:"databases"`         // in the cluster, the configured one included; default 16
	WritesetBytes   int   `toml:"writeset_bytes"`    // of one transaction; default 256 MiB
	GroupItems      int   `toml:"group_items"`       // transactions applied together; default 512
	GroupBytes      int   `toml:"group_bytes"`       // default 4 MiB
	BatchItems      int   `toml:"batch_items"`       // transactions in one log entry; default 512
	BatchBytes      int   `toml:"batch_bytes"`       // default 512 KiB
	CertifyKeys     int   `toml:"certify_keys"`      // keys remembered; equal on all members, for ever; default 1048576
	LogSegmentBytes int64 `toml:"log_segment_bytes"` // default 64 MiB
	// bytes of the log kept for members that were away; at least four segments; default 1 GiB
	LogRetention    int64 `toml:"log_retention"`
	PendingItems    int   `toml:"pending_items"`     // transactions waiting to be ordered; default 65536
	ApplyQueueBytes int   `toml:"apply_queue_bytes"` // ordered and not yet being applied; default 64 MiB
	MemberQueue     int   `toml:"member_queue"`      // bytes queued for one member; default 64 MiB

	// of more than 16 MiB that a member keeps at once for its sessions; default 4
	LargeTransactions int `toml:"large_transactions"`

	// of postgres.log, beyond which it is moved aside; default 64 MiB, -1: never
	PostgresLogBytes int `toml:"postgres_log_bytes"`
	PostgresLogFiles int `toml:"postgres_log_files"` // that are kept of it, the present one included; default 8

	Channels int `toml:"channels"` // that the sessions of one member listen to; default 1000
	// bytes of notifications waiting to be ordered, or to be passed on; default 64 MiB
	NotifyQueue int `toml:"notify_queue"`

	// LockLeaseMs is after how long without a word of it the others release a node's advisory locks;
	// its own sessions have lost them after half of that. Default 10000.
	LockLeaseMs     int `toml:"lock_lease_ms"`
	CommitTimeoutMs int `toml:"commit_timeout_ms"` // that a COMMIT waits for a majority; default 30000

	// transactions a member may have yet to apply before others are slowed; default 5000
	FlowLag        int `toml:"flow_lag"`
	FlowLagBytes   int `toml:"flow_lag_bytes"`    // the same in bytes; default 64 MiB
	FlowDelayMaxMs int `toml:"flow_delay_max_ms"` // by which one transaction is slowed at most; default 50
	// of throughput given up at most for members a majority can do without; default 20
	FlowMinorityPercent int `toml:"flow_minority_percent"`

	// of the time that comparing the members' copies may take, while it goes on; default 1
	AuditPercent   int `toml:"audit_percent"`
	AuditIntervalS int `toml:"audit_interval_s"` // from one such comparison to the next; default 3600

	// 1: an UPDATE that need not see its row is ordered first and carried out by all members alike; default 1, -1: it
	// is not
	BlindWrites int `toml:"blind_writes"`
	// rows of which a member knows enough that transactions may add to them at COMMIT, without conflicts; default 4096
	Additions int `toml:"additions"`
	// of a member's transactions that may lose before fewer of them run at once; default 40
	TurnsPercent int `toml:"turns_percent"`
}

// Load reads and validates a file.
func Load(path string) (*Config, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	c := &Config{}
	d := toml.NewDecoder(bytes.NewReader(raw)).DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		var strict *toml.StrictMissingError
		if errors.As(err, &strict) {
			return nil, fmt.Errorf("config %s: unknown keys:\n%s", path, strict.String())
		}
		var syntax *toml.DecodeError
		if errors.As(err, &syntax) {
			row, col := syntax.Position()
			return nil, fmt.Errorf("config %s: line %d column %d: %w", path, row, col, err)
		}
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	if c.SecretFile != "" && c.Secret != "" {
		return nil, fmt.Errorf("config %s: secret and secret_file are both given: leave one out", path)
	}
	secrets, err := c.Secrets()
	if err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	c.Secret = secrets[0]
	for _, file := range []*string{&c.DataDir, &c.HBAFile} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(filepath.Dir(path), *file)
		}
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	return c, nil
}

// Validate fills defaults and refuses contradictions.
func (c *Config) Validate() error {
	c.roster = &roster{}
	c.defaults()
	switch {
	case c.Cluster == "":
		return errors.New("cluster is missing: give the cluster a name")
	case c.Member == 0:
		return errors.New("member is missing: number the members from 1")
	case c.DataDir == "":
		return errors.New("data_dir is missing")
	case len(c.Secret) < secretBytesMin:
		return errors.New("secret is missing or shorter than 16 characters")
	case int(c.Member) > c.SequenceStep:
		return fmt.Errorf("member %d is above sequence_step %d, so its sequences would collide with another member's",
			c.Member, c.SequenceStep)
	}
	for what, a := range map[string]string{"listen": c.Listen, "member_listen": c.MemberListen} { // order-free
		if what == "listen" && c.Witness && a == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("%s %q is not host:port", what, a)
		}
	}
	if d, err := time.ParseDuration(c.DrainTimeout); err != nil || d < 0 {
		return fmt.Errorf("drain_timeout is %q: use a time like \"10s\", or \"0s\" to wait for nobody", c.DrainTimeout)
	}
	if err := new(slog.Level).UnmarshalText([]byte(c.LogLevel)); err != nil {
		return fmt.Errorf("log_level is %q: use debug, info, warn or error", c.LogLevel)
	}
	if err := c.Limits.validate(); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	if err := errors.Join(Votes(c.MinCopies, c.ExpelAfter), c.MemberTLS.validate(), c.clients(),
		c.validateAdmin()); err != nil {
		return err
	}
	return c.validateMembers()
}

// logSegmentsMin is how many segments log_retention must have room for.
const logSegmentsMin = 4

// validate refuses what cannot work. The defaults are filled in already.
func (l *Limits) validate() error {
	for name, v := range map[string]int{"sessions": l.Sessions, "databases": l.Databases,
		"writeset_bytes": l.WritesetBytes, "large_transactions": l.LargeTransactions, "group_items": l.GroupItems,
		"group_bytes": l.GroupBytes,
		"batch_items": l.BatchItems, "batch_bytes": l.BatchBytes, "certify_keys": l.CertifyKeys,
		"log_segment_bytes": int(l.LogSegmentBytes),
		"pending_items":     l.PendingItems, "apply_queue_bytes": l.ApplyQueueBytes, "member_queue": l.MemberQueue,
		"channels": l.Channels, "audit_interval_s": l.AuditIntervalS, "notify_queue": l.NotifyQueue,
		"lock_lease_ms": l.LockLeaseMs} {
		if v < 0 {
			return fmt.Errorf("%s is %d: it cannot be switched off", name, v)
		}
	}
	for name, v := range map[string]int{"commit_timeout_ms": l.CommitTimeoutMs, "flow_lag": l.FlowLag,
		"flow_lag_bytes": l.FlowLagBytes, "flow_delay_max_ms": l.FlowDelayMaxMs,
		"postgres_log_bytes":    l.PostgresLogBytes,
		"flow_minority_percent": l.FlowMinorityPercent, "turns_percent": l.TurnsPercent, "additions": l.Additions,
		"blind_writes": l.BlindWrites, "audit_percent": l.AuditPercent} {
		if v < -1 {
			return fmt.Errorf("%s is %d: use -1 to switch it off", name, v)
		}
	}
	switch {
	case l.LogRetention < -1:
		return fmt.Errorf("log_retention is %d: use -1 to keep the whole log", l.LogRetention)
	case l.LogRetention >= 0 && l.LogRetention/logSegmentsMin < l.LogSegmentBytes:
		return fmt.Errorf("log_retention is %d, less than %d times log_segment_bytes (%d): the log is freed by whole "+
			"segments", l.LogRetention, logSegmentsMin, l.LogSegmentBytes)
	case l.FlowLag > l.CertifyKeys/10:
		return fmt.Errorf("certify_keys is %d, less than ten times flow_lag (%d): a member that lags by that much "+
			"could not get a transaction certified any more", l.CertifyKeys, l.FlowLag)
	case l.FlowDelayMaxMs > 10_000:
		return fmt.Errorf("flow_delay_max_ms is %d: clients take a COMMIT that hangs for more than ten seconds for a "+
			"failure", l.FlowDelayMaxMs)
	case l.AuditPercent > 100:
		return fmt.Errorf("audit_percent is %d: use 100 at most, or -1 to switch it off", l.AuditPercent)
	case l.BlindWrites > 1:
		return fmt.Errorf("blind_writes is %d: use 1, or -1 to switch it off", l.BlindWrites)
	case l.TurnsPercent > 100:
		return fmt.Errorf("turns_percent is %d: use -1 to switch it off", l.TurnsPercent)
	case l.FlowMinorityPercent > 90:
		return fmt.Errorf("flow_minority_percent is %d: use 90 at most, or members that a majority can do without "+
			"would stop it", l.FlowMinorityPercent)
	}
	return nil
}

func (c *Config) validateMembers() error {
	seen := map[uint32]bool{}
	names := map[string]bool{}
	for _, m := range c.Members {
		if m.Member == 0 || m.Name == "" {
			return errors.New("members: every entry needs a member number from 1 and a name")
		}
		if seen[m.Member] || names[m.Name] {
			return fmt.Errorf("members: number %d or name %q appears twice", m.Member, m.Name)
		}
		if int(m.Member) > c.SequenceStep {
			return fmt.Errorf("members: number %d is above sequence_step %d", m.Member, c.SequenceStep)
		}
		if _, _, err := net.SplitHostPort(m.Address); err != nil {
			return fmt.Errorf("members: address %q of %s is not host:port", m.Address, m.Name)
		}
		seen[m.Member], names[m.Name] = true, true
	}
	if !seen[c.Member] {
		return fmt.Errorf("members: no entry for this member (%d)", c.Member)
	}
	if c.Postgres.CloneFrom == c.Self().Name {
		return fmt.Errorf("clone_from is %q, which is this member: name another one", c.Postgres.CloneFrom)
	}
	return nil
}

func (c *Config) defaults() {
	if c.Database == "" {
		c.Database = "postgres"
	}
	if c.SequenceStep == 0 {
		c.SequenceStep = 16
	}
	if c.roster.said = (said{c.MinCopies != 0, c.ExpelAfter != ""}); c.MinCopies == 0 {
		c.MinCopies = 2
	}
	if c.LogLevel == "" {
		c.LogLevel = "info"
	}
	if c.LogFormat == "" {
		c.LogFormat = "text"
	}
	for _, d := range []*string{&c.DrainTimeout, &c.ExpelAfter} {
		if *d == "" {
			*d = "10s"
		}
	}
	l := &c.Limits
	for _, d := range []struct {
		v *int
		d int
	}{{&l.Sessions, 150}, {&l.Databases, 16}, {&l.WritesetBytes, 1 << 30}, {&l.LargeTransactions, 4},
		{&l.GroupItems, 512}, {&l.GroupBytes, 4 << 20},
		{&l.BatchItems, 512}, {&l.BatchBytes, 512 << 10}, {&l.CertifyKeys, 1 << 20}, {&l.PendingItems, 65536},
		{&l.ApplyQueueBytes, 64 << 20}, {&l.MemberQueue, 64 << 20}, {&l.Channels, 1000}, {&l.NotifyQueue, 64 << 20},
		{&l.PostgresLogBytes, 64 << 20}, {&l.PostgresLogFiles, 8},
		{&l.CommitTimeoutMs, 30_000}, {&l.LockLeaseMs, 10_000}, {&l.FlowLag, 5000}, {&l.FlowLagBytes, 64 << 20},
		{&l.FlowDelayMaxMs, 50}, {&l.FlowMinorityPercent, 20}, {&l.TurnsPercent, 40}, {&l.Additions, 4096},
		{&l.BlindWrites, 1}, {&l.AuditPercent, 1}, {&l.AuditIntervalS, 3600}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if l.LogSegmentBytes == 0 {
		l.LogSegmentBytes = 64 << 20
	}
	if l.LogRetention == 0 {
		l.LogRetention = 1 << 30
	}
}

// Drain is drain_timeout.
func (c *Config) Drain() time.Duration {
	d, err := time.ParseDuration(c.DrainTimeout)
	if err != nil {
		return 0 // it is not validated
	}
	return d
}

// Level is log_level.
func (c *Config) Level() (l slog.Level) {
	_ = l.UnmarshalText([]byte(c.LogLevel)) // it is validated
	return l
}

// Self is this member's own entry.
func (c *Config) Self() Member {
	m, _ := c.Find(c.Member)
	return m
}

// Name is a member's name for messages.
func (c *Config) Name(member uint32) string {
	if m, is := c.Find(member); is {
		return m.Name
	}
	return fmt.Sprintf("member %d", member)
}

// ServerTLS loads the certificate for clients; nil when none is configured.
func (t TLS) ServerTLS() (*tls.Config, error) {
	if t.Cert == "" && t.Key == "" {
		if t.Require || t.CA != "" {
			return nil, errors.New("client_tls: cert and key are missing")
		}
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("client_tls: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("client_tls: %w", err)
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("client_tls: %s holds no certificate", t.CA)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}
