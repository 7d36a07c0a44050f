package webhook

// This file restricts where webhooks send: a tenant must not reach internal machines through them.
// The check is on the address that is dialled, after its name was resolved, so that a name that
// resolves differently later is no way around it.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// errRefused is wrapped in errors about addresses that must not be sent to.
var errRefused = errors.New("the address is not public")

// platforms are addresses that look public but belong to a cloud's own services, reachable only
// from inside it: Azure's WireServer, Google's private and restricted APIs, and IBM's services. The
// library has IANA's registries of special addresses.
var platforms = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("199.36.153.4/30"), netip.MustParsePrefix("199.36.153.8/30"),
	netip.MustParsePrefix("161.26.0.0/16"), netip.MustParsePrefix("166.8.0.0/14"),
}

// guardian returns a check that passes public and allowed addresses.
func guardian(allowed []netip.Prefix) *ssrf.Guardian {
	return ssrf.New(ssrf.WithAllowedV4Prefixes(allowed...), ssrf.WithAllowedV6Prefixes(allowed...), ssrf.WithDeniedV4Prefixes(platforms...))
}

// public reports whether an address may be sent to.
func public(a netip.Addr, by *ssrf.Guardian) bool { return by.SafeAddr(a.Unmap().WithZone("")) == nil }

// dialer returns a dialer that connects to public and allowed addresses only.
func dialer(allowed []netip.Prefix) *net.Dialer {
	by := guardian(allowed)
	return &net.Dialer{Timeout: connectTime, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %q", errRefused, address)
		}
		if !public(ap.Addr(), by) {
			return fmt.Errorf("%w (SLUICE_WEBHOOK_ALLOW_PRIVATE may allow it): %s", errRefused, ap.Addr())
		}
		return nil
	}}
}
