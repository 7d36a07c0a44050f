package main

// This file compares sides by alternating between them in one run, so that other activity on the
// machine affects all of them alike.

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// side is one of the things that are compared. Its measure does the same work in every round and
// returns the amount of work and the time it took.
type side struct {
	name    string
	measure func(ctx context.Context, round int) (amount float64, took time.Duration, err error)
}

// rounds measures the sides one after another, count times. It returns rates, amounts per second,
// by side and round. Every other round is in reverse order, because a later side finds warmer or
// dirtier caches.
func rounds(ctx context.Context, count int, sides ...side) ([][]float64, error) {
	out := make([][]float64, len(sides))
	for round := range count {
		order := make([]int, len(sides))
		for i := range order {
			order[i] = i
		}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, i := range order {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("round %d of %s: %w", round+1, sides[i].name, context.Cause(ctx))
			}
			amount, took, err := sides[i].measure(ctx, round)
			if err != nil {
				return nil, fmt.Errorf("round %d of %s: %w", round+1, sides[i].name, err)
			}
			if took <= 0 || amount <= 0 {
				return nil, fmt.Errorf("round %d of %s: %g in %s is nothing to measure", round+1, sides[i].name, amount, took)
			}
			out[i] = append(out[i], amount/took.Seconds())
		}
	}
	return out, nil
}

// queryRounds returns a side that asks queries, each at most once per round and callers at a time,
// and counts them. It stops after the time limit, so that a slow side asks fewer. The next round
// goes on in the list where the last one stopped.
func queryRounds[Q any](name string, queries []Q, callers int, limit time.Duration, ask func(ctx context.Context, q Q) error) side {
	from := 0
	return side{name, func(ctx context.Context, _ int) (float64, time.Duration, error) {
		begin := time.Now()
		var next, asked atomic.Int64
		all, ctx := errgroup.WithContext(ctx)
		for range callers {
			all.Go(func() error {
				for {
					i := int(next.Add(1)) - 1
					if i >= len(queries) || i >= callers && time.Since(begin) > limit {
						return nil
					}
					if err := ask(ctx, queries[(from+i)%len(queries)]); err != nil {
						return err
					}
					asked.Add(1)
				}
			})
		}
		err := all.Wait()
		from += int(asked.Load())
		return float64(asked.Load()), time.Since(begin), err
	}}
}

// quantile returns the value below which the share q of the values lies, by linear interpolation.
// There must be at least one value.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// millis converts durations to milliseconds.
func millis(times []time.Duration) []float64 {
	out := make([]float64, len(times))
	for i, t := range times {
		out[i] = t.Seconds() * 1000
	}
	return out
}
