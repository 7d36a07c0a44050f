package main

// No driver reaches a private address through a name, a redirect, or an address in a reply. On
// Linux a test can listen on all addresses of 127.0.0.0/8, and so has several machines.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sluice-rag/sluice/cmd/source-worker/guard"
	"github.com/sluice-rag/sluice/internal/source"
)

var (
	public  = netip.MustParseAddr("127.0.0.1") // counts as public
	private = netip.MustParseAddr("127.0.0.2")
	other   = netip.MustParseAddr("127.0.0.3") // counts as public
)

// nameServer resolves every name to the private address. A name that begins with "rebinding" is
// resolved to the public one the first time.
func nameServer(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var asked sync.Map
	all.Go(func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				at := private
				if name := q.Name.String(); strings.HasPrefix(name, "rebinding") {
					if _, again := asked.LoadOrStore(name, true); !again {
						at = public
					}
				}
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body: &dnsmessage.AResource{A: at.As4()}}}
			}
			if reply, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		all.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// forbiddenServer listens on the private address, to which nobody may connect. It returns its port
// and the number of connections.
func forbiddenServer(t *testing.T) (port string, reached *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", netip.AddrPortFrom(private, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	reached = new(atomic.Int32)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	_, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, reached
}

// ownNames are the rows whose drivers have fixed server names, which are private here.
var ownNames = map[string]bool{"s3 of Amazon": true, "gcs of Google": true, "onedrive": true, "drive": true, "dropbox": true, "box": true}

func TestNoDriverReachesPrivateAddresses(t *testing.T) {
	ctx := guard.WithNetwork(t.Context(), guard.Network{Public: []netip.Addr{public, other}, Names: nameServer(t)})
	port, reached := forbiddenServer(t)
	for _, host := range []string{private.String(), "private.example.test", "rebinding.example.test"} {
		for row := range driverSettings(host, port) {
			host := host
			if strings.HasPrefix(host, "rebinding") {
				host = strings.ReplaceAll("rebinding-"+row+".example.test", " ", "-")
			}
			t.Run(row+" at "+host, func(t *testing.T) {
				err := attempt(ctx, driverFor(t, row), source.Settings{Values: driverSettings(host, port)[row]})
				switch {
				case err == nil:
					t.Error("it can be read")
				case row == "azureblob":
					if !strings.Contains(err.Error(), "private addresses") {
						t.Errorf("the error is %v", err)
					}
				case strings.HasPrefix(host, "rebinding") && !ownNames[row]:
					// The driver connects to the checked address, where nothing listens.
				case !strings.Contains(err.Error(), guard.ErrPrivate.Error()):
					t.Errorf("the error is %v, want one that says that the address isn't public", err)
				}
				if n := reached.Swap(0); n > 0 {
					t.Errorf("a private address got %d connections", n)
				}
			})
		}
	}
}

// listenAt serves HTTP at an address of the loopback network.
func listenAt(t *testing.T, at netip.Addr, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func TestRedirectsReachNoPrivateAddresses(t *testing.T) {
	ctx := guard.WithNetwork(t.Context(), guard.Network{Public: []netip.Addr{public, other}, Names: nameServer(t)})
	port, reached := forbiddenServer(t)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		from := listenAt(t, public, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+net.JoinHostPort(private.String(), port)+r.URL.RequestURI(), status)
		})
		host, fromPort, _ := net.SplitHostPort(strings.TrimPrefix(from, "http://"))
		for _, row := range speakHTTP {
			t.Run(fmt.Sprintf("%s with %d", row, status), func(t *testing.T) {
				err := attempt(ctx, driverFor(t, row), source.Settings{Values: driverSettings(host, fromPort)[row]})
				if !errors.Is(err, guard.ErrPrivate) && row != "s3" { // S3's library follows no redirects
					t.Errorf("a redirect to a private address gives %v, want ErrPrivate", err)
				}
				if err == nil || reached.Swap(0) > 0 {
					t.Errorf("a private address is reached (%v)", err)
				}
			})
		}
	}
}

func TestRedirectsCarryNoCredentialsToOtherServers(t *testing.T) {
	ctx := guard.WithNetwork(t.Context(), guard.Network{Public: []netip.Addr{public, other}, Names: nameServer(t)})
	var mu sync.Mutex
	var got []string
	to := listenAt(t, other, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s %v", r.Method, r.URL, r.Header))
		http.Error(w, "no", http.StatusTeapot)
	})
	from := listenAt(t, public, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	})
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(from, "http://"))
	for _, row := range speakHTTP {
		if err := attempt(ctx, driverFor(t, row), source.Settings{Values: driverSettings(host, port)[row]}); err == nil {
			t.Errorf("%s can be read", row)
		}
		mu.Lock()
		for _, request := range got {
			if secret := leakedSecret(row, request); secret != "" {
				t.Errorf("%s carries %q to another server: %s", row, secret, request)
			}
		}
		got = nil
		mu.Unlock()
	}
}
