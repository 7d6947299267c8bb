package join

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pelletier/go-toml/v2"

	"github.com/tuttidb/tutti/internal/authority"
	"github.com/tuttidb/tutti/internal/config"
)

// Options are of a node that begins a cluster, or joins one.
type Options struct {
	Dir          string // of the node: it is made
	Name         string
	Listen       string // host:port for clients
	MemberListen string // host:port for the other members, at which they reach it
	BinDir       string // of PostgreSQL; empty: this machine's, or a download
	AllowTrust   bool   // let in clients whom PostgreSQL asks for no password

	Cluster  string // with Init: its name
	Database string // with Init: the replicated database

	Keys string // with Join: a copy of the directory cluster of the first node
	From string // with Join: the address for clients of a node that runs
	User string // with Join: a superuser

	Witness bool // with Join: the member has no database
}

// Names of what is in a node's directory, and in that of what all nodes have in common.
const (
	dataName   = "data"
	configName = "node.toml"
	keysName   = "cluster"
	commonName = "cluster.toml"
	secretName = "secret"
)

// certificateYears is for how long a node's certificate is valid.
const certificateYears = 10

// common are the settings that must be equal at all nodes.
type common struct {
	Cluster  string `toml:"cluster"`
	Database string `toml:"database"`
}

// Init makes the directory of a node that is a cluster of one, and says how to start it.
func Init(o Options, out io.Writer) error {
	if err := o.fresh(); err != nil {
		return err
	}
	keys := filepath.Join(o.Dir, keysName)
	if err := errors.Join(os.MkdirAll(o.Dir, 0o755), os.MkdirAll(keys, 0o700)); err != nil { // PostgreSQL runs in Dir
		return fmt.Errorf("init: %w", err)
	}
	ca, err := authority.New("tutti " + o.Cluster)
	if err == nil {
		err = ca.Save(keys)
	}
	if err != nil {
		return err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	c := common{Cluster: o.Cluster, Database: o.Database}
	text, err := toml.Marshal(c)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{commonName: text, secretName: []byte(hex.EncodeToString(secret) + "\n")} {
		if err := renameio.WriteFile(filepath.Join(keys, name), data, 0o600); err != nil {
			return fmt.Errorf("init: %w", err)
		}
	}
	o.Keys = keys
	self := o.member(1)
	if err := o.write(c, self, []config.Member{self}); err != nil {
		return err
	}
	if err := config.MarkAlone(filepath.Join(o.Dir, dataName)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is a cluster of one. Start it:\n\n    tutti node --config %s\n\nOther nodes join "+
		"with a copy of %s (it has the cluster's secret and keys):\n\n    tutti join --keys COPY --from %s …\n", o.Name,
		filepath.Join(o.Dir, configName), keys, o.Listen)
	return err
}

// Join adds a member to a cluster, makes its node's directory, and says how to start it.
func Join(ctx context.Context, o Options, out io.Writer) error {
	if err := o.fresh(); err != nil {
		return err
	}
	var c common
	text, err := os.ReadFile(filepath.Join(o.Keys, commonName))
	if err == nil {
		err = toml.Unmarshal(text, &c)
	}
	if err != nil {
		return fmt.Errorf("join: --keys must be a copy of the directory %s of the first node: %w", keysName, err)
	}
	list, err := o.enlist(ctx, c.Database)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(m config.Member) bool { return m.Name == o.Name })
	if at < 0 {
		return fmt.Errorf("join: %s was added, and the cluster does not list it: is it being removed?", o.Name)
	}
	self := list[at]
	list = slices.DeleteFunc(list, func(m config.Member) bool {
		return m.Role == config.Witness && m.Member != self.Member
	})
	if err := o.write(c, self, list); err != nil {
		return err
	}
	what := "it copies the databases"
	if o.Witness {
		what = "it gets the log"
	}
	_, err = fmt.Fprintf(out, "%s is member %d of cluster %s. Start it, and %s:\n\n    tutti node --config %s\n",
		o.Name, self.Member, c.Cluster, what, filepath.Join(o.Dir, configName))
	return err
}

// fresh refuses a directory in which there is a node.
func (o *Options) fresh() error {
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(o.Dir, configName)); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is a node in %s already: choose another directory", o.Dir)
	}
	return nil
}

// member is the node's entry in the list of members.
func (o *Options) member(number uint32) config.Member {
	return config.Member{Member: number, Name: o.Name, Address: o.MemberListen, Clients: o.Listen}
}

// enlist adds the member, unless it is one, and gives the list.
func (o *Options) enlist(ctx context.Context, database string) ([]config.Member, error) {
	u := url.URL{Scheme: "postgres", User: url.User(o.User), Host: o.From, Path: "/" + database,
		RawQuery: "connect_timeout=10&sslmode=prefer&application_name=tutti"}
	conn, err := pgconn.Connect(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("join: ask %s: %w", o.From, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	list, err := members(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		if m.Name == o.Name && m.Address == o.MemberListen && m.Clients == o.Listen {
			return list, nil
		}
	}
	call := "CALL tutti.add_member(" + quote(o.Name) + ", " + quote(o.MemberListen) + ", " + quote(o.Listen) + ")"
	if o.Witness {
		call = "CALL tutti.add_witness(" + quote(o.Name) + ", " + quote(o.MemberListen) + ")"
	}
	if _, err := conn.Exec(ctx, call).ReadAll(); err != nil {
		return nil, fmt.Errorf("join: add %s: %w", o.Name, err)
	}
	return members(ctx, conn)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// members asks who they are.
func members(ctx context.Context, conn *pgconn.PgConn) (list []config.Member, err error) {
	results, err := conn.Exec(ctx, "SHOW tutti.members").ReadAll()
	if err != nil {
		return nil, fmt.Errorf("join: ask who the members are: %w", err)
	}
	for _, row := range results[0].Rows {
		n, err := strconv.ParseUint(string(row[0]), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("join: the node tells of member %q", row[0])
		}
		m := config.Member{Member: uint32(n), Name: string(row[1]), Address: string(row[2]), Clients: string(row[3])}
		if len(row) > 4 && config.Role(row[4]) == config.Witness {
			m.Role = config.Witness
		}
		list = append(list, m)
	}
	return list, nil
}

// node is what a configuration file gets.
type node struct {
	Cluster      string           `toml:"cluster"`
	Database     string           `toml:"database"`
	Member       uint32           `toml:"member"`
	DataDir      string           `toml:"data_dir"`
	Listen       string           `toml:"listen,omitempty"`
	Witness      bool             `toml:"witness,omitempty"`
	MemberListen string           `toml:"member_listen"`
	SecretFile   string           `toml:"secret_file"`
	MemberTLS    config.MemberTLS `toml:"member_tls"`
	Postgres     struct {
		BinDir     string `toml:"bin_dir,omitempty"`
		AllowTrust bool   `toml:"allow_trust"`
	} `toml:"postgres"`
	Members []config.Member `toml:"members"`
}

// write makes the node's certificate and, last, its configuration.
func (o *Options) write(c common, self config.Member, list []config.Member) error {
	ca, err := authority.Load(o.Keys)
	if err != nil {
		return err
	}
	secret, err := os.ReadFile(filepath.Join(o.Keys, secretName))
	if err != nil {
		return fmt.Errorf("the cluster's secret: %w", err)
	}
	files, err := ca.Write(filepath.Join(o.Dir, "tls"), self.Name, authority.Years(certificateYears))
	if err != nil {
		return err
	}
	n := node{Cluster: c.Cluster, Database: c.Database, Member: self.Member, DataDir: dataName, Listen: o.Listen,
		MemberListen: o.MemberListen, Witness: o.Witness, SecretFile: filepath.Join(o.Dir, secretName),
		MemberTLS: config.MemberTLS(files), Members: list}
	n.Postgres.BinDir, n.Postgres.AllowTrust = o.BinDir, o.AllowTrust
	text, err := toml.Marshal(n)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(n.SecretFile, secret, 0o600); err != nil {
		return err
	}
	path := filepath.Join(o.Dir, configName)
	if err := renameio.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	if _, err := config.Load(path); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
