package ingest

// Shares of the work streams. JetStream delivers messages in the order of their arrival, so a
// document waits for all messages that came before it. The relay therefore keeps few messages in a
// stream and limits each tenant's part of them; the others wait in the outbox.

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// Updates of the shares are shareInterval apart, and up to maxShareInterval while no message
	// leaves a stream.
	shareInterval    = 100 * time.Millisecond
	maxShareInterval = time.Second
	shareWindow      = 5 * time.Second // over which the messages that leave a stream are counted
	// minWaiting is the number of messages that a stream may always have: enough for the first
	// batches of a worker.
	minWaiting = 128
	// minShare is the number of messages that a tenant may always have, however many tenants there
	// are.
	minShare = 8
)

// shares limits how many messages of a tenant the relay keeps in each work stream.
type shares struct {
	streams  []*streamShare
	next     time.Time     // of the next update
	interval time.Duration // from the last update to the next
}

// streamShare is the limit in one stream: an equal part, among the subjects that have messages in
// it, of twice the number of messages that left it in shareWindow.
type streamShare struct {
	name, prefix string // of the stream, and of its subjects
	stream       jetstream.Stream
	removed      []removed         // oldest first
	share        uint64            // messages that a subject may have
	messages     map[string]uint64 // those that it has, by subject
}

// removed is how many messages have left a stream since its creation, at a time.
type removed struct {
	at time.Time
	n  uint64
}

func newShares() *shares {
	return &shares{streams: []*streamShare{
		{name: wire.StreamIngest, prefix: strings.TrimSuffix(wire.IngestSubjects, "*")},
		{name: wire.StreamQuestions, prefix: strings.TrimSuffix(wire.QuestionsSubjects, "*")},
	}}
}

// update reads the state of the streams and computes the shares, if it is time. The relay is about
// to publish messages, whose subjects get a share, too.
func (s *shares) update(ctx context.Context, js jetstream.JetStream, messages []batch.Message, now time.Time) error {
	if now.Before(s.next) {
		return nil
	}
	drained := false
	for _, stream := range s.streams {
		state, err := stream.state(ctx, js)
		if err != nil {
			return fmt.Errorf("count the messages in stream %s: %w", stream.name, err)
		}
		drained = stream.update(state, messages, now) || drained
	}
	if s.interval = min(2*s.interval, maxShareInterval); drained || s.interval == 0 {
		s.interval = shareInterval
	}
	s.next = now.Add(s.interval)
	return nil
}

func (s *streamShare) state(ctx context.Context, js jetstream.JetStream) (jetstream.StreamState, error) {
	if s.stream == nil {
		stream, err := js.Stream(ctx, s.name)
		if err != nil {
			return jetstream.StreamState{}, err
		}
		s.stream = stream
	}
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(s.prefix+"*"))
	if err != nil {
		return jetstream.StreamState{}, err
	}
	return info.State, nil
}

// update computes the share. It reports whether messages have left the stream since the last call.
func (s *streamShare) update(state jetstream.StreamState, messages []batch.Message, now time.Time) (drained bool) {
	n := state.LastSeq - min(state.Msgs, state.LastSeq)
	if last := len(s.removed) - 1; last >= 0 {
		drained = n != s.removed[last].n
		if n < s.removed[last].n { // the stream was created again
			s.removed = nil
		}
	}
	s.removed = append(s.removed, removed{now, n})
	for len(s.removed) > 2 && now.Sub(s.removed[1].at) >= shareWindow {
		s.removed = s.removed[1:]
	}
	s.messages = state.Subjects
	if s.messages == nil {
		s.messages = map[string]uint64{}
	}
	for _, m := range messages {
		if strings.HasPrefix(m.Subject, s.prefix) {
			s.messages[m.Subject] += 0
		}
	}
	waiting := max(2*(n-s.removed[0].n), minWaiting)
	s.share = max(waiting/max(uint64(len(s.messages)), 1), minShare)
	return drained
}

// take returns those of the messages that fit in the shares of their subjects, and counts them as
// published. Those of other streams all fit.
func (s *shares) take(messages []batch.Message) []batch.Message {
	out := make([]batch.Message, 0, len(messages))
	for _, m := range messages {
		if s.fits(m.Subject) {
			out = append(out, m)
		}
	}
	return out
}

func (s *shares) fits(subject string) bool {
	for _, stream := range s.streams {
		if !strings.HasPrefix(subject, stream.prefix) || stream.messages == nil {
			continue
		}
		if stream.messages[subject] >= stream.share {
			return false
		}
		stream.messages[subject]++
	}
	return true
}

// used returns the subjects that have their share, or more.
func (s *shares) used() []string {
	var out []string
	for _, stream := range s.streams {
		for subject, n := range stream.messages {
			if n >= stream.share {
				out = append(out, subject)
			}
		}
	}
	return out
}

// room returns how many more messages fit in the shares of the subjects that have not used theirs.
func (s *shares) room() map[string]int {
	out := map[string]int{}
	for _, stream := range s.streams {
		for subject, n := range stream.messages {
			if n < stream.share {
				out[subject] = int(stream.share - n)
			}
		}
	}
	return out
}
