// Package guard keeps connectors away from addresses that a tenant must not reach through this
// machine: loopback, link-local and private addresses, and those of clouds' internal services. It
// checks the address that is dialled, after name resolution, so neither a redirect nor a changed
// DNS answer gets around it.
package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// ErrPrivate is the error of an address that may not be dialled.
var ErrPrivate = errors.New("the address is not public")

// connectTimeout is the timeout of connecting.
const connectTimeout = 15 * time.Second

// cloudServices are public addresses of clouds' internal services: Azure's WireServer, Google's
// private and restricted APIs, IBM's services. The library has the special addresses of IANA's
// registries.
var cloudServices = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("199.36.153.4/30"), netip.MustParsePrefix("199.36.153.8/30"),
	netip.MustParsePrefix("161.26.0.0/16"), netip.MustParsePrefix("166.8.0.0/14"),
}

// Guard decides which addresses may be dialled.
type Guard struct {
	allowPrivate bool
	guardian     *ssrf.Guardian
	network      Network
}

// Network is a network for tests: servers on the loopback interface that count as public, and a
// name server. With it a test can have a public server that refers to a private one.
type Network struct {
	Public []netip.Addr
	Names  *net.Resolver
}

type networkKey struct{}

// WithNetwork returns a context for tests: guards that are created with it use the network n.
func WithNetwork(ctx context.Context, n Network) context.Context {
	return context.WithValue(ctx, networkKey{}, n)
}

// New returns a guard that allows public addresses and, with allowPrivate, all others.
func New(ctx context.Context, allowPrivate bool) *Guard {
	g := &Guard{allowPrivate: allowPrivate, guardian: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(cloudServices...))}
	g.network, _ = ctx.Value(networkKey{}).(Network)
	if g.network.Names == nil {
		g.network.Names = net.DefaultResolver
	}
	return g
}

// AllowsAll reports whether private addresses may be dialled.
func (g *Guard) AllowsAll() bool { return g.allowPrivate }

// Check returns an error that wraps ErrPrivate if the address may not be dialled.
func (g *Guard) Check(address netip.Addr) error {
	if g.allowPrivate || slices.Contains(g.network.Public, address.Unmap()) {
		return nil
	}
	if err := g.guardian.SafeAddr(address.Unmap().WithZone("")); err != nil {
		return fmt.Errorf("%w, and the operator allows only public ones: %s", ErrPrivate, address)
	}
	return nil
}

// Dialer returns a dialer for allowed addresses only.
func (g *Guard) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: connectTimeout, Resolver: g.network.Names, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %q", ErrPrivate, address)
		}
		return g.Check(at.Addr())
	}}
}

// Transport returns an HTTP transport for allowed addresses only. It uses no proxy from the
// environment, because the guard could not check what the proxy dials.
func (g *Guard) Transport() *http.Transport {
	return &http.Transport{
		DialContext: g.Dialer().DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: connectTimeout,
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 64 << 10,
	}
}

// Resolve resolves a name and returns one of its addresses. If any of them may not be dialled, it
// returns an error.
func (g *Guard) Resolve(ctx context.Context, host string) (netip.Addr, error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		return literal, g.Check(literal)
	}
	found, err := g.network.Names.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look up %s: %w", host, err)
	}
	for _, address := range found {
		if err := g.Check(address); err != nil {
			return netip.Addr{}, err
		}
	}
	return found[0].Unmap(), nil
}
