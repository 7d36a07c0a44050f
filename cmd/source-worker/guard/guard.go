// Package guard keeps connectors away from addresses that a tenant must not reach through this
// machine: loopback, link-local and private ones, and those that clouds answer on from inside. What
// counts is the address that is dialled, after its name was resolved, so neither a redirect nor a
// name that changes its mind gains anything.
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

// connectTime is how long a connection may take to come about.
const connectTime = 15 * time.Second

// platforms are addresses that look public and are a cloud's own: Azure's WireServer, Google's
// private and restricted APIs, IBM's services. IANA's registries of special addresses are in the
// library.
var platforms = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("199.36.153.4/30"), netip.MustParsePrefix("199.36.153.8/30"),
	netip.MustParsePrefix("161.26.0.0/16"), netip.MustParsePrefix("166.8.0.0/14"),
}

// Guard says which addresses may be dialled.
type Guard struct {
	private bool
	known   *ssrf.Guardian
	network Network
}

// Network is the network as a test has it: servers on the loopback interface that count as public,
// and a name server. So a test sees what comes of a public server that leads to a private one.
type Network struct {
	Public []netip.Addr
	Names  *net.Resolver
}

type networkKey struct{}

// WithNetwork is the context of a test: guards that are made with it are in that network.
func WithNetwork(ctx context.Context, n Network) context.Context {
	return context.WithValue(ctx, networkKey{}, n)
}

// New returns a guard that lets public addresses through, and all where private ones are allowed,
// too.
func New(ctx context.Context, allowPrivate bool) *Guard {
	g := &Guard{private: allowPrivate, known: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(platforms...))}
	g.network, _ = ctx.Value(networkKey{}).(Network)
	if g.network.Names == nil {
		g.network.Names = net.DefaultResolver
	}
	return g
}

// AllowsAll reports whether private addresses may be dialled, too.
func (g *Guard) AllowsAll() bool { return g.private }

// Allowed returns an error that wraps ErrPrivate where the address may not be dialled.
func (g *Guard) Allowed(address netip.Addr) error {
	if g.private || slices.Contains(g.network.Public, address.Unmap()) {
		return nil
	}
	if err := g.known.SafeAddr(address.Unmap().WithZone("")); err != nil {
		return fmt.Errorf("%w, and the operator allows only public ones: %s", ErrPrivate, address)
	}
	return nil
}

// Dialer dials allowed addresses alone.
func (g *Guard) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: connectTime, Resolver: g.network.Names, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %q", ErrPrivate, address)
		}
		return g.Allowed(at.Addr())
	}}
}

// Transport is for HTTP to allowed addresses alone. It uses no proxy, because a proxy would dial
// for it.
func (g *Guard) Transport() *http.Transport {
	return &http.Transport{
		DialContext: g.Dialer().DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: connectTime,
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 64 << 10,
	}
}

// Resolve looks a name up and returns an address of it that may be dialled. Where one of its
// addresses may not, none may.
func (g *Guard) Resolve(ctx context.Context, host string) (netip.Addr, error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		return literal, g.Allowed(literal)
	}
	found, err := g.network.Names.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look up %s: %w", host, err)
	}
	for _, address := range found {
		if err := g.Allowed(address); err != nil {
			return netip.Addr{}, err
		}
	}
	return found[0].Unmap(), nil
}
