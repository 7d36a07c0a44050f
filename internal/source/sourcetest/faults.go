package sourcetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// Fault is a fault of an HTTP server.
type Fault struct {
	// Match selects the affected requests; nil means all.
	Match func(*http.Request) bool
	// After is how many of these requests pass before the fault begins, and Times how many it then
	// affects; 0 means all.
	After, Times int

	// Status replaces the server's status. If RetryAfter isn't zero, the reply has a Retry-After of
	// that many seconds.
	Status, RetryAfter int
	// Block holds a request back until the client ends it.
	Block bool
	// Break breaks the connection after this many bytes of the body.
	Break int
	// Truncate ends the body after this many bytes, as if that were all.
	Truncate int
}

// Faults is a proxy in front of an HTTP server that injects faults.
type Faults struct {
	server *httptest.Server
	done   chan struct{}

	mu       sync.Mutex
	fault    *Fault
	seen     int
	requests int
	blocked  chan struct{}
}

// NewFaults starts a proxy in front of the server at an address. It ends with the test.
func NewFaults(t testing.TB, server string) *Faults {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	f := &Faults{blocked: make(chan struct{}, 1), done: make(chan struct{})}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Host = r.In.Host // signatures cover it
			r.Out.Header.Set("Accept-Encoding", r.In.Header.Get("Accept-Encoding"))
		},
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, forward) }))
	t.Cleanup(func() {
		close(f.done)
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// URL returns the proxy's address.
func (f *Faults) URL() string { return f.server.URL }

// Set makes the proxy inject a fault from now on instead of the previous one; nil: none.
func (f *Faults) Set(fault *Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.seen = fault, 0
	select {
	case <-f.blocked:
	default:
	}
}

// Blocked returns a channel that receives when a request is held.
func (f *Faults) Blocked() <-chan struct{} { return f.blocked }

// Requests returns how many requests have arrived.
func (f *Faults) Requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// next counts a request, and returns the fault that affects it, or nil.
func (f *Faults) next(r *http.Request) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if f.fault == nil || f.fault.Match != nil && !f.fault.Match(r) {
		return nil
	}
	f.seen++
	if f.seen <= f.fault.After || f.fault.Times > 0 && f.seen > f.fault.After+f.fault.Times {
		return nil
	}
	return f.fault
}

func (f *Faults) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	fault := f.next(r)
	switch {
	case fault == nil:
		forward.ServeHTTP(w, r)
	case fault.Block:
		select {
		case f.blocked <- struct{}{}:
		default:
		}
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
		select {
		case <-r.Context().Done():
		case <-f.done:
		}
		panic(http.ErrAbortHandler)
	case fault.Status != 0:
		if fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
		}
		http.Error(w, http.StatusText(fault.Status), fault.Status)
	default:
		forward.ServeHTTP(&truncatingWriter{ResponseWriter: w, remaining: fault.Break + fault.Truncate, abort: fault.Break > 0}, r)
	}
}

// truncatingWriter forwards the beginning of a body.
type truncatingWriter struct {
	http.ResponseWriter
	remaining int
	abort     bool
}

// WriteHeader implements http.ResponseWriter.
func (c *truncatingWriter) WriteHeader(status int) {
	if !c.abort {
		c.Header().Del("Content-Length")
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (c *truncatingWriter) Write(p []byte) (int, error) {
	part := p[:min(len(p), c.remaining)]
	c.remaining -= len(part)
	if _, err := c.ResponseWriter.Write(part); err != nil {
		return 0, err
	}
	if len(part) < len(p) && c.abort {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return len(p), nil
}

// Unwrap is for http.ResponseController.
func (c *truncatingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
