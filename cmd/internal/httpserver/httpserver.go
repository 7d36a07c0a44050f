// Package httpserver makes the HTTP servers of all programs: a client that sends nothing, or too
// slowly, holds none of them for ever, a refusal waits for no body, and is short.
package httpserver

import (
	"net/http"
	"time"
)

// Limits are what one request may take. The zero value of each is its default.
type Limits struct {
	// Header is how long a request's line and headers may take: 10 s.
	Header time.Duration
	// Idle is how long a body may stand still: 15 s.
	Idle time.Duration
	// Grace is how long a body may be slower than Rate: 30 s.
	Grace time.Duration
	// Rate is how fast a body comes at least, in bytes a second: 8 KB.
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

// New returns a server of handler; where it listens is the caller's to say.
func New(handler http.Handler, l Limits) *http.Server {
	l = l.orDefault()
	return &http.Server{
		Handler:           Guard(handler, l),
		ReadHeaderTimeout: l.Header,
		ReadTimeout:       l.Header + l.Grace, // of what no handler reads; Guard sets the time of what one reads
		IdleTimeout:       keepAlive,
		MaxHeaderBytes:    maxHeader,
	}
}
