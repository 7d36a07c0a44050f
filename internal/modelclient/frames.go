package modelclient

// This file tracks whether the servers read frames (wire.EncodeFrame). All servers of one version
// do or do not; during an upgrade, servers of both versions may run.

import (
	"sync/atomic"
	"time"
)

// frames records what replies showed. It is safe for concurrent use.
type frames struct {
	seen  atomic.Bool // a reply showed that its server reads frames
	pause pause       // begun when a server did not read a frame
}

// framesPause is how long all servers get JSON after one of them did not read a frame.
const framesPause = time.Minute

// read reports whether to send a frame. The first request of a client is never a frame.
func (f *frames) read(now time.Time) bool { return f.seen.Load() && f.pause.over(now) }

// answered notes that a server reads frames.
func (f *frames) answered() {
	if !f.seen.Load() {
		f.seen.Store(true)
	}
}

// refused notes that a server does not read frames.
func (f *frames) refused(now time.Time) { f.pause.begin(now, framesPause) }

// pause is a period in which something is not tried. The zero value is over. It is safe for
// concurrent use.
type pause struct {
	end atomic.Pointer[time.Time] // a whole time.Time, for its monotonic clock reading
}

func (p *pause) begin(now time.Time, d time.Duration) {
	end := now.Add(d)
	p.end.Store(&end)
}

func (p *pause) over(now time.Time) bool {
	end := p.end.Load()
	return end == nil || !now.Before(*end)
}
