package hba

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

type addressKind byte

const (
	anyAddress addressKind = iota
	sameHost
	sameNet
	network // an address under a mask
	named   // a name of a machine, or, with a dot in front, the end of one
)

// address is whom a rule is about.
type address struct {
	kind     addressKind
	at, mask []byte // of equal length
	name     string
}

// parseAddress takes the address, and the mask if that is a field of its own.
func parseAddress(f *fielder) (a address, err error) {
	t, err := f.one("IP address specification", "host address")
	if err != nil {
		return a, err
	}
	switch {
	case t.is("all"):
		return address{kind: anyAddress}, nil
	case t.is("samehost"):
		return address{kind: sameHost}, nil
	case t.is("samenet"):
		return address{kind: sameNet}, nil
	}
	text, bits, hasBits := strings.Cut(t.text, "/")
	ip, err := numeric(text)
	if err != nil {
		return a, err
	}
	if ip == nil {
		if hasBits {
			return a, fmt.Errorf("specifying both host name and CIDR mask is invalid: %q", t.text)
		}
		return address{kind: named, name: text}, nil
	}
	a = address{kind: network, at: ip}
	if hasBits {
		n, err := strconv.ParseUint(bits, 10, 8)
		if err != nil || n > uint64(8*len(ip)) {
			return a, fmt.Errorf("invalid CIDR mask in address %q", t.text)
		}
		a.mask = net.CIDRMask(int(n), 8*len(ip))
		return a, nil
	}
	m, err := f.one("netmask specification", "netmask")
	if err != nil {
		return a, err
	}
	switch a.mask, err = numeric(m.text); {
	case err != nil || a.mask == nil:
		return a, fmt.Errorf("invalid IP mask %q", m.text)
	case len(a.mask) != len(a.at):
		return a, errors.New("IP address and mask do not match")
	}
	return a, nil
}

// numeric gives the bytes of an address; nil if the text is a name. PostgreSQL also takes what inet_aton takes,
// "10.1" for
// 10.0.0.1, which is refused here.
func numeric(text string) ([]byte, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.WithZone("").AsSlice(), nil
	}
	last := text[strings.LastIndexByte(text, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || text == "" || strings.Contains(text, ":") {
		return nil, fmt.Errorf("invalid IP address %q", text)
	}
	return nil, nil
}

func masked(ip, at, mask []byte) bool {
	if len(ip) != len(at) || len(mask) != len(at) {
		return false
	}
	for i := range at {
		if (ip[i]^at[i])&mask[i] != 0 {
			return false
		}
	}
	return true
}

// has reports whether a client's address is one of a rule's.
func (a *address) has(ctx context.Context, c *Client, names *hostNames) bool {
	ip := c.Address.AsSlice()
	switch a.kind {
	case anyAddress:
		return true
	case network:
		return masked(ip, a.at, a.mask)
	case named:
		return names.match(ctx, a.name)
	}
	for _, own := range c.interfaces() {
		at := own.IP
		if v4 := at.To4(); v4 != nil {
			at = v4
		}
		mask := own.Mask
		if a.kind == sameHost {
			mask = net.CIDRMask(8*len(at), 8*len(at))
		}
		if masked(ip, at, mask) {
			return true
		}
	}
	return false
}

// hostNames finds the name of a client's machine, once, and whether it is its own: the name must lead back to the
// address.
type hostNames struct {
	client          *Client
	asked, verified bool
	name            string
}

func (h *hostNames) match(ctx context.Context, pattern string) bool {
	if !h.asked {
		h.asked = true
		if all, err := h.client.resolver().LookupAddr(ctx, h.client.Address.String()); err == nil && len(all) > 0 {
			h.name = strings.TrimSuffix(all[0], ".")
		}
	}
	if h.name == "" || !matchName(pattern, h.name) {
		return false
	}
	if h.verified {
		return true
	}
	back, err := h.client.resolver().LookupHost(ctx, h.name)
	if err != nil {
		return false
	}
	for _, text := range back {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Unmap().WithZone("") == h.client.Address {
			h.verified = true
		}
	}
	return h.verified
}

func matchName(pattern, name string) bool {
	if strings.HasPrefix(pattern, ".") && len(name) >= len(pattern) {
		name = name[len(name)-len(pattern):]
	}
	return strings.EqualFold(pattern, name)
}
