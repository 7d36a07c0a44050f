package main

// This file asks the questions of a funnel measurement in groups, prints interim results after each
// group, and finally compares the funnels with the flat side. If there are several funnels, the
// fastest one whose recall is high enough is chosen on every other group, and compared on the
// remaining groups, because a choice is biased towards the data that it was made on.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// answered is the rank up to which an answer counts.
const answered = 4

// maxRecallLoss is how much lower than the flat side's a funnel's answer recall may be.
const maxRecallLoss = 0.01

// funnelGroup has the results of one side for a group of questions.
type funnelGroup struct {
	millis        []float64 // by question
	tokens        []float64 // tokens that models read, by question
	first, recall float64   // answer recall at 1, and at the rank answered
	hit           float64
	stages        map[string]float64 // median milliseconds
}

// funnelAsked has the results of all sides.
type funnelAsked struct {
	settings []funnelSetting
	plans    []string // names of the shipped plans
	flat     int
	scan     []float64
	groups   []map[string]funnelGroup // by side
	order    map[string][]string      // stages of each plan, in order
}

// sides returns the names of all sides, the flat one first.
func (a *funnelAsked) sides() []string {
	names := []string{flatSide}
	for _, s := range a.settings {
		names = append(names, s.plan())
	}
	return append(names, a.plans...)
}

// ask makes all sides search for a number of the dataset's questions, in groups.
func (a *funnelAsked) ask(ctx context.Context, dataset *evaluate.Dataset, sides *funnelSides, groups, questions int, seed uint64) error {
	if len(dataset.Queries) == 0 {
		return errors.New("the dataset has no questions")
	}
	if len(a.settings) > 1 {
		groups *= 2
	}
	names := a.sides()
	sides.took, sides.tokens = map[string][]float64{}, map[string][]float64{}
	for _, warm := range names {
		if _, err := sides.Search(ctx, warm, dataset.Queries[0], 10, 0); err != nil {
			return err
		}
	}
	sides.scan = nil
	a.order = map[string][]string{}
	done := 0
	all := drawn(dataset.Queries, questions, seed)
	for group := range groups {
		part := *dataset
		part.Queries = all[len(all)*group/groups : len(all)*(group+1)/groups]
		if len(part.Queries) == 0 {
			continue
		}
		sides.took, sides.tokens = map[string][]float64{}, map[string][]float64{}
		// The side that begins also changes with every group.
		results, err := evaluate.Run(ctx, &part, sides, evaluate.Options{Plans: slices.Concat(names[group%len(names):], names[:group%len(names)]), Seed: seed, Parallel: 1})
		if err != nil {
			return fmt.Errorf("after %d of %d questions: %w", done, len(all), err)
		}
		if err := a.add(results, sides.took, sides.tokens); err != nil {
			return err
		}
		a.scan = sides.scan
		done += len(part.Queries)
		a.printProgress(done, len(all))
	}
	return nil
}

// drawn returns up to limit questions in random order, so that any part of them is representative.
func drawn(all []evaluate.Topic, limit int, seed uint64) []evaluate.Topic {
	out := slices.Clone(all)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	if limit > 0 && limit < len(out) {
		out = out[:limit]
	}
	return out
}

// add adds the results of a group.
func (a *funnelAsked) add(results *evaluate.Results, took, tokens map[string][]float64) error {
	group := map[string]funnelGroup{}
	for _, p := range results.Summary().Plans {
		recall, known := p.Metrics[fmt.Sprintf("ar@%d", answered)]
		if !known {
			return errors.New("the dataset's questions have no answers (metadata.answers), so there is no answer recall")
		}
		g := funnelGroup{millis: took[p.Plan], tokens: tokens[p.Plan], first: p.Metrics["ar@1"], recall: recall, hit: p.Metrics["hit@1"], stages: map[string]float64{}}
		for _, s := range p.Stages {
			g.stages[s.Stage] = s.P50
			if !slices.Contains(a.order[p.Plan], s.Stage) {
				a.order[p.Plan] = append(a.order[p.Plan], s.Stage)
			}
		}
		group[p.Plan] = g
	}
	a.groups = append(a.groups, group)
	return nil
}

// printProgress prints the interim results.
func (a *funnelAsked) printProgress(done, total int) {
	all := funnelSeen(a.groups)
	progressf("funnel: %d of %d questions: %s", done, total, all.of(flatSide))
	for _, name := range a.sides()[1:] {
		progressf("funnel:   %s, %.2f of the time", all.of(name), all.time(name)/all.time(flatSide))
	}
}

// funnelSeen are the results of some groups, by side.
type funnelSeen []map[string]funnelGroup

// mean returns the mean of a figure over all questions of a side.
func (f funnelSeen) mean(side string, of func(funnelGroup) float64) float64 {
	sum, questions := 0.0, 0.0
	for _, g := range f {
		n := float64(len(g[side].millis))
		sum, questions = sum+n*of(g[side]), questions+n
	}
	return sum / max(questions, 1)
}

func (f funnelSeen) recall(side string) float64 {
	return f.mean(side, func(g funnelGroup) float64 { return g.recall })
}

func (f funnelSeen) time(side string) float64 {
	return f.mean(side, func(g funnelGroup) float64 { return meanOf(g.millis) })
}

// times returns a side's mean times, by group.
func (f funnelSeen) times(side string) []float64 {
	var out []float64
	for _, g := range f {
		out = append(out, meanOf(g[side].millis))
	}
	return out
}

// millis returns the times of all questions of a side.
func (f funnelSeen) millis(side string) []float64 {
	var out []float64
	for _, g := range f {
		out = append(out, g[side].millis...)
	}
	return out
}

// read returns the mean number of tokens that models read per question of a side, by group.
func (f funnelSeen) read(side string) []float64 {
	var out []float64
	for _, g := range f {
		out = append(out, meanOf(g[side].tokens))
	}
	return out
}

func meanOf(all []float64) float64 {
	sum := 0.0
	for _, m := range all {
		sum += m
	}
	return sum / float64(max(len(all), 1))
}

// of describes a side's results.
func (f funnelSeen) of(side string) string {
	all := f.millis(side)
	return fmt.Sprintf("%s: answer recall at 1 and %d: %.3f, %.3f; hit at 1 %.3f; %.0f ms at the median, %.0f at the 95th percentile, "+
		"%.0f on average", side, answered,
		f.mean(side, func(g funnelGroup) float64 { return g.first }), f.recall(side), f.mean(side, func(g funnelGroup) float64 { return g.hit }),
		quantile(all, 0.5), quantile(all, 0.95), f.time(side))
}

// choose returns the fastest setting whose recall is high enough, or else the one with the highest
// recall.
func (f funnelSeen) choose(settings []funnelSetting) funnelSetting {
	wantRecall := f.recall(flatSide) - maxRecallLoss
	return slices.MinFunc(settings, func(one, two funnelSetting) int {
		a, b := f.recall(one.plan()), f.recall(two.plan())
		switch {
		case a >= wantRecall && b >= wantRecall:
			return cmp.Compare(f.time(one.plan()), f.time(two.plan()))
		default:
			return cmp.Compare(b, a)
		}
	})
}

// conclude compares times and answer recall. It returns an error if no group was asked.
func (a *funnelAsked) conclude(f *findings) error {
	if len(a.groups) == 0 {
		return nil
	}
	compared, chosen := funnelSeen(a.groups), a.settings[0]
	if len(a.settings) > 1 {
		var choosing, other funnelSeen
		for i, g := range a.groups {
			if i%2 == 0 {
				choosing = append(choosing, g)
			} else {
				other = append(other, g)
			}
		}
		chosen = choosing.choose(a.settings)
		for _, name := range a.sides() {
			f.note("half to choose on", "%s", choosing.of(name))
		}
		why := "the fastest within a point of the flat side's recall there"
		if choosing.recall(chosen.plan()) < choosing.recall(flatSide)-maxRecallLoss {
			why = "none is within a point of the flat side's recall there; it comes nearest"
		}
		f.note("chosen", "%s: %s", chosen, why)
		if compared = other; len(other) == 0 {
			return nil
		}
	}
	for _, name := range a.sides() {
		f.note("compared", "%s", compared.of(name))
		var stages []string
		for _, stage := range a.order[name] {
			var p50 []float64
			for _, g := range compared {
				p50 = append(p50, g[name].stages[stage])
			}
			stages = append(stages, fmt.Sprintf("%s %.1f", stage, median(p50)))
		}
		if len(stages) > 0 {
			f.note(name+", stages", "ms at the median: %s", strings.Join(stages, ", "))
		}
	}
	f.note("a funnel", "clusters/sections/passages read; flat: %d passages read", a.flat)
	f.note("of a flat question", "comparing all vectors, exactly, on all cores: %.0f ms", median(a.scan))
	questions, flat := len(compared.millis(flatSide)), compared.recall(flatSide)
	for _, s := range a.settings {
		time := ratio{What: "time per question, hybrid funnel " + s.String(), Unit: "ms", Ours: compared.times(s.plan()), Other: compared.times(flatSide), Against: flatSide, AtMost: true}
		recall := ratio{What: fmt.Sprintf("answer recall at %d, of %d questions, hybrid funnel %s", answered, questions, s), Unit: "share",
			Ours: []float64{compared.recall(s.plan())}, Other: []float64{flat}, Against: flatSide}
		if s == chosen {
			time.Target, recall.Target = 0.6, 1-maxRecallLoss/max(flat, maxRecallLoss)
		}
		f.compare(time)
		f.compare(recall)
		f.compare(a.read(compared, "hybrid funnel "+s.String(), s.plan()))
	}
	for _, name := range a.plans {
		f.compare(ratio{What: "time per question, plan " + name, Unit: "ms", Ours: compared.times(name), Other: compared.times(flatSide), Against: flatSide, AtMost: true})
		f.compare(ratio{What: fmt.Sprintf("answer recall at %d, of %d questions, plan %s", answered, questions, name), Unit: "share",
			Ours: []float64{compared.recall(name)}, Other: []float64{flat}, Against: flatSide})
		f.compare(a.read(compared, "plan "+name, name))
	}
	return nil
}

// read compares the tokens that models read.
func (a *funnelAsked) read(seen funnelSeen, what, side string) ratio {
	return ratio{What: "tokens read by models per question, " + what, Unit: "tokens", Ours: seen.read(side), Other: seen.read(flatSide), Against: flatSide, AtMost: true}
}
