package stage

// The stage "skip-retrieval": whether the language model knows enough by itself.

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

type skipRetrieval struct {
	sl, sn float64
	delta  Threshold
	k      int
	always bool
}

var skipRetrievalKind = Kind{
	Name:       "skip-retrieval",
	Parameters: "`s_l` (0.04), `s_n` (0.67), `delta` (calibrated, or a logit), `k` (10), `always` (false)",
	Does:       "selects: nothing, where the language model is known to know enough (FIT-RAG, eq. 14); all otherwise. After `score`; with `always: true` nothing, whatever is known, and no `score` is needed",
	Selects:    true,
	Skips:      true,
	read:       readSkipRetrieval,
}

// readSkipRetrieval reads the stage "skip-retrieval":
//
//	skip-retrieval: {s_l: 0.04, s_n: 0.67, delta: calibrated, k: 10}
//
// FIT-RAG's self-knowledge recogniser (section 4.3, eq. 12 to 14). The question is answered without
// retrieval if S_ltod is above s_l and S_nn is above s_n. S_ltod is the share of the candidates
// whose has_answer is above delta. S_nn is the share of the tenant's k nearest answered questions
// that were right without retrieval; questions not known to be right count as wrong, and so do
// missing ones if there are fewer than k. delta is a logit of the paper's model (4.5); calibrated
// is the pack's equivalent.
//
// always: true skips retrieval without this test. It is the baseline without retrieval: what the
// model does not know has no answer.
//
// The stage comes after score, whose has_answer it reads, and is a selecting stage: the ranking
// stays. It asks for the answer at once: if the language model has none, or the provider cannot
// answer without text, the candidates are still there to answer from.
func readSkipRetrieval(p *Parameters) Stage {
	s := skipRetrieval{sl: p.number("s_l", 0.04, 0, 1), sn: p.number("s_n", 0.67, 0, 1),
		delta: p.Threshold("delta", byHasAnswer, Threshold{Calibrated: byHasAnswer}, -1e6, 1e6), k: p.Int("k", 10, 1, 1000), always: p.bool("always")}
	if s.always {
		return Stage{Fit: fitSelection, run: s.run}
	}
	return Stage{Fit: fitSelection, Reads: byHasAnswer, run: s.run}
}

func (s skipRetrieval) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	out := outcome{unit: in.unit, items: in.items}
	if s.always {
		return s.skip(ctx, t, in, out)
	}
	delta, err := t.resolve(ctx, "delta", s.delta)
	if err != nil {
		return outcome{}, err
	}
	common, read := 0, 0
	for _, c := range in.items {
		if x, ok := c.scores.of(byHasAnswer); ok {
			read++
			if x > delta {
				common++
			}
		}
	}
	ltod := share(common, read)
	out.why = fmt.Sprintf("S_ltod %.3f: %d of %d candidates above %.3f", ltod, common, read, delta)
	if ltod <= s.sl {
		out.why += fmt.Sprintf("; not above %g, so what was found is needed", s.sl)
		return out, nil
	}
	right, known, err := s.neighbours(ctx, t)
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("read earlier questions: %w", ctx.Err())
	}
	if err != nil {
		out.why += "; earlier questions cannot be read: " + schema.ToRemote(err).Message
		return out, nil
	}
	nn := share(right, s.k)
	out.why += fmt.Sprintf("; S_nn %.3f: %d of the %d nearest questions right without retrieval, %d are known", nn, right, s.k, known)
	if nn <= s.sn {
		out.why += fmt.Sprintf("; not above %g, so what was found is needed", s.sn)
		return out, nil
	}
	return s.skip(ctx, t, in, out)
}

// skip drops all candidates if the language model can answer without them.
func (s skipRetrieval) skip(ctx context.Context, t *Task, in Candidates, out outcome) (outcome, error) {
	addReason := func(why string) {
		if out.why != "" {
			out.why += "; "
		}
		out.why += why
	}
	if t.query.Question == uuid.Nil {
		addReason("the question would be answered without retrieval")
		return out, nil
	}
	model, err := t.answerWithoutRetrieval(ctx)
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("ask for an answer without retrieval: %w", ctx.Err())
	}
	if err != nil {
		addReason("but there is no answer without retrieval: " + schema.ToRemote(err).Message)
		if s.always {
			out.items, out.dropped = nil, drop(in.items, "the plan answers without it")
		}
		return out, nil
	}
	t.Skipped = true
	out.items, out.dropped = nil, drop(in.items, "the question is answered without it")
	addReason("answered without retrieval" + by(model))
	return out, nil
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// neighbours counts the nearest answered questions that were right without retrieval, and all that
// were found.
func (s skipRetrieval) neighbours(ctx context.Context, t *Task) (right, known int, err error) {
	if t.History == nil {
		return 0, 0, nil
	}
	// Answered questions have vectors of the first encoder, even if the collection has those of the
	// second.
	var vector []float32
	var space string
	if t.state.Second {
		vector, space, err = t.encodeWith(ctx, t.Model)
	} else {
		err = t.encode(ctx)
		vector, space = t.vector, t.space
	}
	if err != nil || vector == nil {
		return 0, 0, err
	}
	model, err := t.answerModelName(ctx)
	if err != nil { // imported questions are of one model, so none of them counts then
		model = ""
	}
	all, err := t.History.Known(ctx, t.query.Principal, space, vector, model, s.k)
	for _, ok := range all {
		if ok {
			right++
		}
	}
	return right, len(all), err
}

// answerWithoutRetrieval asks for the answer without retrieval. It uses the step under which
// package answer looks the reply up.
func (t *Task) answerWithoutRetrieval(ctx context.Context) (model string, err error) {
	if t.Judges == nil {
		return "", &schema.RemoteError{Code: schema.CodeUnavailable, Message: "no language model is configured"}
	}
	r := wire.LLMRequest{Envelope: wire.Header(), Tenant: t.query.Principal.Tenant, Task: wire.TaskBackground, Question: t.asked,
		Step: wire.Step{Question: t.query.Question, Round: 1, Step: string(wire.TaskBackground)}}
	r.Deadline, _ = ctx.Deadline()
	reply, err := t.Judges.Complete(ctx, r)
	if err == nil && reply.Text == "" {
		err = &schema.RemoteError{Code: schema.CodeNotFound, Message: "the language model does not know the answer"}
	}
	return reply.Usage.Model, err
}
