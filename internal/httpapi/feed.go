package httpapi

import (
	"sync"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Limits of what is pending for a client that reads slowly.
const (
	feedText   = 64 << 10 // bytes of an answer
	feedStages = 64
)

// feed buffers the progress of a question for a client. Pending deltas are joined. When there is
// too much text it is dropped until the answer restarts; the client gets all of it with the answer.
type feed struct {
	ready chan struct{} // signals that something is pending

	mu           sync.Mutex
	pending      []Progress
	questionID   uuid.UUID // set once the question is stored
	pendingBytes int       // of text
	dropped      bool      // text since the last restart was dropped
	done         bool
	answer       schema.Answer
	err          error
}

func newFeed() *feed { return &feed{ready: make(chan struct{}, 1)} }

// add adds progress. It does not block.
func (f *feed) add(p Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Question != uuid.Nil {
		f.questionID = p.Question
	}
	if p.Stage != nil {
		f.pending = append(f.pending, p)
		f.dropStages()
		f.notify()
	}
	if p.Delta != nil && f.addDelta(*p.Delta) {
		f.notify()
	}
}

// addDelta adds text, or drops it and returns false.
func (f *feed) addDelta(d api.DeltaEvent) bool {
	if d.Restart {
		f.dropped = false
		f.dropText()
	}
	if f.dropped {
		return false
	}
	if f.pendingBytes+len(d.Text) > feedText {
		f.dropped = true
		f.dropText()
		d = api.DeltaEvent{Restart: true}
	}
	f.pendingBytes += len(d.Text)
	if n := len(f.pending); n > 0 && f.pending[n-1].Delta != nil && !d.Restart {
		f.pending[n-1].Delta.Text += d.Text
		return true
	}
	f.pending = append(f.pending, Progress{Delta: &d})
	return true
}

// dropText drops the pending text. The caller adds a restart.
func (f *feed) dropText() {
	stages := f.pending[:0]
	for _, p := range f.pending {
		if p.Delta == nil {
			stages = append(stages, p)
		}
	}
	f.pending, f.pendingBytes = stages, 0
}

// dropStages drops the oldest stage when too many are pending.
func (f *feed) dropStages() {
	oldest, n := -1, 0
	for i, p := range f.pending {
		if p.Stage != nil {
			if n++; oldest < 0 {
				oldest = i
			}
		}
	}
	if n > feedStages {
		f.pending = append(f.pending[:oldest], f.pending[oldest+1:]...)
	}
}

// end sets the result. It is the last call.
func (f *feed) end(a schema.Answer, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done, f.answer, f.err = true, a, err
	f.notify()
}

func (f *feed) notify() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// question returns the id of the question; uuid.Nil before it is stored.
func (f *feed) question() uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.questionID
}

// drain returns what is pending, and whether the question has ended.
func (f *feed) drain() (pending []Progress, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pending, f.pending, f.pendingBytes = f.pending, nil, 0
	return pending, f.done
}
