package httpapi

import (
	"sync"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// What waits for a client that reads slowly, at most.
const (
	feedText   = 64 << 10 // bytes of an answer
	feedStages = 64
)

// feed is what a question's asker has yet to be told. Pieces of text that wait
// are one piece; when too much waits, the text is dropped until the answer
// begins again, and its end has the whole.
type feed struct {
	wake chan struct{} // something waits

	mu      sync.Mutex
	waiting []Progress
	asked   uuid.UUID // the question, once it is stored
	text    int       // bytes that wait
	lost    bool      // text since the last restart was dropped
	over    bool
	answer  schema.Answer
	err     error
}

func newFeed() *feed { return &feed{wake: make(chan struct{}, 1)} }

// tell adds progress. It does not block.
func (f *feed) tell(p Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Question != uuid.Nil {
		f.asked = p.Question
	}
	if p.Stage != nil {
		f.waiting = append(f.waiting, p)
		f.dropStages()
		f.rouse()
	}
	if p.Delta != nil && f.takeDelta(*p.Delta) {
		f.rouse()
	}
}

// takeDelta adds a piece of text, or drops it and tells that there is nothing
// to be woken for.
func (f *feed) takeDelta(d api.DeltaEvent) bool {
	if d.Restart {
		f.lost = false
		f.dropText()
	}
	if f.lost {
		return false
	}
	if f.text+len(d.Text) > feedText {
		f.lost = true
		f.dropText()
		d = api.DeltaEvent{Restart: true}
	}
	f.text += len(d.Text)
	if n := len(f.waiting); n > 0 && f.waiting[n-1].Delta != nil && !d.Restart {
		f.waiting[n-1].Delta.Text += d.Text
		return true
	}
	f.waiting = append(f.waiting, Progress{Delta: &d})
	return true
}

// dropText drops the text that waits; who calls adds a restart after it.
func (f *feed) dropText() {
	kept := f.waiting[:0]
	for _, p := range f.waiting {
		if p.Delta == nil {
			kept = append(kept, p)
		}
	}
	f.waiting, f.text = kept, 0
}

// dropStages drops the oldest stage when too many wait.
func (f *feed) dropStages() {
	oldest, n := -1, 0
	for i, p := range f.waiting {
		if p.Stage != nil {
			if n++; oldest < 0 {
				oldest = i
			}
		}
	}
	if n > feedStages {
		f.waiting = append(f.waiting[:oldest], f.waiting[oldest+1:]...)
	}
}

// end says what became of the question; nothing is told after.
func (f *feed) end(a schema.Answer, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.answer, f.err = true, a, err
	f.rouse()
}

func (f *feed) rouse() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// question is what is being answered; none before it is stored.
func (f *feed) question() uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// take returns what waits and whether nothing more will.
func (f *feed) take() (waiting []Progress, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting, f.waiting, f.text = f.waiting, nil, 0
	return waiting, f.over
}
