package batch

// This file bounds the processor time of work in the background.

import (
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

const (
	// busyFrom is the share of the machine's processor time that other processes use from which on
	// it is busy.
	busyFrom = 0.5
	// busyPause is how long work in the background rests on a busy machine, and how often the
	// machine is looked at.
	busyPause = time.Second
)

// Share keeps batches to a share of the machine's processor time: after each a pause follows that
// makes up for what the batch took beyond it. On a machine that others keep busy none runs. A nil
// *Share bounds nothing.
type Share struct {
	pause    float64 // seconds that a second of a batch stands for
	busy     func(now time.Time) bool
	mu       sync.Mutex
	until    time.Time // no batch begins before
	lastRead time.Time // when busy was asked last
}

// NewShare makes a share of, in (0, 1], of cores for batches that keep so many threads busy. busy
// tells whether others need the machine; nil: they never do.
func NewShare(of float64, threads, cores int, busy func(now time.Time) bool) *Share {
	return &Share{pause: float64(min(threads, cores)) / (of * float64(cores)), busy: busy}
}

// wait is how long until a batch may begin.
func (s *Share) wait(now time.Time) time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy != nil && now.Sub(s.lastRead) >= busyPause {
		s.lastRead = now
		if s.busy(now) {
			s.until = later(s.until, now.Add(busyPause))
		}
	}
	return max(0, s.until.Sub(now))
}

// spend counts a batch that ran.
func (s *Share) spend(begin time.Time, took time.Duration) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = later(s.until, begin).Add(time.Duration(float64(took) * s.pause))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// OthersBusy tells whether the other processes of the machine used more than half of its processor
// time since it was last asked. Where there is no /proc it is nil.
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
		busy := known && nowAll > all && (nowOthers-others)/(nowAll-all) > busyFrom
		others, all, known = nowOthers, nowAll, true
		return busy
	}
}
