package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/waittest"
)

func (f *fixture) lead(t *testing.T, loop, holder string) bool {
	t.Helper()
	leads, err := f.Elect(t.Context(), loop, holder, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return leads
}

const expireLeasesSQL = `UPDATE loops SET until = now() - interval '1 s'`

func TestOneOfManyProcessesIsElected(t *testing.T) {
	f := setUp(t, store.Options{})
	var leaders atomic.Int64
	var wg sync.WaitGroup
	for _, holder := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		wg.Go(func() {
			if f.lead(t, "contested", holder) {
				leaders.Add(1)
			}
		})
	}
	wg.Wait()
	if n := leaders.Load(); n != 1 {
		t.Errorf("%d lead at once", n)
	}
	for _, step := range []struct {
		holder string
		leads  bool
		before func()
	}{
		{holder: "a", leads: true},
		{holder: "b"},
		{holder: "a", leads: true},
		{holder: "b", leads: true, before: func() { execute(t, f.owner, expireLeasesSQL) }},
		{holder: "a"},
		{holder: "a", before: func() { _ = f.Resign(t.Context(), "loop", "a") }}, // it does not lead
		{holder: "a", leads: true, before: func() {
			if err := f.Resign(t.Context(), "loop", "b"); err != nil {
				t.Error(err)
			}
		}},
	} {
		if step.before != nil {
			step.before()
		}
		if got := f.lead(t, "loop", step.holder); got != step.leads {
			t.Errorf("%s leads: %t", step.holder, got)
		}
	}
}

// longLeases grants leases that last until the test ends them, however slow the machine is.
type longLeases struct {
	lifecycle.Elector
	killed bool // its process does not resign
}

func (l longLeases) Elect(ctx context.Context, loop, holder string, _ time.Duration) (bool, error) {
	return l.Elector.Elect(ctx, loop, holder, time.Hour)
}

func (l longLeases) Resign(ctx context.Context, loop, holder string) error {
	if l.killed {
		return nil
	}
	return l.Elector.Resign(ctx, loop, holder)
}

// process runs a loop. It counts its rounds, and the elections that it lost.
type process struct {
	rounds, rests atomic.Int64
	*lifecycle.Loop
}

func startLoop(t *testing.T, elector lifecycle.Elector, round func(fetch context.Context) error) *process {
	t.Helper()
	c := &process{}
	c.Loop = lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "loop", Elector: elector, Every: 10 * time.Millisecond,
		Round: func(fetch, _ context.Context) error {
			c.rounds.Add(1)
			if round != nil {
				return round(fetch)
			}
			return nil
		},
		Standby: func(context.Context, error) { c.rests.Add(1) },
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func reaches(t *testing.T, what string, n *atomic.Int64, least int64) {
	t.Helper()
	waittest.Until(t, func() string {
		if n.Load() < least {
			return what
		}
		return ""
	})
}

func TestOnlyTheLeaderRunsRounds(t *testing.T) {
	f := setUp(t, store.Options{})
	first := startLoop(t, longLeases{Elector: f.All, killed: true}, nil)
	reaches(t, "the first process leads", &first.rounds, 1)
	second := startLoop(t, longLeases{Elector: f.All}, func(context.Context) error { return errors.New("a round that fails is followed by the next") })
	reaches(t, "both hold elections", &second.rests, 5)
	reaches(t, "the first goes on", &first.rounds, first.rounds.Load()+5)
	if n := second.rounds.Load(); n != 0 {
		t.Fatalf("the second ran %d rounds beside the first", n)
	}
	if err := first.Stop(t.Context()); err != nil { // killed, see above
		t.Fatal(err)
	}
	reaches(t, "the second goes on", &second.rests, second.rests.Load()+5)
	if n := second.rounds.Load(); n != 0 {
		t.Fatalf("the second ran %d rounds while the first might live", n)
	}
	execute(t, f.owner, expireLeasesSQL)
	reaches(t, "the second leads", &second.rounds, 3)

	// One that stops resigns, so that another is elected at once.
	third := startLoop(t, longLeases{Elector: f.All}, nil)
	if err := second.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	reaches(t, "the third leads", &third.rounds, 1)
}

func TestARoundEndsWhenLeadershipIsLost(t *testing.T) {
	f := setUp(t, store.Options{})
	cause := make(chan error)
	var once sync.Once
	startLoop(t, longLeases{Elector: f.All}, func(fetch context.Context) error {
		once.Do(func() {
			execute(t, f.owner, `UPDATE loops SET holder = 'another'`)
			<-fetch.Done()
			cause <- context.Cause(fetch)
		})
		return nil
	})
	if err := waittest.Receive(t, cause, "the end of a round that lost leadership"); errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
