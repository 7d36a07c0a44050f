package stage

// This file scores candidates by the preference of the language model that is to answer, if one was
// trained for it (FIT-RAG's llm_prefer).

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/preference"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// untrainedPreference says in reports that no preference was trained.
const untrainedPreference = "llm_prefer: the pack's own reader's"

// answerModel is the language model that is to answer; it is looked up once.
type answerModel struct {
	loaded bool
	model  string // provider and model; empty: not known
	err    error
}

// preferences are the trained preferences of a collection; they are looked up once.
type preferences struct {
	loaded bool
	of     []retrieval.Preference
	why    string // why none can be used; empty: none was trained
}

// answerModelName returns the name of the language model that is to answer.
func (t *Task) answerModelName(ctx context.Context) (string, error) {
	if t.answers.loaded || t.Judges == nil {
		return t.answers.model, t.answers.err
	}
	t.answers.loaded = true
	r := wire.LLMRequest{Envelope: wire.Header(), Tenant: t.query.Principal.Tenant, Task: wire.TaskWho}
	r.Deadline, _ = ctx.Deadline()
	reply, err := t.Judges.Complete(ctx, r)
	if err == nil {
		t.answers.model = reply.Usage.By()
	}
	t.answers.err = err
	return t.answers.model, err
}

// trainedPreferences returns the preferences that were trained for the language model that is to
// answer, for any graph, or why there are none.
func (t *Task) trainedPreferences(ctx context.Context) ([]retrieval.Preference, string) {
	p := &t.preferred
	if p.loaded || t.Preferences == nil {
		return p.of, p.why
	}
	p.loaded = true
	all, err := t.Preferences.Preferences(ctx, t.query.Principal, t.query.Collection)
	if err != nil {
		p.why = "the learnt preferences cannot be read: " + schema.ToRemote(err).Message
		return nil, p.why
	}
	if len(all) == 0 {
		return nil, ""
	}
	model, err := t.answerModelName(ctx)
	if err != nil {
		p.why = "the language model's name cannot be determined: " + schema.ToRemote(err).Message
		return nil, p.why
	}
	p.of = slices.DeleteFunc(all, func(one retrieval.Preference) bool { return one.Model != model })
	if len(p.of) == 0 {
		p.why = "none was learnt for " + model
	}
	return p.of, p.why
}

// ask scores texts by a graph. With prefers, llm_prefer is that of the language model, if one was
// trained, and name describes whose it is. own are the scores as the graph returns them.
func (t *Task) ask(ctx context.Context, graph string, texts []string, prefers bool) (scores, own []wire.PairScore, model, name string, err error) {
	if graph == wire.GraphReranker {
		// A question's texts are read with spans, as its answer will be. A search needs their order
		// alone: without spans the reranker gives scores that are good enough for it, in less time.
		spans := t.query.Question != uuid.Nil
		scores, model, err = t.Readers.Rerank(ctx, wire.LaneInteractive, t.query.Text, texts, spans)
		return scores, scores, model, "", err
	}
	var learnt []retrieval.Preference
	if prefers {
		var why string
		learnt, why = t.trainedPreferences(ctx)
		name = withReason(untrainedPreference, why)
	}
	if len(learnt) == 0 {
		scores, model, err = t.Readers.Score(ctx, wire.LaneInteractive, t.query.Text, texts, false)
		return scores, scores, model, name, err
	}
	read, err := t.Readers.ScoreWithFeatures(ctx, wire.LaneInteractive, t.query.Text, texts)
	if err != nil {
		return nil, nil, "", "", err
	}
	at := slices.IndexFunc(learnt, func(one retrieval.Preference) bool { return one.Of == read.Of })
	if at < 0 || read.Features.Len() != len(read.Scores) {
		return read.Scores, read.Scores, read.Model, withReason(untrainedPreference, fmt.Sprintf("what %s prefers was learnt with another pair model; `sluice train labels` learns it anew", learnt[0].Model)), nil
	}
	scores, err = applyHead(learnt[at].Head, read)
	return scores, read.Scores, read.Model, fmt.Sprintf("llm_prefer: %s's, learnt from %d questions", learnt[at].Model, learnt[at].Questions), err
}

// applyHead replaces llm_prefer by a head's logits. A text without a word keeps the lowest score.
func applyHead(head preference.Head, read wire.ScoresWithFeatures) ([]wire.PairScore, error) {
	out := slices.Clone(read.Scores)
	for i, s := range out {
		if s.HasAnswer == wire.LowestScore {
			continue
		}
		logit, err := head.Logit(preference.Vector(read.Features.Row(i), s))
		if err != nil {
			return nil, fmt.Errorf("score texts by a language model's preference: %w", err)
		}
		out[i].LLMPrefer = float32(logit)
	}
	return out, nil
}

func withReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + " (" + why + ")"
}
