package guard

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is an HTTP proxy on the loopback interface that only dials addresses that a guard allows.
// It is for libraries that make their own connections but can use a proxy. It requires a password.
type Proxy struct {
	guard    *Guard
	password string
	listener net.Listener
	server   *http.Server
	forward  *httputil.ReverseProxy
	refused  atomic.Pointer[error]

	ctx    context.Context
	cancel context.CancelFunc
	served chan struct{}

	mu      sync.Mutex // held while tunnels is incremented, so that no tunnel starts while Close waits
	tunnels sync.WaitGroup
}

// NewProxy starts a proxy. Close stops it.
func (g *Guard) NewProxy() (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the connections of a source: %w", err)
	}
	p := &Proxy{guard: g, password: rand.Text(), listener: listener, served: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	transport := g.Transport()
	transport.DisableCompression = true // pass content on unchanged
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.Header.Del("Proxy-Authorization") },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), p.failure(err))
		},
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: connectTimeout, BaseContext: func(net.Listener) context.Context { return p.ctx }}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(listener)
	}()
	return p, nil
}

// URL returns the address of the proxy, with the password.
func (p *Proxy) URL() string {
	at := url.URL{Scheme: "http", Host: p.listener.Addr().String(), User: url.UserPassword("sluice", p.password)}
	return at.String()
}

// Refused returns the error of the address that was last refused, or nil. Libraries hide it behind
// errors of their own.
func (p *Proxy) Refused() error {
	if err := p.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// Close ends all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	_ = p.server.Close()
	<-p.served
	p.tunnels.Wait()
	p.forward.Transport.(*http.Transport).CloseIdleConnections()
}

// failure records an error of a refused address, and returns the status to answer with.
func (p *Proxy) failure(err error) int {
	if errors.Is(err, ErrPrivate) {
		p.refused.Store(&err)
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	expected := "Basic " + base64.StdEncoding.EncodeToString([]byte("sluice:"+p.password))
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Proxy-Authorization")), []byte(expected)) != 1 {
		w.Header().Set("Proxy-Authenticate", `Basic realm="sluice"`)
		http.Error(w, "the proxy requires its password", http.StatusProxyAuthRequired)
		return
	}
	if r.Method == http.MethodConnect {
		p.connect(w, r)
		return
	}
	if !r.URL.IsAbs() {
		http.Error(w, "this is a proxy", http.StatusBadRequest)
		return
	}
	p.forward.ServeHTTP(w, r)
}

// connect opens a tunnel, and returns when the tunnel has ended.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	upstream, err := p.guard.Dialer().DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), p.failure(err))
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = upstream.Close()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	closeBoth := func() { _, _ = client.Close(), upstream.Close() }
	defer closeBoth()
	if !p.addTunnel() {
		return
	}
	defer p.tunnels.Done()
	defer context.AfterFunc(p.ctx, closeBoth)()
	_ = client.SetDeadline(time.Time{})
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection Established\r\n\r\n"); err != nil {
		return
	}
	relay(client, buffered.Reader, upstream)
}

// addTunnel counts a tunnel, and returns false if the proxy is closing.
func (p *Proxy) addTunnel() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.tunnels.Add(1)
	return true
}

// relay copies in both directions until both have ended.
func relay(client net.Conn, buffered *bufio.Reader, upstream net.Conn) {
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(upstream, buffered)
		halfClose(upstream)
	})
	_, _ = io.Copy(client, upstream)
	halfClose(client)
	up.Wait()
}

// halfClose closes the write side of a connection, or all of it if that is not possible.
func halfClose(c net.Conn) {
	if w, ok := c.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
		return
	}
	_ = c.Close()
}
