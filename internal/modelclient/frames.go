package modelclient

// This file tracks whether the servers read frames (wire.EncodeFrame). All servers of one version
// do or do not; during an upgrade, servers of both versions may run.

import (
	"sync/atomic"
	"time"
)

// frames records what replies showed. It is safe for concurrent use.
type frames struct {
	supported atomic.Bool // a reply showed that its server reads frames
	cooldown  cooldown    // begun when a server did not read a frame
}

// framesRetryDelay is how long all servers get JSON after one of them did not read a frame.
const framesRetryDelay = time.Minute

// enabled reports whether to send a frame. The first request of a client is never a frame.
func (f *frames) enabled(now time.Time) bool { return f.supported.Load() && f.cooldown.expired(now) }

// markSupported notes that a server reads frames.
func (f *frames) markSupported() {
	if !f.supported.Load() {
		f.supported.Store(true)
	}
}

// disable notes that a server does not read frames.
func (f *frames) disable(now time.Time) { f.cooldown.start(now, framesRetryDelay) }

// cooldown is a period in which something is not tried. The zero value is over. It is safe for
// concurrent use.
type cooldown struct {
	end atomic.Pointer[time.Time] // a whole time.Time, for its monotonic clock reading
}

func (p *cooldown) start(now time.Time, d time.Duration) {
	end := now.Add(d)
	p.end.Store(&end)
}

func (p *cooldown) expired(now time.Time) bool {
	end := p.end.Load()
	return end == nil || !now.Before(*end)
}
