package stage

// The stage "score": a model reads the question and each of the best candidates
// together. It comes after the stages that find them.

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// The scores that the stage can rank by. Each but prefer_sum is a head of the model; its logit
// becomes a score of the candidates.
const (
	byRelevance = "relevance"
	byHasAnswer = "has_answer"
	byLLMPrefer = "llm_prefer"
	byPreferSum = "prefer_sum" // FIT-RAG's bi-criteria reranker: has_answer + llm_prefer
)

const (
	// rerankDepth is how many candidates the reranker reads by default.
	rerankDepth = 10
	// maxRead is the most candidates that a model reads: the sections of FunnelRAG's 80 clusters
	// are about 800.
	maxRead = 1000
)

type score struct {
	model       string // the graph that scores
	by          string
	depth, keep int
	weight      float64
	normalise   string
	least       *Threshold
	within      float64 // largest distance to the best candidate's share of a candidate to read; 0: any
	minK        int     // how many are read whatever their distance
	pieces      int
	window      int // tokens of a piece to read; 0: all
	optional    bool
	known       bool
}

var scoreKind = Kind{
	Name:       "score",
	Parameters: "`model` (pair, or reranker), `by` (relevance, or has_answer, llm_prefer, prefer_sum), `depth` (50; of the reranker 10; 0: all, 1,000 at most), `keep` (0: all), `weight` (1), `normalise` (max, or minmax, standard, none), `least`, `within` (0: any), `min_k` (2), `pieces` (8), `window` (0: all), `known` (false), `optional` (false)",
	Does:       "a model reads the first `depth` with the question, see below",
	// After a selecting stage it ranks only the context, and with keep or least drops part of it.
	AfterSelection: true,
	read:           readScore,
}

// readScore reads the stage "score":
//
//	score: {model: pair, by: relevance, depth: 50, keep: 0, weight: 1, normalise: max, within: 0, min_k: 2, pieces: 8, window: 0, known: false, optional: false}
//
// A model reads the question with each of the first depth candidates. The model is the pair model
// or the reranker; the reranker is better and takes about ten times as long per candidate, so it
// comes after the pair model and reads the best few. A plan may have a stage of each: the
// reranker's scores have names of their own, and its default depth is 10. With depth 0 all
// candidates are read, at most 1,000. A candidate longer than the model's input is read in at most
// pieces pieces, and has the score of its best one (MaxP). A document or a cluster is read by its
// best sections, and shows its best piece from then on.
//
// With window about that many tokens of a piece are read: the sentences that have the question's
// terms, and their neighbours. With within, a candidate is not read if its share of the best score
// is lower than the best one's by more than within, except for the first min_k: the model seldom
// moves such candidates to the top.
//
// llm_prefer is that of the language model that is to answer, if one was trained for the collection
// and the stage ranks by it; else that of the pack's own reader.
//
// With weight 1 candidates are ranked by the model's logit: relevance, has_answer, llm_prefer, or
// the sum of the last two (FIT-RAG's bi-criteria reranker). With a lower weight the score is
// (1-weight) times the previous score plus weight times the model's. normalise scales both: max
// divides the previous score by the best one's and leaves the logit as it is, so that a confident
// model counts for more; minmax scales both to 0..1 over the candidates that were read, standard to
// mean 0 and deviation 1, none neither. The other candidates follow in their order, unread. keep
// drops the candidates below that rank. least, a number or calibrated, drops the candidates that
// the model scores below it and those that it did not read.
//
// After a selecting stage, only the context is ranked and thinned.
//
// With known, the weight is multiplied by the share of the question's letters in scripts that the
// model was trained on; if that is zero the model reads nothing. An optional stage is skipped if
// the model pack has no such model.
func readScore(p *Parameters) Stage {
	model, depth := p.Choice("model", wire.GraphPair, wire.GraphReranker), 50
	if model == wire.GraphReranker {
		depth = rerankDepth
	}
	s := score{model: model, by: p.Choice("by", byRelevance, byHasAnswer, byLLMPrefer, byPreferSum), depth: p.Int("depth", depth, 0, maxRead),
		keep: p.Int("keep", 0, 0, MaxDepth), weight: p.number("weight", 1, 0, 1), normalise: p.Choice("normalise", "max", "minmax", "standard", "none"),
		within: p.number("within", 0, 0, 1e6), minK: p.Int("min_k", 2, 1, maxRead), pieces: p.Int("pieces", 8, 1, maxInputs), window: p.Int("window", 0, 0, maxInputTokens), optional: p.bool("optional"), known: p.bool("known")}
	if p.values["least"] != nil {
		calibrated := s.by
		if s.model == wire.GraphReranker {
			calibrated += wire.RerankerSuffix
		}
		least := p.Threshold("least", calibrated, Threshold{}, -1e6, 1e6)
		s.least = &least
	}
	if s.depth == 0 {
		s.depth = maxRead
	}
	reads := s.depth * s.pieces
	if s.model == wire.GraphReranker {
		reads *= 10
	}
	return Stage{Fit: fitReading, Scores: s.scores(), Cost: Cost{Reads: reads}, run: s.run}
}

func (s score) scores() []string {
	return []string{labelOf(s.model, byRelevance), labelOf(s.model, byHasAnswer), labelOf(s.model, byLLMPrefer), s.label()}
}

// label returns the name of the score that the stage ranks by in the end.
func (s score) label() string {
	if s.model == wire.GraphReranker {
		return s.model
	}
	return "score"
}

// labelOf returns the name that a graph's logit has among the scores of candidates.
func labelOf(graph, head string) string {
	if graph == wire.GraphReranker {
		return graph + "." + head
	}
	return head
}

// fitReading accepts candidates of any unit and returns the same unit.
func fitReading(in schema.Unit) (schema.Unit, error) {
	if in == "" {
		return "", schema.Invalid("", "reads what other stages find: a plan begins with lexical, dense or hybrid")
	}
	return in, nil
}

// of returns the score that the stage ranks by.
func (s score) of(x wire.PairScore) float64 {
	switch s.by {
	case byHasAnswer:
		return float64(x.HasAnswer)
	case byLLMPrefer:
		return float64(x.LLMPrefer)
	case byPreferSum:
		return float64(x.HasAnswer) + float64(x.LLMPrefer)
	}
	return float64(x.Relevance)
}

func (s score) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	out := outcome{unit: in.unit, items: in.items, why: "nothing to read"}
	if len(in.items) == 0 {
		return out, nil
	}
	op, err := wire.ScoreOp(s.model)
	if err != nil {
		return outcome{}, err
	}
	skip, err := t.needs(ctx, s.optional, op)
	if skip != "" || err != nil {
		out.why = skip
		return out, err
	}
	if s.known {
		scriptShare, err := t.known(ctx, op)
		if err != nil {
			return outcome{}, err
		}
		if scriptShare == 0 {
			out.why = unknownWordsReason
			return out, nil
		}
		s.weight *= scriptShare
	}
	limit, err := t.pack.limit(ctx, op)
	if err != nil {
		return outcome{}, err
	}
	head, tail := cut(in.items, s.near(in.items))
	how := inputOptions{limit: s.pieces, cut: packed(limit), joined: true, prefers: s.by == byLLMPrefer || s.by == byPreferSum}
	if s.window > 0 {
		if how.reduce, err = t.windowed(ctx, s.window); err != nil {
			return outcome{}, err
		}
	}
	read, err := t.scored(ctx, s.model, head, in.unit, how, s.of)
	if isUnknownWords(err) {
		out.why = unknownWordsReason
		return out, nil
	}
	if err != nil {
		return outcome{}, err
	}
	out.items = nil
	var items []item
	var before, values []float64
	for i, c := range head {
		best, ok := read.best[i]
		if !ok {
			out.dropped = append(out.dropped, judged{c, noTextReason})
			continue
		}
		before, values = append(before, c.score), append(values, best.value)
		c = best.score.addTo(c, s.model)
		if in.unit == schema.UnitDocument || in.unit == schema.UnitCluster {
			c.shows = []extent{best.at}
		}
		items = append(items, c)
	}
	final := values
	if s.weight < 1 {
		final = make([]float64, len(values))
		model := values
		if s.normalise != "max" { // a logit has no upper bound to divide by
			model = normalised(values, s.normalise)
		}
		before = normalised(before, s.normalise)
		for i := range final {
			final[i] = (1-s.weight)*before[i] + s.weight*model[i]
		}
	}
	minimum, err := s.limit(ctx, t)
	if err != nil {
		return outcome{}, err
	}
	for i, c := range items {
		c = c.scored(s.label(), final[i])
		if values[i] < minimum {
			out.dropped = append(out.dropped, judged{c, fmt.Sprintf("%s %.3f is below %.3f", s.by, values[i], minimum)})
			continue
		}
		out.items = append(out.items, c)
	}
	rank(out.items)
	out.why = join(fmt.Sprintf("%s of %s", s.by, read), spread(out.items, s.label()))
	if s.least == nil {
		out.items = append(out.items, scoreUnread(out.items, head, tail, s.label())...)
	} else {
		out.dropped = append(out.dropped, drop(tail, fmt.Sprintf("not read: below rank %d", len(head)))...)
	}
	kept, rest := cut(out.items, s.keep)
	out.items = kept
	out.dropped = append(out.dropped, drop(rest, fmt.Sprintf("below rank %d", s.keep))...)
	return out, nil
}

// near returns how many candidates are read.
func (s score) near(items []item) int {
	head, _ := cut(items, s.depth)
	if s.within == 0 || len(head) == 0 {
		return s.depth
	}
	before := make([]float64, len(head))
	for i, c := range head {
		before[i] = c.score
	}
	shares := normalised(before, "max")
	n := min(s.minK, len(head))
	for n < len(head) && shares[n] >= shares[0]-s.within {
		n++
	}
	return n
}

// limit returns the score below which candidates are dropped.
func (s score) limit(ctx context.Context, t *Task) (float64, error) {
	if s.least == nil {
		return math.Inf(-1), nil
	}
	return t.resolve(ctx, "least", *s.least)
}

// supersededBy scores the candidates that were not read below those that were, in their order.
func scoreUnread(read, head, tail []item, name string) []item {
	if len(tail) == 0 {
		return nil
	}
	top, scale := head[len(head)-1].score, 0.0
	for _, c := range head {
		scale = math.Max(scale, math.Abs(c.score))
	}
	lowest := 0.0
	if len(read) > 0 {
		lowest = read[len(read)-1].score
	}
	out := make([]item, len(tail))
	for i, c := range tail {
		gap := 0.0
		if scale > 0 {
			gap = math.Max(0, top-c.score) / scale
		}
		out[i] = c.scored(name, lowest-gap)
	}
	return out
}

// pairRead is a model's scores of candidates.
type pairRead struct {
	graph      string
	best       map[int]pairBest // by candidate; none for candidates without text
	model      string
	texts      int
	long       int    // candidates that were read in several pieces
	preference string // whose preference llm_prefer is; empty: not reported
}

// pairBest is a candidate's best piece.
type pairBest struct {
	score pairScore
	own   float32 // the pack's llm_prefer
	value float64 // the best piece is the one with the highest value
	at    extent
}

func (r pairRead) String() string {
	out := fmt.Sprintf("%d candidates in %d texts", len(r.best), r.texts)
	if r.long > 0 {
		out += fmt.Sprintf(", %d of them in pieces", r.long)
	}
	if r.model == "" {
		return out
	}
	return join(out+by(r.model)+", graph "+r.graph, r.preference)
}

// pairScore are the model's logits.
type pairScore wire.PairScore

// addTo adds a graph's logits to a candidate's scores.
func (x pairScore) addTo(c item, graph string) item {
	own := c.score
	c = c.scored(labelOf(graph, byRelevance), float64(x.Relevance)).scored(labelOf(graph, byHasAnswer), float64(x.HasAnswer)).
		scored(labelOf(graph, byLLMPrefer), float64(x.LLMPrefer))
	c.score = own
	return c
}

// scored scores candidates by a graph, in one request, and finds the piece of each with the highest
// value; of ties the first.
func (t *Task) scored(ctx context.Context, graph string, items []item, unit schema.Unit, how inputOptions, value func(wire.PairScore) float64) (pairRead, error) {
	inputs, err := t.inputs(ctx, items, unit, how)
	if err != nil {
		return pairRead{}, err
	}
	read := pairRead{graph: graph, best: map[int]pairBest{}, texts: len(inputs)}
	if len(inputs) == 0 {
		return read, nil
	}
	scores, own, model, preference, err := t.ask(ctx, graph, inputTexts(inputs), how.prefers)
	if err != nil {
		return pairRead{}, fmt.Errorf("score %d texts: %w", len(inputs), err)
	}
	all := make([][]float32, len(scores))
	for i, x := range scores {
		all[i] = []float32{x.Relevance, x.HasAnswer, x.LLMPrefer}
	}
	if err := finite("score", len(inputs), all); err != nil {
		return pairRead{}, err
	}
	read.model, read.preference = model, preference
	several := map[int]bool{}
	for i, in := range inputs {
		have, ok := read.best[in.of]
		if x := value(scores[i]); !ok || x > have.value {
			read.best[in.of] = pairBest{score: pairScore(scores[i]), own: own[i].LLMPrefer, value: x, at: in.at}
		}
		if ok {
			several[in.of] = true
		}
	}
	read.long = len(several)
	return read, nil
}
