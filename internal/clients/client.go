package clients

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/tuttidb/tutti/internal/wire"
)

// Client is somebody who has connected to the client port, as it is told to others: in the log, to the rules, in SQL.
type Client struct {
	Address                     netip.AddrPort
	TLS                         string // the version spoken; empty: in the clear
	user, database, application string // as the client says; empty before its start-up packet
	options                     string
	rule                        string // of hba_file that lets it in, or refuses it
}

func New(conn net.Conn) *Client {
	c := &Client{}
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		p := a.AddrPort()
		c.Address = netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
	}
	return c
}

// Says takes what the start-up packet says.
func (c *Client) Says(params map[string]string) {
	c.user, c.database, c.application, c.options = params["user"], params["database"], params["application_name"],
		params["options"]
	if c.database == "" {
		c.database = c.user
	}
}

// TLSVersion names a version of TLS as pg_stat_ssl does.
func TLSVersion(version uint16) string {
	return strings.ReplaceAll(tls.VersionName(version), "TLS ", "TLSv")
}

// attributes are for the log.
func (c *Client) attributes() []any {
	out := []any{slog.String("client_addr", c.Address.Addr().String()), slog.Int("client_port", int(c.Address.Port()))}
	for _, a := range [][2]string{{"user", c.user}, {"database", c.database}, {"application_name", c.application},
		{"tls", c.TLS}, {"rule", c.rule}} {
		if a[1] != "" {
			out = append(out, slog.String(a[0], shown(a[1])))
		}
	}
	return out
}

const shownBytesMax = 200

// shown is text that came from outside, for the log: of bounded length and valid. The handlers quote what is not
// printable.
func shown(text string) string {
	if len(text) > shownBytesMax {
		text = text[:shownBytesMax] + "…"
	}
	return strings.ToValidUTF8(text, string(utf8.RuneError))
}

const (
	applicationNameMax  = 63 // bytes; PostgreSQL cuts off what is more
	applicationNameNone = "app"
)

// applicationName is application_name with the client's address, in the form that pgbouncer has given it. If there is
// not room for both, the name is cut.
func (c *Client) applicationName() string {
	name, suffix := c.application, " - "+c.Address.String()
	if name == "" {
		name = applicationNameNone
	}
	for len(name) > applicationNameMax-len(suffix) {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name + suffix
}

// Parameters are those with which the client's session begins at the local server. One whose options may have a name
// in them keeps it.
func (c *Client) Parameters(ordered []wire.Param, add bool) []wire.Param {
	add = add && (c.application != "" || !strings.Contains(strings.ToLower(c.options), "application"))
	out := make([]wire.Param, 0, len(ordered)+2)
	for _, p := range ordered {
		if !add || p.Name != "application_name" {
			out = append(out, p)
		}
	}
	if add {
		out = append(out, wire.Param{Name: "application_name", Value: c.applicationName()})
	}
	return out
}
