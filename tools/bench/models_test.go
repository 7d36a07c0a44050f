package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
)

// TestTensorsAreOfOneLength: the texts for both runtimes have exactly the same number of tokens,
// repeat none, and differ from each other.
func TestTensorsAreOfOneLength(t *testing.T) {
	words, err := tokenizer.Load("../../models/default/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	made := newModelTexts(1)
	for _, shape := range shapes {
		texts, ids := made.exactly(words, shape[0], shape[1])
		if len(texts) != shape[0] || len(ids) != shape[0] {
			t.Fatalf("%d texts, %d rows, want %d", len(texts), len(ids), shape[0])
		}
		seen := map[string]bool{}
		for i, row := range ids {
			if _, n := words.Encode(nil, texts[i], 0); n != shape[1] || len(row) != shape[1] || seen[texts[i]] {
				t.Errorf("row %d has %d tokens, want %d others than before", i, n, shape[1])
			}
			seen[texts[i]] = true
			if distinct := slices.Compact(slices.Sorted(slices.Values(row))); len(distinct) != len(row) {
				t.Errorf("row %d repeats %d tokens", i, len(row)-len(distinct))
			}
		}
	}
}

func TestModelTextsAreAsManyAsAsked(t *testing.T) {
	made := newModelTexts(1)
	for i := range 50 {
		if runs := made.runs(i * 7919); len(runs) != 50 || len(runs[49]) != 40 {
			t.Fatalf("%d runs", len(runs))
		}
		if some, mixed := made.some(i*7919, 400), made.mixed(i*7919, 400); len(some) != 400 || len(mixed) != 400 {
			t.Fatalf("%d and %d texts", len(some), len(mixed))
		}
	}
}

func TestCallersStopAtTheEndAndAtAnError(t *testing.T) {
	var calls atomic.Int64
	if err := together(t.Context(), 3, 20*time.Millisecond, func(context.Context, int) error {
		calls.Add(1)
		return nil
	}); err != nil || calls.Load() < 3 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
	bad := errors.New("bad")
	if err := together(t.Context(), 3, time.Hour, func(context.Context, int) error { return bad }); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
}

func TestShareOfTokenising(t *testing.T) {
	before := modelSnapshot{tokenising: 1, running: map[string]float64{"encoder": 2}}
	now := modelSnapshot{tokenising: 2, running: map[string]float64{"encoder": 4, "pair": 1}}
	if got := now.tokenisingSince(before); math.Abs(got-0.25) > 1e-9 {
		t.Errorf("got %v, want a quarter", got)
	}
}
