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
	"syscall"

	"code.dny.dev/ssrf"
)

// errRefused is wrapped when an address may not be sent to.
var errRefused = errors.New("the address is not public")

// platforms are addresses that look public and are a cloud's own, reached from
// inside it alone: Azure's WireServer, Google's private and restricted APIs, IBM's
// services. IANA's registries of special addresses are in the library.
var platforms = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("199.36.153.4/30"), netip.MustParsePrefix("199.36.153.8/30"),
	netip.MustParsePrefix("161.26.0.0/16"), netip.MustParsePrefix("166.8.0.0/14"),
}

// guardian knows public addresses and those that are allowed.
func guardian(allowed []netip.Prefix) *ssrf.Guardian {
	return ssrf.New(ssrf.WithAllowedV4Prefixes(allowed...), ssrf.WithAllowedV6Prefixes(allowed...), ssrf.WithDeniedV4Prefixes(platforms...))
}

// public reports whether an address may be sent to.
func public(a netip.Addr, by *ssrf.Guardian) bool { return by.SafeAddr(a.Unmap().WithZone("")) == nil }

// dialer connects to public and allowed addresses alone.
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
