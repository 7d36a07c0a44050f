package guard

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		address string
		public  bool
	}{
		{"127.0.0.1", false}, {"10.1.2.3", false}, {"169.254.169.254", false}, {"192.168.0.1", false}, {"100.64.0.1", false},
		{"168.63.129.16", false}, {"0.0.0.0", false}, {"::1", false}, {"fe80::1%eth0", false}, {"fd00::1", false},
		{"::ffff:127.0.0.1", false}, {"64:ff9b::7f00:1", false}, {"93.184.215.14", true}, {"2606:4700::1111", true},
	} {
		if err := New(t.Context(), false).Check(netip.MustParseAddr(c.address)); (err == nil) != c.public {
			t.Errorf("%s: %v", c.address, err)
		}
		if err := New(t.Context(), true).Check(netip.MustParseAddr(c.address)); err != nil {
			t.Errorf("%s, where all are allowed: %v", c.address, err)
		}
	}
}

// through requests an address through a guard's proxy.
func through(t *testing.T, p *Proxy, at string) (*http.Response, error) {
	t.Helper()
	proxy, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	t.Cleanup(transport.CloseIdleConnections)
	return (&http.Client{Transport: transport}).Get(at)
}

func TestProxyDialsByItsGuard(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the proxy's password reaches the server")
		}
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	for _, private := range []bool{true, false} {
		p, err := New(t.Context(), private).NewProxy()
		if err != nil {
			t.Fatal(err)
		}
		r, err := through(t, p, server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[private]; r.StatusCode != want {
			t.Errorf("the answer is %s, want %d", r.Status, want)
		}
		if errors.Is(p.Refused(), ErrPrivate) == private {
			t.Errorf("the proxy says that it refused %v", p.Refused())
		}
		p.Close()
	}
}

func TestProxyTunnels(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer server.Close()
	p, err := New(t.Context(), true).NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	proxy, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := server.Client()
	client.Transport.(*http.Transport).Proxy = http.ProxyURL(proxy)
	r, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if content, err := io.ReadAll(r.Body); err != nil || string(content) != "hello" {
		t.Errorf("through a tunnel comes %q, %v", content, err)
	}
	client.CloseIdleConnections()
}

func TestProxyWantsItsPassword(t *testing.T) {
	p, err := New(t.Context(), true).NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.listener.Addr().String()})}
	defer transport.CloseIdleConnections()
	r, err := (&http.Client{Transport: transport}).Get("http://example.invalid/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusProxyAuthRequired {
		t.Errorf("without a password the answer is %s", r.Status)
	}
}
