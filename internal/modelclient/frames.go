package modelclient

// This file knows whether the servers that are asked read frames (wire.EncodeFrame). All of one
// version do; while servers are upgraded, one may and the next may not.

import (
	"sync/atomic"
	"time"
)

// frames is what replies said. It is safe for concurrent use.
type frames struct {
	seen  atomic.Bool // a reply said so
	pause pause       // a server did not
}

// framesPause is how long JSON is sent to all servers after one of them didn't read a frame.
const framesPause = time.Minute

// read reports whether a frame is sent: the first request of a client never is one.
func (f *frames) read(now time.Time) bool { return f.seen.Load() && f.pause.over(now) }

// answered notes that a server reads frames.
func (f *frames) answered() {
	if !f.seen.Load() {
		f.seen.Store(true)
	}
}

// refused notes that a server does not.
func (f *frames) refused(now time.Time) { f.pause.begin(now, framesPause) }

// pause is for how long something is left alone; the zero one is over. It is safe for concurrent
// use.
type pause struct {
	end atomic.Pointer[time.Time] // whole, so that a wall clock that is set changes nothing
}

func (p *pause) begin(now time.Time, d time.Duration) {
	end := now.Add(d)
	p.end.Store(&end)
}

func (p *pause) over(now time.Time) bool {
	end := p.end.Load()
	return end == nil || !now.Before(*end)
}
