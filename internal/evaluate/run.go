package evaluate

// This file asks every question under every plan.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/schema"
)

// Options are the options of a run.
type Options struct {
	Plans    []string
	Limit    int    // questions, drawn at random with Seed; 0: all
	Seed     uint64 // of the draw
	Parallel int    // concurrent questions, at least 1
	Cutoffs  []int  // additional cutoffs k
	// Answerer answers every question, and the answers are measured, too; nil: there are no
	// answers.
	Answerer Answerer
	// Judge judges the answers; nil: they are not judged. HumanLabels are the dataset's labels that
	// it is compared with, besides those by the right answers.
	Judge       Judge
	HumanLabels HumanLabels
	Prices      Prices // of tokens, for answers that do not state their cost
	// Kept has the results of earlier runs, and stores those of this one; nil: nothing is stored.
	Kept QuestionCache
	// Progress is called after each question; calls are not concurrent.
	Progress func(done, total int)
}

// Check returns an error if the options are invalid.
func (o Options) Check() error {
	seen := map[string]bool{}
	for _, p := range o.Plans {
		if seen[p] {
			return schema.Invalid("plan", "%q is named twice", p)
		}
		seen[p] = true
	}
	switch {
	case len(o.Plans) == 0:
		return schema.Invalid("plan", "name at least one")
	case o.Limit < 0:
		return schema.Invalid("limit", "must be 0, for all, or more")
	case o.Parallel < 1:
		return schema.Invalid("parallel", "must be at least 1")
	case slices.ContainsFunc(o.Cutoffs, func(k int) bool { return k < 1 || k > 1000 }):
		return schema.Invalid("k", "must be from 1 to 1000")
	case o.Judge != nil && o.Answerer == nil:
		return schema.Invalid("judge", "judges answers, and no answers are asked for: add --answers")
	case !(o.Prices.Input >= 0 && o.Prices.Output >= 0):
		return schema.Invalid("price", "must be 0 or more")
	}
	return nil
}

// Results are the results of every question under every plan.
type Results struct {
	// Failed is the number of documents that could not be ingested. The caller sets it.
	Failed int
	// Segmentations has the segmentation of the documents that each plan searched. The caller sets
	// it.
	Segmentations map[string]string

	dataset *Dataset
	options Options
	queries []judged
	names   []string // of the measures
	plans   []*planResults
}

type planResults struct {
	name      string
	values    [][]float64 // by measure, then question
	millis    []float64   // by question
	first     []int       // rank of the first relevant document by question; 0: none found, unranked: none known
	stages    [][]stageTime
	answers   []*answerObservation // by question; empty if there is no Answerer
	answering []float64            // milliseconds by question; empty if there is no Answerer
	refusals  atomic.Int32         // consecutive failed answers
	unjudged  atomic.Int32         // consecutive failed judgements
}

// unranked is the rank of the first relevant document if none is known.
const unranked = -1

type stageTime struct {
	name   string
	millis float64
}

// Run asks every question under all plans, one after the other, before the next question, so that
// disturbances of the machine affect all plans alike. The plans take turns at being first, so that
// what one plan's search leaves in caches helps all alike.
func Run(ctx context.Context, d *Dataset, s Searcher, o Options) (*Results, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	all := measures(o.Cutoffs)
	if o.Answerer != nil {
		all = append(all, answerMeasures...)
	}
	r := &Results{dataset: d, options: o, queries: judge(d.Draw(o.Limit, o.Seed, o.Answerer != nil)), plans: make([]*planResults, len(o.Plans))}
	for _, m := range all {
		r.names = append(r.names, m.name)
	}
	n := len(r.queries)
	for i := range r.plans {
		r.plans[i] = &planResults{name: o.Plans[i], values: make([][]float64, len(all)), millis: make([]float64, n), first: make([]int, n), stages: make([][]stageTime, n)}
		for m := range all {
			r.plans[i].values[m] = make([]float64, n)
		}
		if o.Answerer != nil {
			r.plans[i].answers, r.plans[i].answering = make([]*answerObservation, n), make([]float64, n)
		}
	}
	return r, r.ask(ctx, s, all)
}

// Draw draws limit questions, or takes all if limit is 0, in the order of the dataset. With
// answers, the unanswerable questions are included.
func (d *Dataset) Draw(limit int, seed uint64, answers bool) []Topic {
	queries := d.Queries
	if answers {
		queries = slices.Concat(queries, d.Unanswerable)
	}
	if limit <= 0 || limit >= len(queries) {
		return queries
	}
	chosen := make([]int, len(queries))
	for i := range chosen {
		chosen[i] = i
	}
	random := rand.New(rand.NewPCG(seed, seed))
	random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	chosen = chosen[:limit]
	slices.Sort(chosen)
	out := make([]Topic, limit)
	for i, c := range chosen {
		out[i] = queries[c]
	}
	return out
}

// judge prepares questions for comparison.
func judge(questions []Topic) []judged {
	out := make([]judged, len(questions))
	for i, q := range questions {
		out[i] = judged{Topic: q, answers: answerTokens(q.Answers), evidence: evidenceSentences(q.Evidence), golds: golds(q.Answers)}
		out[i].right = rightChoices(q.Choices, q.Answers)
	}
	return out
}

func (r *Results) ask(ctx context.Context, s Searcher, all []measure) error {
	group, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{}, r.options.Parallel)
	next := make(chan int)
	group.Go(func() error {
		defer close(next)
		for q := range r.queries {
			select {
			case next <- q:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for range r.options.Parallel {
		group.Go(func() error {
			for q := range next {
				if err := r.askOne(ctx, s, all, q); err != nil {
					return err
				}
				done <- struct{}{}
			}
			return nil
		})
	}
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		n := 0
		for range done {
			n++
			if r.options.Progress != nil {
				r.options.Progress(n, len(r.queries))
			}
		}
	}()
	err := group.Wait()
	close(done)
	<-reported
	return err
}

// askOne asks one question under every plan.
func (r *Results) askOne(ctx context.Context, s Searcher, all []measure, q int) error {
	query := &r.queries[q]
	for turn := range r.plans {
		plan := r.plans[(q+turn)%len(r.plans)]
		if r.options.Kept != nil {
			if was, ok := r.options.Kept.Find(plan.name, query.Topic); ok {
				r.restore(plan, q, was)
				continue
			}
		}
		answer, err := r.answer(ctx, plan, q)
		if err != nil {
			return r.failed(plan, query, err)
		}
		want := breadth(r.options.Cutoffs)
		found, err := s.Search(ctx, plan.name, query.Topic, depth(r.options.Cutoffs), want)
		if err == nil && want > 0 && len(found.Context) >= want {
			err = fmt.Errorf("the context may be longer than the %d passages that a cutoff above %d asks for: leave such cutoffs out", want, slices.Max(answerCutoffs))
		}
		if err != nil {
			return r.failed(plan, query, err)
		}
		o := observe(query, &found)
		o.answer = answer
		for m, measure := range all {
			plan.values[m][q] = measure.of(&o)
		}
		plan.millis[q], plan.first[q] = found.Millis, unranked
		if o.judged() {
			plan.first[q] = o.firstRelevant()
		}
		plan.stages[q] = stageTimes(found.Stages)
		if r.options.Kept != nil {
			if err := r.options.Kept.Keep(plan.name, query.Topic, r.figures(plan, q)); err != nil {
				return r.failed(plan, query, err)
			}
		}
	}
	return nil
}

func (r *Results) failed(plan *planResults, query *judged, err error) error {
	return fmt.Errorf("plan %s, question %s (%.80q): %w", cmp.Or(plan.name, "(default)"), query.ID, query.Text, err)
}

// maxFailures is how many consecutive failed answers of a plan end the run: the answerer is gone,
// or the budget is spent.
const maxFailures = 10

// answer has a question answered and measures the answer; nil: there is no Answerer. It runs before
// the search, so that what the search leaves in caches does not shorten the answer's time. A failed
// answer is counted.
func (r *Results) answer(ctx context.Context, plan *planResults, q int) (*answerObservation, error) {
	if r.options.Answerer == nil {
		return nil, nil
	}
	a, err := r.options.Answerer.Ask(ctx, plan.name, r.queries[q].Topic)
	switch {
	case err == nil:
		plan.refusals.Store(0)
	case ctx.Err() != nil:
		return nil, err
	case plan.refusals.Add(1) >= maxFailures:
		return nil, fmt.Errorf("the last %d answers failed: %w", maxFailures, err)
	}
	out := observeAnswer(&r.queries[q], &a, r.options.Prices)
	if err != nil {
		out.failed, out.input, out.output, out.cost, out.rounds = true, math.NaN(), math.NaN(), math.NaN(), math.NaN()
	}
	plan.answers[q], plan.answering[q] = out, a.Millis
	return out, r.judge(ctx, plan, q, out)
}

// stageTimes returns the times of stages. It numbers the repeated stages of a plan.
func stageTimes(reports []schema.StageReport) []stageTime {
	count := map[string]int{}
	out := make([]stageTime, len(reports))
	for i, s := range reports {
		name := s.Stage
		if count[name]++; count[name] > 1 {
			name = fmt.Sprintf("%s %d", name, count[name])
		}
		out[i] = stageTime{name, s.Millis}
	}
	return out
}
