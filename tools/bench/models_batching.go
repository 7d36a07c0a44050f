package main

// This file measures what batching across requests saves: many callers with one text each, at a
// server that gathers their texts into batches and at one that runs every text alone. The other
// costs of a request are the same for both.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/schema/wire"
)

// oneText is a kind of request with one text, the i-th.
type oneText struct {
	what, graph string
	do          func(ctx context.Context, b *modelInstallation, i int) error
	// target is by how much batching must increase the texts per second; 0: no target.
	target float64
}

// oneTexts returns the kinds of requests that are measured.
func (c *modelsCommand) oneTexts(b *modelInstallation, t *modelTexts) []oneText {
	score := func(texts []string) func(context.Context, *modelInstallation, int) error {
		return func(ctx context.Context, b *modelInstallation, i int) error {
			_, _, err := b.client.Score(ctx, wire.LaneBulk, t.questions[i%7], texts[i%len(texts):][:1], false)
			return err
		}
	}
	all := []oneText{{"encode a passage", "encoder", func(ctx context.Context, b *modelInstallation, i int) error {
		_, _, err := b.client.Encode(ctx, wire.LaneBulk, t.passages[i%len(t.passages):][:1])
		return err
	}, 3}}
	if b.can(wire.OpScore) {
		all = append(all, oneText{"score a passage", "pair", score(t.passages), 3}, oneText{"score a sentence", "pair", score(t.sentences), 0})
	}
	return all
}

// batching compares a server with batching and one without under the same load.
func (c *modelsCommand) batching(ctx context.Context, b *modelInstallation, t *modelTexts, f *findings, row func(string, func() error)) (err error) {
	alone, err := newModelInstallation(ctx, c.Program, c.Pack, "--batch=1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.close()) }()
	for _, one := range c.oneTexts(b, t) {
		row(one.what, func() error { return c.batchingOne(ctx, b, alone, one, f) })
	}
	return nil
}

func (c *modelsCommand) batchingOne(ctx context.Context, batched, alone *modelInstallation, one oneText, f *findings) error {
	const (
		many = iota
		each
		single
	)
	// By side and round: milliseconds of processor time and of graph runs per text, and texts per
	// run.
	var processor, running, shared [3][]float64
	counted := func(of int, b *modelInstallation, callers int) func(context.Context, int) (float64, time.Duration, error) {
		return func(ctx context.Context, _ int) (float64, time.Duration, error) {
			before, err := b.snapshot(ctx)
			if err != nil {
				return 0, 0, err
			}
			var done atomic.Int64
			begin := time.Now()
			err = together(ctx, callers, c.Window, func(ctx context.Context, i int) error {
				defer done.Add(1)
				return one.do(ctx, b, i)
			})
			took := time.Since(begin)
			now, snapshotErr := b.snapshot(ctx)
			texts := float64(done.Load())
			processor[of] = append(processor[of], (now.cpu-before.cpu)/texts*1000)
			running[of] = append(running[of], (now.running[one.graph]-before.running[one.graph])/texts*1000)
			shared[of] = append(shared[of], texts/max(1, now.runs[one.graph]-before.runs[one.graph]))
			return texts, took, errors.Join(err, snapshotErr)
		}
	}
	rates, err := rounds(ctx, c.Rounds, side{"batches", counted(many, batched, callers)},
		side{"a text a run", counted(each, alone, callers)}, side{"one caller", counted(single, batched, 1)})
	if err != nil {
		return err
	}
	f.compare(ratio{What: fmt.Sprintf("%s, %d callers: batches", one.what, callers), Unit: "texts/s",
		Ours: rates[many], Other: rates[each], Against: "a text a run", Target: one.target})
	f.compare(ratio{What: one.what + ", the server's CPU time", Unit: "ms", Ours: processor[many], Other: processor[each], Against: "a text a run"})
	f.compare(ratio{What: one.what + ", the graph's runs", Unit: "ms", Ours: running[many], Other: running[each], Against: "a text a run"})
	f.note(one.what+", texts of a run", "%.1f, and %.1f with a text a run", median(shared[many]), median(shared[each]))
	f.note(one.what+", one caller after another", "%.0f texts/s, %.2f ms of the server's CPU each", median(rates[single]), median(processor[single]))
	return nil
}
