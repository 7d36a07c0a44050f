package webhook

// Where a webhook may not send: a tenant must not reach the machines beside this
// one through it. What counts is the address that is dialled, after its name was
// resolved, so that a name that changes its mind gains nothing.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/sluice-rag/sluice/schema"
)

// errRefused is wrapped when an address may not be sent to.
var errRefused = errors.New("the address is not public")

// platforms are addresses that look public and are a cloud's own, reached from
// inside it alone: Azure's WireServer, Google's private and restricted APIs, IBM's
// services.
var platforms = prefixes("168.63.129.16/32", "199.36.153.4/30", "199.36.153.8/30", "161.26.0.0/16", "166.8.0.0/14")

// notPublic are ranges that the standard library does not know as private: IANA's
// special-purpose registries, and those that carry an IPv4 address inside.
var notPublic = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "240.0.0.0/4", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// ParsePrefixes reads address ranges, as 10.1.0.0/16.
func ParsePrefixes(field string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, schema.Invalid(field, "%q is not a range of addresses, as 10.1.0.0/16", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// public reports whether an address may be sent to.
func public(a netip.Addr, allowed []netip.Prefix) bool {
	a = a.Unmap().WithZone("")
	for _, p := range allowed {
		if p.Contains(a) {
			return true
		}
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	inside := func(p netip.Prefix) bool { return p.Contains(a) }
	return !slices.ContainsFunc(notPublic, inside) && !slices.ContainsFunc(platforms, inside)
}

// dialer connects to public and allowed addresses alone.
func dialer(allowed []netip.Prefix) *net.Dialer {
	return &net.Dialer{Timeout: connectTime, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %q", errRefused, address)
		}
		if !public(ap.Addr(), allowed) {
			return fmt.Errorf("%w (SLUICE_WEBHOOK_ALLOW_PRIVATE may allow it): %s", errRefused, ap.Addr())
		}
		return nil
	}}
}
