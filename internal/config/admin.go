package config

import (
	"fmt"
	"net"
)

// Admin is the port for monitoring systems and load balancers, which speak HTTP in the clear and log in nowhere.
type Admin struct {
	Listen string `toml:"listen"` // host:port; empty: there is no such port
}

// validateAdmin refuses what is no address, or that of another port.
func (c *Config) validateAdmin() error {
	a := c.Admin.Listen
	if a == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(a); err != nil {
		return fmt.Errorf("admin: listen %q is not host:port", a)
	}
	for what, other := range map[string]string{"listen": c.Listen, "member_listen": c.MemberListen} { // order-free
		if a == other {
			return fmt.Errorf("admin: listen is the same as %s: give it a port of its own", what)
		}
	}
	return nil
}
