package search

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
)

// counting is a storage with one number as its revision, which replies when release allows it.
type counting struct {
	Storage
	number  atomic.Int64
	asked   atomic.Int64
	release chan struct{} // closed: it replies at once
}

func (c *counting) LexicalRevision(ctx context.Context, _, _ uuid.UUID) func() (int64, error) {
	c.asked.Add(1)
	n := c.number.Load()
	return func() (int64, error) {
		select {
		case <-c.release:
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func TestConcurrentSearchesShareQuestions(t *testing.T) {
	s := &counting{release: make(chan struct{})}
	r := newRevisions(s)
	first := r.begin(t.Context(), uuid.Nil, uuid.Nil)
	s.number.Add(1)
	var answers []func() (int64, error)
	for range 20 {
		answers = append(answers, r.begin(t.Context(), uuid.Nil, uuid.Nil))
	}
	r.begin(t.Context(), uuid.Nil, uuid.UUID{1})
	if n := s.asked.Load(); n != 2 {
		t.Fatalf("%d questions on their way about two collections, want 2", n)
	}
	var all sync.WaitGroup
	for _, answer := range answers {
		all.Go(func() {
			if n, err := answer(); n != 1 || err != nil {
				t.Errorf("got %d, %v from a question older than the change to 1", n, err)
			}
		})
	}
	close(s.release)
	all.Wait()
	if n, err := first(); n != 0 || err != nil {
		t.Errorf("the first got %d, %v", n, err)
	}
	if n := s.asked.Load(); n != 3 {
		t.Errorf("%d questions for 22 searches, want 3", n)
	}
	if _, ok := r.queues[collectionKey{}]; ok {
		t.Error("an answered question is still there")
	}
}

func TestConcurrentAnswersAreNewerThanTheirQuestions(t *testing.T) {
	s := &counting{release: make(chan struct{})}
	close(s.release)
	r := newRevisions(s)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				at := s.number.Add(1)
				answer := r.begin(t.Context(), uuid.Nil, uuid.Nil)
				if n, err := answer(); n < at || err != nil {
					t.Errorf("%d, %v for what was asked at %d", n, err, at)
					return
				}
			}
		})
	}
	all.Wait()
	if len(r.queues) > 0 {
		t.Errorf("%d collections have open questions", len(r.queues))
	}
}

// A search that gives up cancels only a request of its own.
func TestConcurrentSearchesGiveUp(t *testing.T) {
	s := &counting{release: make(chan struct{})}
	r := newRevisions(s)
	cancelled, cancel := context.WithCancel(t.Context())
	first := r.begin(cancelled, uuid.Nil, uuid.Nil)
	second, third := r.begin(cancelled, uuid.Nil, uuid.Nil), r.begin(t.Context(), uuid.Nil, uuid.Nil)
	cancel()
	for _, answer := range []func() (int64, error){second, first} {
		if _, err := answer(); !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
	}
	close(s.release)
	if _, err := third(); err != nil {
		t.Errorf("who stayed got %v", err)
	}
	if _, err := r.begin(t.Context(), uuid.Nil, uuid.Nil)(); err != nil {
		t.Errorf("the next one got %v", err)
	}
	if n := s.asked.Load(); n > 3 {
		t.Errorf("%d questions", n)
	}
}
