package ingest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
)

func TestSharesFollowWhatLeavesAStream(t *testing.T) {
	start := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	state := func(last, messages uint64, subjects int) jetstream.StreamState {
		s := jetstream.StreamState{LastSeq: last, Msgs: messages, Subjects: map[string]uint64{}}
		for i := range subjects {
			s.Subjects[fmt.Sprint(i)] = messages / uint64(subjects)
		}
		return s
	}
	var s streamShare
	for _, c := range []struct {
		name    string
		after   time.Duration
		state   jetstream.StreamState
		share   uint64
		drained bool
	}{
		{"nothing has left yet", 0, state(1000, 900, 2), minWaiting / 2, false},
		{"still nothing", time.Second, state(1100, 1000, 1), minWaiting, false},
		{"500 have left", 2 * time.Second, state(1500, 900, 2), 500, true},
		{"one subject", 3 * time.Second, state(1500, 900, 1), 1000, false},
		{"no subject", 4 * time.Second, state(1500, 900, 0), 1000, false},
		{"the 500 left long ago", 8 * time.Second, state(1500, 900, 1), minWaiting, false},
		{"many subjects", 9 * time.Second, state(1500, 900, 100), minShare, false},
		{"another stream", 10 * time.Second, state(10, 10, 1), minWaiting, true},
		{"which is emptied", 11 * time.Second, state(110, 0, 1), 220, true},
	} {
		drained := s.update(c.state, nil, start.Add(c.after))
		if s.share != c.share || drained != c.drained {
			t.Errorf("%s: share %d, drained %v, want %d and %v", c.name, s.share, drained, c.share, c.drained)
		}
	}
}

func TestMessagesFitInTheSharesOfTheirSubjects(t *testing.T) {
	var messages []batch.Message
	for range minWaiting {
		for _, subject := range []string{"sluice.ingest.a", "sluice.ingest.b", "sluice.questions.a", "sluice.events.a.x"} {
			messages = append(messages, batch.Message{Subject: subject})
		}
	}
	s := newShares()
	if n := len(s.take(messages)); n != len(messages) { // unknown shares limit nothing
		t.Errorf("%d messages fit before the first update", n)
	}
	s.streams[0].update(jetstream.StreamState{LastSeq: 1, Msgs: 1, Subjects: map[string]uint64{"sluice.ingest.a": 1}}, messages, time.Now())
	if room := s.room(); !maps.Equal(room, map[string]int{"sluice.ingest.a": minWaiting/2 - 1, "sluice.ingest.b": minWaiting / 2}) {
		t.Errorf("there is room for %v", room)
	}
	count := map[string]int{}
	for _, m := range s.take(messages) {
		count[m.Subject]++
	}
	want := map[string]int{"sluice.ingest.a": minWaiting/2 - 1, "sluice.ingest.b": minWaiting / 2, "sluice.questions.a": minWaiting, "sluice.events.a.x": minWaiting}
	if !maps.Equal(count, want) {
		t.Errorf("%v fit, want %v", count, want)
	}
	if used := slices.Sorted(slices.Values(s.used())); !slices.Equal(used, []string{"sluice.ingest.a", "sluice.ingest.b"}) {
		t.Errorf("used: %v", used)
	}
	if room := s.room(); len(room) > 0 {
		t.Errorf("there is room for %v", room)
	}
}
