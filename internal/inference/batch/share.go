package batch

// This file limits the processor time of background work.

import (
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

const (
	// busyThreshold is the share of the machine's processor time above which other processes make
	// it busy.
	busyThreshold = 0.5
	// busyRecheckInterval is how long background work pauses on a busy machine, and how often the
	// load is measured.
	busyRecheckInterval = time.Second
)

// Share limits batches to a share of the machine's processor time: the next batch starts only after
// a pause that makes up for the one before. While other processes keep the machine busy, no batch
// starts. A nil *Share has no limit.
type Share struct {
	pause    float64 // seconds from the start of a batch to the next, for each second that it runs
	busy     func(now time.Time) bool
	mu       sync.Mutex
	until    time.Time // no batch starts before
	lastRead time.Time // when busy was last called
}

// NewShare returns the share of, in (0, 1], of cores for batches that each use threads. busy
// reports whether other processes need the machine; nil: they never do.
func NewShare(share float64, threads, cores int, busy func(now time.Time) bool) *Share {
	return &Share{pause: float64(min(threads, cores)) / (share * float64(cores)), busy: busy}
}

// wait returns how long until a batch may start.
func (s *Share) wait(now time.Time) time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy != nil && now.Sub(s.lastRead) >= busyRecheckInterval {
		s.lastRead = now
		if s.busy(now) {
			s.until = later(s.until, now.Add(busyRecheckInterval))
		}
	}
	return max(0, s.until.Sub(now))
}

// record records a batch that ran.
func (s *Share) record(begin time.Time, elapsed time.Duration) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = later(s.until, begin).Add(time.Duration(float64(elapsed) * s.pause))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// OthersBusy returns a function that reports whether the other processes of the machine used more
// than half of its processor time since its last call. Without /proc, OthersBusy returns nil.
func OthersBusy() func(now time.Time) bool {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil
	}
	used := func() (others, all float64, ok bool) {
		machine, err := fs.Stat()
		if err != nil {
			return 0, 0, false
		}
		self, err := fs.Self()
		if err != nil {
			return 0, 0, false
		}
		own, err := self.Stat()
		if err != nil {
			return 0, 0, false
		}
		t := machine.CPUTotal
		busy := t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal
		return busy - own.CPUTime(), busy + t.Idle + t.Iowait, true
	}
	others, all, known := used()
	return func(time.Time) bool {
		nowOthers, nowAll, ok := used()
		if !ok {
			return false
		}
		busy := known && nowAll > all && (nowOthers-others)/(nowAll-all) > busyThreshold
		others, all, known = nowOthers, nowAll, true
		return busy
	}
}
