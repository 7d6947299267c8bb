package hba

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// nameBytesMax is to what PostgreSQL cuts names in a start-up packet.
const nameBytesMax = 63

// Client is who asks to be let in.
type Client struct {
	Address        netip.Addr // without zone; not an IPv4 address in the form of IPv6
	User, Database string     // as the start-up packet has them
	TLS            bool

	// Member reports whether a role is a member of another, directly or not, or is that itself. A role that does not
	// exist is a member of none. It is asked only where a rule depends on it.
	Member func(role, of string) (bool, error)

	// Resolver and Interfaces stand for the machine's in tests.
	Resolver   Resolver
	Interfaces func() []*net.IPNet
}

// Resolver finds names of machines.
type Resolver interface {
	LookupAddr(ctx context.Context, address string) ([]string, error)
	LookupHost(ctx context.Context, host string) ([]string, error)
}

func (c *Client) resolver() Resolver {
	if c.Resolver != nil {
		return c.Resolver
	}
	return net.DefaultResolver
}

func (c *Client) interfaces() (out []*net.IPNet) {
	if c.Interfaces != nil {
		return c.Interfaces()
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // as in PostgreSQL, nobody matches then
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			out = append(out, n)
		}
	}
	return out
}

// Find gives the rule that decides on a client: the first that matches. It is nil if there is none, which refuses the
// client.
// ctx bounds how long names of machines are looked for. An error refuses the client, too.
func (r *Rules) Find(ctx context.Context, c Client) (*Rule, error) {
	c.Address = c.Address.Unmap().WithZone("")
	if c.Database == "" {
		c.Database = c.User
	}
	c.User, c.Database = cut(c.User), cut(c.Database)
	names := &hostNames{client: &c}
	for i := range r.list {
		rule := &r.list[i]
		if !rule.speaks(c.TLS) || !rule.address.has(ctx, &c, names) {
			continue
		}
		if ok, err := rule.ofDatabase(&c); !ok || err != nil {
			if err != nil {
				return nil, fmt.Errorf("%v: %w", rule, err)
			}
			continue
		}
		ok, err := rule.ofUser(&c)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", rule, err)
		}
		if ok {
			return rule, nil
		}
	}
	return nil, nil
}

func cut(name string) string { return name[:min(len(name), nameBytesMax)] }

// speaks reports whether the rule is about connections like this one.
func (r *Rule) speaks(tls bool) bool {
	switch r.Type {
	case "local", "hostgssenc":
		return false
	case "hostssl":
		return tls
	case "hostnossl":
		return !tls
	}
	return true
}

// ofDatabase is check_db of PostgreSQL's hba.c.
func (r *Rule) ofDatabase(c *Client) (bool, error) {
	for _, t := range r.databases {
		switch {
		case t.is("all"):
			return true, nil
		case t.is("sameuser"):
			if c.Database == c.User {
				return true, nil
			}
		case t.is("samerole"), t.is("samegroup"):
			if ok, err := c.Member(c.User, c.Database); ok || err != nil {
				return ok, err
			}
		case t.is("replication"): // of connections for replication, which are not possible here
		case t.text == c.Database:
			return true, nil
		}
	}
	return false, nil
}

// ofUser is check_role of PostgreSQL's hba.c.
func (r *Rule) ofUser(c *Client) (bool, error) {
	for _, t := range r.users {
		switch {
		case !t.quoted && len(t.text) > 0 && t.text[0] == '+':
			if ok, err := c.Member(c.User, t.text[1:]); ok || err != nil {
				return ok, err
			}
		case t.text == c.User, t.is("all"):
			return true, nil
		}
	}
	return false, nil
}
