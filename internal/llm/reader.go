package llm

// The reader inside the provider "extractive": with a model pack that has a
// reranker or a pair model, answers are spans of the passages. The sentence that
// holds the best one is quoted, and the span is the short answer in it.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/internal/tabular"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Reader reads answers out of texts; the model server does.
type Reader interface {
	// Info says what the server's model pack can do, and its calibrated
	// thresholds.
	Info(ctx context.Context) (wire.ModelInfo, error)
	// Score says of each text how well it answers the question and, with
	// answers, which part of it does. The pack's pair model reads.
	Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error)
	// Rerank is Score by the pack's reranker, whose logits have a scale of their
	// own. It takes about ten times as long.
	Rerank(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error)
}

// How spans are chosen, on the scale of logits. Measured with the shipped pack on
// 194 questions of SQuAD's articles that it was not trained on and 185 of
// FairytaleQA's validation set, each with the ten best passages of the plan
// sluice: the first sentence quoted holds the answer of 79 % and 48 % of them (73 %
// and 42 % by the score of sentences). Weights from 0 to 0.25 and 1 to 2 differ by
// less than 4 points, and a higher weight of the span does worse.
const (
	// spanWeight is what the logit of a span counts beside that of its passage
	// having the answer.
	spanWeight = 0.1
	// rankLogit is what a span of the first passage gets on top, one of the
	// second half of it, and so on.
	rankLogit = 1.0
	// nearLogit is how far below the best a further span may be.
	nearLogit = 1.5
	// madeUp is what a name, and a number, of the question takes off a passage that
	// does not have it, its title and heading counted: whatever it says, it says it
	// of something else.
	madeUp = 1.0
	// offQuestion is what the sentences of a span lose when they have none of the
	// question's content, and in part for what they lack of it.
	offQuestion = 1.0
	// mostLacking is the share of the question's content that what is shown as nearest may lack.
	mostLacking = 0.5
	// allowedLoss is how much of that a passage may lose and still have the answer.
	allowedLoss = 0.5
	// otherSort is how far below the best span one may be that is of the sort that the question
	// asks for when the best one is not: the sum of two logits.
	otherSort = 6.0
	// readTokens are what a piece of a passage has at most, in tokens of
	// internal/text: with its title it stays under the modelTokens that the shipped
	// models read. One that reads less gets less, in proportion.
	readTokens  = 280
	modelTokens = 384
	// maxRead bounds the pieces that are read for an answer, maxReranked those that
	// the reranker reads: of more, the pair model finds the best for it.
	maxRead     = 256
	maxReranked = 8
)

// pairReads says whether the pack's pair model finds answers in texts.
func pairReads(info wire.ModelInfo) bool {
	return slices.Contains(info.Operations, wire.OpScore) && !info.NoSpans
}

// readsBy is the graph that finds answers to a question in texts: the reranker, or
// else the pair model; "": the pack has none that does, or none that has learnt the
// script of most of the question.
func readsBy(info wire.ModelInfo, question string) string {
	knows := func(op wire.ModelOp) bool { return text.InScripts(question, info.Scripts[op]) >= 0.5 }
	switch {
	case slices.Contains(info.Operations, wire.OpRerank) && !info.NoRerankSpans && knows(wire.OpRerank):
		return wire.GraphReranker
	case pairReads(info) && knows(wire.OpScore):
		return wire.GraphPair
	}
	return ""
}

// stretch is a piece of a passage as the reader gets it.
type stretch struct {
	passage int
	piece   text.Range // in the passage
	input   string     // in context
	offset  int        // of the piece in input
}

// span is an answer that was read.
type span struct {
	quote    wire.Quote
	value    float64
	features map[string]float64 // of its confidence
}

// read answers by a graph.
func (p *Extractive) read(ctx context.Context, r wire.LLMRequest, info wire.ModelInfo, graph string) (Completion, error) {
	by, read, op := "reader/", p.reader.Score, wire.OpScore
	if graph == wire.GraphReranker {
		by, read, op = "reranker/", p.reader.Rerank, wire.OpRerank
	}
	out := Completion{Model: by + info.Pack}
	calibrated := calibrationOf(info, graph)
	if c, ok := answerOfTables(r, calibrated.least(r.Risk)); ok {
		return c, nil
	}
	stretches := stretchesOf(r.Passages, info.Limits[op])
	if len(stretches) == 0 {
		return out, nil
	}
	var err error
	if graph == wire.GraphReranker {
		stretches, err = p.foremost(ctx, r, info, stretches)
	}
	var scores []wire.PairScore
	var model string
	texts := inputs(r.Question, stretches, &out)
	if err == nil {
		scores, model, err = read(ctx, wire.LaneInteractive, r.Question, texts, true)
	}
	var remote *schema.RemoteError
	if errors.As(err, &remote) && remote.Code == schema.CodeInvalid && remote.Field == "question" {
		return out, nil // it has no word to read texts for
	}
	if err != nil {
		return Completion{}, fmt.Errorf("read %d passages: %w", len(r.Passages), err)
	}
	if len(scores) != len(texts) {
		return Completion{}, fmt.Errorf("read %d passages: the model server gave %d scores for %d texts", len(r.Passages), len(scores), len(texts))
	}
	out.Model = by + model
	spans, nearest := choose(r.Question, r.Passages, stretches, scores, answerable(info, graph))
	out.Rated, out.Withheld = calibrated.known(), calibrated.rate(spans, r.Risk)
	if len(spans) > 0 {
		out.Features = spans[0].features
	} else if len(nearest) > 0 {
		spans, out.Withheld = nearest, nothingAnswers
	}
	bodies := make([]string, len(spans))
	for i, s := range spans {
		out.Quotes = append(out.Quotes, s.quote)
		bodies[i] = r.Passages[s.quote.Passage].Text[s.quote.Start:s.quote.End]
	}
	out.Text, out.Sentences = quotedText(bodies)
	out.OutputTokens = text.CountTokens(out.Text)
	return out, nil
}

// foremost are the stretches that the reranker reads: where there are many, those of
// which the pair model thinks most, in the order that they have; without a pair
// model the first.
func (p *Extractive) foremost(ctx context.Context, r wire.LLMRequest, info wire.ModelInfo, all []stretch) ([]stretch, error) {
	if len(all) <= maxReranked {
		return all, nil
	}
	if !slices.Contains(info.Operations, wire.OpScore) {
		return all[:maxReranked], nil
	}
	texts := make([]string, len(all))
	order := make([]int, len(all))
	for i, s := range all {
		texts[i], order[i] = s.input, i
	}
	scores, _, err := p.reader.Score(ctx, wire.LaneInteractive, r.Question, texts, false)
	if err != nil {
		return nil, err
	}
	if len(scores) != len(all) {
		return nil, fmt.Errorf("the model server gave %d scores for %d texts", len(scores), len(all))
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(finite(float64(scores[b].HasAnswer)), finite(float64(scores[a].HasAnswer)))
	})
	order = order[:maxReranked]
	slices.Sort(order)
	best := make([]stretch, len(order))
	for i, j := range order {
		best[i] = all[j]
	}
	return best, nil
}

// answerable is a graph's logit of has_answer from which a passage answers: what the
// pack was calibrated to for that graph, else even odds. (Its threshold of has_answer is
// of one text among a search's fifty; with the shipped pack it would refuse two of
// three questions that the ten best answer.)
func answerable(info wire.ModelInfo, graph string) float64 {
	if graph == wire.GraphReranker {
		return info.Calibrated["answerable"+wire.RerankerSuffix]
	}
	return info.Calibrated["answerable"]
}

// stretchesOf cuts passages at the ends of sentences into pieces that the model
// reads whole, each text once. room is how many of its tokens the model reads; 0: it
// does not say.
func stretchesOf(passages []wire.LLMPassage, room int) []stretch {
	most := readTokens
	if room > 0 {
		most = min(most, max(1, room*readTokens/modelTokens))
	}
	var out []stretch
	seen := map[string]bool{}
	for i, p := range passages {
		var pieces []text.Range
		tokens := 0
		for _, s := range text.Sentences(p.Text) {
			n := text.CountTokens(s.Of(p.Text))
			if len(pieces) == 0 || tokens+n > most {
				pieces, tokens = append(pieces, text.Range{Start: s.Start}), 0
			}
			pieces[len(pieces)-1].End = s.End
			tokens += n
		}
		for _, piece := range pieces {
			piece = text.Trim(p.Text, piece)
			body := piece.Of(p.Text)
			if body == "" || seen[body] {
				continue
			}
			seen[body] = true
			input, offset := text.InContext(p.Title, p.Headings, body)
			if out = append(out, stretch{passage: i, piece: piece, input: input, offset: offset}); len(out) == maxRead {
				return out
			}
		}
	}
	return out
}

// inputs are the texts of stretches; they and the question count as read in out.
func inputs(question string, stretches []stretch, out *Completion) []string {
	texts := make([]string, len(stretches))
	out.InputTokens = text.CountTokens(question)
	for i, s := range stretches {
		texts[i] = s.input
		out.InputTokens += text.CountTokens(s.input)
	}
	return texts
}

// nothingAnswers is why an answer is held back when no passage has one.
const nothingAnswers = "no passage says it"

// choose returns the best spans, best first: none when the model says of no
// passage that it has the answer, or scores it as no number. Each is quoted with
// the sentences that it lies in. nearest are the sentences of each passage that came
// nearest and have half of the question's content, the best first, without a short answer.
func choose(question string, passages []wire.LLMPassage, stretches []stretch, scores []wire.PairScore, least float64) (best, nearest []span) {
	var all, good []scoredSpan
	asked := text.AskedFor(question)
	for i, s := range stretches {
		x := scores[i]
		has := float64(x.HasAnswer)
		if x.Answer == nil || math.IsNaN(has) || math.IsNaN(float64(x.Answer.Score)) {
			continue
		}
		body := passages[s.passage].Text
		answer, score, ok := s.answer(asked, body, x)
		if answer.Start >= answer.End || tabular.OtherYears(question, body, answer) {
			continue
		}
		short := wire.QuoteAnswer{Start: answer.Start, End: answer.End, Confidence: probability(has)}
		if !ok || strings.ContainsAny(answer.Of(body), "|\n") { // the quote may answer all the same
			short = wire.QuoteAnswer{}
		}
		whole := sentencesAround(body, answer)
		found := scoredSpan{hasAnswer: has, score: float64(score), next: float64(score) - surely, asked: asked, fits: ok, words: sameWords(answer.Of(body)),
			lacks: lacking(question, s, whole.Of(body))}
		for _, other := range x.Others {
			if other.Score != score {
				found.next = max(found.next, float64(other.Score))
			}
		}
		loss := found.lacks.loss()
		found.quote = wire.Quote{Passage: s.passage, Start: whole.Start, End: whole.End, Answer: short}
		found.value = has - loss + spanWeight*float64(score) + rankLogit/float64(1+s.passage)
		all = append(all, found)
		if has >= least && has-loss >= least-allowedLoss {
			good = append(good, found)
		}
	}
	byValue(good)
	for _, r := range good {
		if len(best) == maxSentences || r.value < good[0].value-nearLogit {
			break
		}
		r.features = features(r, all)
		best = append(best, r.span)
	}
	byValue(all)
	seen := map[int]bool{}
	for _, r := range all {
		if len(nearest) == maxSentences {
			break
		}
		if r.lacks.share <= mostLacking && !seen[r.quote.Passage] {
			seen[r.quote.Passage] = true
			r.quote.Answer = wire.QuoteAnswer{}
			nearest = append(nearest, r.span)
		}
	}
	return best, nearest
}

// answer is the best span that the reader found in a stretch, as a range of the passage's text; an
// empty one where it cannot be quoted. Where it is of another sort than the question asks for, the
// best of the right sort that is nearly as good takes its place; ok says whether the span is of the
// right sort.
func (s stretch) answer(asked text.Asked, body string, x wire.PairScore) (answer text.Range, score float32, ok bool) {
	best := s.rangeInPassage(body, *x.Answer)
	if best.Start >= best.End || asked.Fits(body, best) {
		return best, x.Answer.Score, true
	}
	for _, other := range x.Others {
		if !(other.Score >= x.Answer.Score-otherSort) {
			break
		}
		if r := s.rangeInPassage(body, other); r.Start < r.End && asked.Fits(body, r) {
			return r, other.Score, true
		}
	}
	return best, x.Answer.Score, false
}

// rangeInPassage is where a span of a stretch's input stands in the passage's text; an empty range
// where it does not.
func (s stretch) rangeInPassage(body string, a wire.AnswerSpan) text.Range {
	// An answer in the title cannot be quoted from the passage.
	start, end := a.Start-s.offset, a.End-s.offset
	if start < 0 || start >= end || end > s.piece.End-s.piece.Start {
		return text.Range{}
	}
	return text.Trim(body, text.Range{Start: s.piece.Start + start, End: s.piece.Start + end})
}

// lacking is what a stretch, and the sentences quoted of it, lack of the question.
func lacking(question string, s stretch, quoted string) lacks {
	question = withoutVersion(question, s.input[:s.offset])
	in := text.Supported(question, "", s.input, "")
	return lacks{share: 1 - text.Supported(question, "", quoted, s.input[:s.offset]).Whole, name: in.Name, number: in.Number}
}

// versionAsked is how a question names a version.
var versionAsked = regexp.MustCompile(`(?i)\b(?:version|revision|release)\s+\d+(?:\.\d+)*\b`)

// withoutVersion is a question without the version that a passage's title or heading
// names: its number need not stand in the text.
func withoutVersion(question, context string) string {
	if !versionAsked.MatchString(question) {
		return question
	}
	named := identity.Periods(context)
	return versionAsked.ReplaceAllStringFunc(question, func(said string) string {
		for _, p := range identity.Periods(said) {
			if p.Version != "" && slices.Contains(named, p) {
				return " "
			}
		}
		return said
	})
}

// probability is that of a logit.
func probability(logit float64) float64 { return 1 / (1 + math.Exp(-logit)) }

// sentencesAround are the sentences of a text that a part of it lies in.
func sentencesAround(s string, part text.Range) text.Range {
	whole := part
	for _, r := range text.Sentences(s) {
		if r.Start < part.End && part.Start < r.End {
			whole.Start, whole.End = min(whole.Start, r.Start), max(whole.End, r.End)
		}
	}
	return text.Trim(s, whole)
}
