package stage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/schema/wire"
)

// What the stage judge can ask a language model for.
const (
	byCritique = "critique" // relevance, reflection and critic, of equal weight (ChunkRAG)
	byFilter   = "filter"   // 1 or 0 (SAKI-RAG)
)

type judge struct {
	by              string
	depth           int
	batch, parallel int
	least           float64
}

var judgeKind = Kind{
	Name:       "judge",
	Parameters: "`by` (critique, or relevance, filter), `depth` (20), `batch` (5), `parallel` (4), `least` (0)",
	Does:       "a language model judges the first `depth`: three times (ChunkRAG), once, or by 1 and 0 (SAKI-RAG). What it fails at keeps its place",
	read:       readJudge,
}

// readJudge reads the stage "judge":
//
//	judge: {by: critique, depth: 20, batch: 5, parallel: 4, least: 0}
//
// A language model judges the first depth candidates, batch per request and parallel requests at a
// time. critique is ChunkRAG's judgement (Algorithm 1, lines 12 to 17): the relevance of each
// candidate, from 0 to 1, a reflection on that judgement, and a critic of both; the score is their
// mean. relevance asks for the first only, filter for 1 or 0 (SAKI-RAG, Algorithm 1). Candidates
// are ranked by the score, ties in their previous order. Those that score below least are dropped,
// and so are the others, which were not judged; with least 0 these follow.
//
// The candidates of a request that fails keep their ranks: they have no score of this stage, so
// that a threshold keeps them. The report says why.
func readJudge(p *Parameters) Stage {
	s := judge{by: p.Choice("by", byCritique, byRelevance, byFilter), depth: p.Int("depth", 20, 1, 100),
		batch: p.Int("batch", 5, 1, 20), parallel: p.Int("parallel", 4, 1, 16), least: p.number("least", 0, 0, 1)}
	return Stage{Fit: fitReading, Scores: []string{"judge"}, Cost: Cost{Calls: (s.depth + s.batch - 1) / s.batch * len(s.tasks())}, run: s.run}
}

// tasks returns the tasks in the order in which they are asked; each gets the earlier judgements.
func (s judge) tasks() []wire.LLMTask {
	switch s.by {
	case byFilter:
		return []wire.LLMTask{wire.TaskFilter}
	case byRelevance:
		return []wire.LLMTask{wire.TaskRelevance}
	}
	return []wire.LLMTask{wire.TaskRelevance, wire.TaskReflect, wire.TaskCritic}
}

func (s judge) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	out := outcome{unit: in.unit, items: in.items, why: "nothing to judge"}
	if len(in.items) == 0 {
		return out, nil
	}
	head, tail := cut(in.items, s.depth)
	shown, err := t.views(ctx, head, in.unit)
	if err != nil {
		return outcome{}, err
	}
	var items []item
	var passages []wire.LLMPassage
	var versions [][]uuid.UUID // of each passage
	for i, v := range shown {
		if v.empty() {
			out.dropped = append(out.dropped, judged{head[i], noTextReason})
			continue
		}
		items = append(items, head[i])
		passages = append(passages, wire.LLMPassage{Title: v[0].found.Title, Headings: v[0].found.Section.HeadingPath, Text: v.text()})
		var of []uuid.UUID
		for _, p := range v {
			of = append(of, p.ref.Version)
		}
		versions = append(versions, of)
	}
	models, failures := s.ask(ctx, t, passages, versions)
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("judge %d candidates: %w", len(passages), ctx.Err())
	}
	unjudged := map[int]item{} // by index in items
	for i, c := range items {
		if failures[i/s.batch] != nil {
			unjudged[i] = c
		}
	}
	var failed error
	for _, err := range failures {
		if failed == nil {
			failed = err
		}
	}
	if len(unjudged) == len(items) && failed != nil {
		out.dropped, out.why = nil, "not judged: "+failed.Error()
		return out, nil
	}
	out.items = nil
	for i, c := range items {
		if _, is := unjudged[i]; is {
			continue
		}
		sum := 0.0
		for _, x := range passages[i].Judged {
			sum += x
		}
		c = c.scored("judge", sum/float64(len(passages[i].Judged)))
		if c.score < s.least {
			out.dropped = append(out.dropped, judged{c, fmt.Sprintf("judged %.3f, less than %g", c.score, s.least)})
			continue
		}
		out.items = append(out.items, c)
	}
	slices.SortStableFunc(out.items, func(a, b item) int { return cmp.Compare(b.score, a.score) })
	out.why = join(fmt.Sprintf("%s of %d candidates%s", s.by, len(items)-len(unjudged), by(models)), spread(out.items, "judge"))
	if failed != nil {
		out.why = join(out.why, fmt.Sprintf("%d not judged keep their places: %v", len(unjudged), failed))
	}
	out.items = mergeUnjudged(out.items, unjudged)
	if s.least == 0 {
		out.items = append(out.items, scoreUnread(out.items, head, tail, "judge")...)
	} else {
		out.dropped = append(out.dropped, drop(tail, fmt.Sprintf("not judged: below rank %d", s.depth))...)
	}
	return out, nil
}

// mergeUnjudged inserts candidates that were not judged into the ranking of those that were: each
// at its previous rank, or at the end. Its own score has another scale, so it gets the score of the
// candidate before it, or else of the one after it.
func mergeUnjudged(ranked []item, unjudged map[int]item) []item {
	out := make([]item, 0, len(ranked)+len(unjudged))
	for i, left := 0, len(unjudged); len(ranked)+left > 0; i++ {
		c, is := unjudged[i]
		switch {
		case is && len(out) > 0:
			c.score = out[len(out)-1].score
		case is && len(ranked) > 0:
			c.score = ranked[0].score
		case !is && len(ranked) == 0:
			continue // the rank of one that was dropped
		case !is:
			c, ranked = ranked[0], ranked[1:]
		}
		if is {
			left--
		}
		out = append(out, c)
	}
	return out
}

// ask adds to every passage what the tasks say about it, and returns the model's name. A request
// that fails affects its batch only. versions[i] are the versions that the text of passage i is
// from.
func (s judge) ask(ctx context.Context, t *Task, passages []wire.LLMPassage, versions [][]uuid.UUID) (model string, failures []error) {
	var mu sync.Mutex
	var all errgroup.Group // each keeps its own error
	all.SetLimit(s.parallel)
	failures = make([]error, (len(passages)+s.batch-1)/s.batch)
	for item := range failures {
		batch := passages[item*s.batch : min((item+1)*s.batch, len(passages))]
		of := slices.Concat(versions[item*s.batch : item*s.batch+len(batch)]...)
		all.Go(func() error {
			for _, task := range s.tasks() {
				reply, err := t.complete(ctx, wire.LLMRequest{Task: task, Passages: slices.Clone(batch), Versions: of}, item)
				if err == nil && len(reply.Scores) != len(batch) {
					err = fmt.Errorf("%d judgements of %d candidates", len(reply.Scores), len(batch))
				}
				if err != nil {
					failures[item] = err
					return nil
				}
				for i, x := range reply.Scores {
					batch[i].Judged = append(slices.Clip(batch[i].Judged), x)
				}
				mu.Lock()
				model = reply.Usage.Model
				mu.Unlock()
			}
			return nil
		})
	}
	_ = all.Wait() // none of them returns an error
	return model, failures
}
