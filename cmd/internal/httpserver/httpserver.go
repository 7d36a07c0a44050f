// Package httpserver makes the HTTP servers of all programs. They close connections of clients that
// send nothing or send too slowly. A 4xx reply is sent without waiting for the request's body, and
// is short.
package httpserver

import (
	"net/http"
	"time"
)

// Limits are the time limits of one request. A zero value means the default.
type Limits struct {
	// Header is the time limit for the request line and headers. The default is 10 s.
	Header time.Duration
	// Idle is how long a body may stall. The default is 15 s.
	Idle time.Duration
	// Grace is how long a body may be slower than Rate. The default is 30 s.
	Grace time.Duration
	// Rate is the minimum rate of a body, in bytes per second. The default is 8 KB.
	Rate int64
}

const (
	maxHeader = 256 << 10 // a query may have 64 KB of metadata
	keepAlive = 2 * time.Minute
)

func (l Limits) orDefault() Limits {
	set := func(d *time.Duration, usual time.Duration) {
		if *d <= 0 {
			*d = usual
		}
	}
	set(&l.Header, 10*time.Second)
	set(&l.Idle, 15*time.Second)
	set(&l.Grace, 30*time.Second)
	if l.Rate <= 0 {
		l.Rate = 8 << 10
	}
	return l
}

// New returns a server with a handler. The caller listens.
func New(handler http.Handler, l Limits) *http.Server {
	l = l.orDefault()
	return &http.Server{
		Handler:           Guard(handler, l),
		ReadHeaderTimeout: l.Header,
		ReadTimeout:       l.Header + l.Grace, // for bodies that no handler reads; Guard sets the deadlines of others
		IdleTimeout:       keepAlive,
		MaxHeaderBytes:    maxHeader,
	}
}
