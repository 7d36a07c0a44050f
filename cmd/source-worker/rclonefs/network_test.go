package rclonefs

// Servers of the tests replace services on the internet. rclone's own settings lead the services'
// names to them.

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/rclone/rclone/fs"

	"github.com/sluice-rag/sluice/internal/certtest"
	"github.com/sluice-rag/sluice/internal/source"
)

// scriptedNetwork returns a context in which some names lead to a handler over HTTPS, and others to
// nothing.
func scriptedNetwork(t testing.TB, to http.Handler, names ...string) context.Context {
	t.Helper()
	authority := certtest.New(t, t.TempDir())
	pair := authority.Server(names...)
	certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(to)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // no log of connections that end early
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, port, _ := net.SplitHostPort(r.Host)
		if r.Method != http.MethodConnect || certificate.Leaf.VerifyHostname(host) != nil || port != "443" {
			t.Errorf("the proxy is asked for %s %s", r.Method, r.Host)
			http.Error(w, "it is not in the script", http.StatusBadGateway)
			return
		}
		tunnel(w, server.Listener.Addr().String())
	}))
	t.Cleanup(proxy.Close)
	ctx, config := fs.AddConfig(t.Context())
	config.HTTPProxy, config.CaCert = proxy.URL, []string{authority.File}
	return ctx
}

// tunnel connects a client that asks for a tunnel to a server.
func tunnel(w http.ResponseWriter, to string) {
	far, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	_, _ = io.WriteString(near, "HTTP/1.1 200 Connection Established\r\n\r\n")
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	})
	_, _ = io.Copy(near, far)
	_ = near.Close()
	up.Wait()
}

// opened opens a source with small pages until the test ends.
func opened(ctx context.Context, t testing.TB, k *kind, s source.Settings) source.Connector {
	t.Helper()
	c, err := paged(k, testPage).driver().Open(ctx, s)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}
