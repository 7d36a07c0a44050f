package httpserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// maxRefusal is the maximum length of a reply with a 4xx status, in bytes.
const maxRefusal = 64 << 10

// Guard ends request bodies that stall, and sends a handler's reply without waiting for the rest of
// a body that the handler has not read.
//
// After the end of a body, net/http reads on to detect that the client disconnects. A read deadline
// that passes during that counts as a disconnection: it cancels the request, and all later ones on
// the connection. So no deadline is set after the end of the body.
func Guard(next http.Handler, l Limits) http.Handler {
	l = l.orDefault()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g := &guarded{ResponseWriter: w, control: http.NewResponseController(w), idle: l.Idle, http1: r.ProtoMajor == 1}
		if r.ContentLength != 0 && r.Body != nil {
			g.body = &paced{ReadCloser: r.Body, control: g.control, limits: l,
				length: r.ContentLength, awaited: r.Header.Get("Expect") != ""}
			r = r.WithContext(r.Context()) // the server keeps its own request, with its own body
			r.Body = g.body
		}
		next.ServeHTTP(g, r)
		g.end()
	})
}

// paced reads a body, and fails if it stalls or is too slow.
type paced struct {
	io.ReadCloser
	control *http.ResponseController
	limits  Limits
	length  int64 // -1: unknown
	awaited bool  // the client sends it only after 100 Continue

	read   int64
	waited time.Duration
	ended  atomic.Bool
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	if p.ended.Load() {
		return 0, io.EOF
	}
	begin := time.Now()
	patience := p.limits.Grace + time.Duration(p.read/p.limits.Rate)*time.Second - p.waited
	_ = p.control.SetReadDeadline(begin.Add(min(patience, p.limits.Idle))) // in-process callers have no connection
	n, err := p.ReadCloser.Read(b)
	p.waited += time.Since(begin)
	p.read += int64(n)
	if err == io.EOF {
		p.ended.Store(true)
	}
	return n, err
}

// shortBody is the size up to which a body has most likely arrived with the headers, in bytes.
const shortBody = 2 << 10

// ends reports whether the whole body was read. It reads what has arrived of a short body.
func (p *paced) ends() bool {
	if p.ended.Load() || p.awaited || p.length < 0 || p.length-p.read > shortBody {
		return p.ended.Load()
	}
	_ = p.control.SetReadDeadline(time.Unix(1, 0)) // do not wait
	_, err := io.Copy(io.Discard, p.ReadCloser)
	p.ended.Store(err == nil)
	return err == nil
}

// guarded writes a reply. A reply with a 4xx status is buffered and sent at the end of the handler,
// when its length is known.
type guarded struct {
	http.ResponseWriter
	control *http.ResponseController
	body    *paced // nil: the request has none
	idle    time.Duration
	http1   bool

	refusal int // the status of a buffered reply; 0: none
	held    bytes.Buffer
	long    bool
	written bool
}

// WriteHeader implements http.ResponseWriter.
func (g *guarded) WriteHeader(status int) {
	switch {
	case g.written || g.refusal != 0:
		return
	case status < 200:
		g.ResponseWriter.WriteHeader(status)
	case status >= 400 && status < 500:
		g.refusal = status
	default:
		g.begin(status)
	}
}

// begin sends the status and headers, whether or not the whole request has arrived.
func (g *guarded) begin(status int) {
	g.written = true
	if g.body != nil && !g.body.ends() {
		// On a connection that is kept alive, the server would read the rest of the body before it
		// sends anything.
		if g.http1 {
			g.Header().Set("Connection", "close")
		}
		_ = g.control.SetReadDeadline(time.Now().Add(g.idle)) // the server reads some of the body afterwards
	}
	g.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (g *guarded) Write(p []byte) (int, error) {
	if !g.written && g.refusal == 0 {
		g.begin(http.StatusOK)
	}
	if g.written {
		return g.ResponseWriter.Write(p)
	}
	if g.long = g.long || g.held.Len()+len(p) > maxRefusal; !g.long {
		g.held.Write(p)
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (g *guarded) Flush() {
	if g.refusal != 0 {
		return
	}
	if !g.written {
		g.begin(http.StatusOK)
	}
	_ = http.NewResponseController(g.ResponseWriter).Flush()
}

// SetReadDeadline implements the method that http.ResponseController calls.
func (g *guarded) SetReadDeadline(deadline time.Time) error {
	if g.body == nil || g.body.ended.Load() {
		return nil
	}
	return g.control.SetReadDeadline(deadline)
}

// Unwrap lets http.ResponseController reach the connection.
func (g *guarded) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// end sends the buffered reply.
func (g *guarded) end() {
	if g.refusal == 0 {
		return
	}
	if g.long {
		g.held.Reset()
		_ = json.NewEncoder(&g.held).Encode(map[string]any{"status": g.refusal, "title": http.StatusText(g.refusal),
			"detail": "the error text is too long to be sent"})
		g.Header().Del("Content-Length")
		g.Header().Set("Content-Type", "application/problem+json")
	}
	g.begin(g.refusal)
	_, _ = g.ResponseWriter.Write(g.held.Bytes()) // the client may have disconnected
}
