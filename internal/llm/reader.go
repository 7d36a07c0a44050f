package llm

// The reader of the provider "extractive". With a model pack that has a reranker or a pair model,
// answers are spans of the passages. The sentence that contains the best span is quoted, and the
// span is its short answer.

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

// Reader finds answers in texts. The model server implements it.
type Reader interface {
	// Info returns what the server's model pack can do, with its calibrated thresholds.
	Info(ctx context.Context) (wire.ModelInfo, error)
	// Score returns how well each text answers the question and, with answers, which span of it
	// does. It uses the pack's pair model.
	Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error)
	// Rerank is Score with the pack's reranker, whose logits are on another scale. It takes about
	// ten times as long.
	Rerank(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error)
}

// How spans are chosen, on the scale of logits. Measured with the shipped pack on 194 questions of
// SQuAD's articles that it was not trained on and 185 of FairytaleQA's validation set, each with
// the ten best passages of the plan sluice: the first sentence quoted contains the answer of 79 %
// and 48 % of them (73 % and 42 % by the score of sentences). Weights from 0 to 0.25 and 1 to 2
// differ by less than 4 points, and a higher weight of the span does worse.
const (
	// spanWeight is the weight of a span's logit, relative to the logit of its passage having the
	// answer.
	spanWeight = 0.1
	// rankLogit is added for a span of the first passage, half of it for the second, a third of it
	// for the third, and so on.
	rankLogit = 1.0
	// maxLogitGap is how far below the best span a further one may be.
	maxLogitGap = 1.5
	// mismatchPenalty is subtracted from a passage for a name in the question that the passage, its
	// title and its heading lack, and again for such a number: whatever the passage says is about
	// something else.
	mismatchPenalty = 1.0
	// missingPenalty is subtracted if the sentences of a span have none of the question's content,
	// and in proportion if they lack part of it.
	missingPenalty = 1.0
	// maxMissingShare is the largest share of the question's content that the nearest sentences may
	// lack.
	maxMissingShare = 0.5
	// maxPenalty is how far these subtractions may take a passage below the threshold for having
	// the answer.
	maxPenalty = 0.5
	// maxKindGap is how far below the best span a span of the kind asked for may be to replace it
	// if the best one is of another kind. Both scores are sums of two logits.
	maxKindGap = 6.0
	// readTokens is the most tokens of internal/text in a piece of a passage. With its title a
	// piece stays under the modelTokens that the shipped models read. For a model that reads less
	// it is reduced in proportion.
	readTokens  = 280
	modelTokens = 384
	// maxRead bounds the pieces that are read for an answer, maxReranked the pieces that the
	// reranker reads. The pair model selects them if there are more.
	maxRead     = 256
	maxReranked = 8
)

// pairReads reports whether the pack's pair model finds answers in texts.
func pairReads(info wire.ModelInfo) bool {
	return slices.Contains(info.Operations, wire.OpScore) && !info.NoSpans
}

// readerGraph returns the graph that finds answers to a question in texts: the reranker, or else
// the pair model. It returns "" if the pack has no such graph, or none that knows the script of at
// least half of the question.
func readerGraph(info wire.ModelInfo, question string) string {
	knows := func(op wire.ModelOp) bool { return text.InScripts(question, info.Scripts[op]) >= 0.5 }
	switch {
	case slices.Contains(info.Operations, wire.OpRerank) && !info.NoRerankSpans && knows(wire.OpRerank):
		return wire.GraphReranker
	case pairReads(info) && knows(wire.OpScore):
		return wire.GraphPair
	}
	return ""
}

// chunk is a piece of a passage as the reader reads it.
type chunk struct {
	passage int
	piece   text.Range // in the passage
	input   string     // the piece with its title and headings
	offset  int        // of the piece in input, in bytes
}

// span is an answer that the reader found.
type span struct {
	quote    wire.Quote
	value    float64
	features map[string]float64 // inputs of its confidence
}

// read answers with the spans that a graph finds.
func (p *Extractive) read(ctx context.Context, r wire.LLMRequest, info wire.ModelInfo, graph string) (Completion, error) {
	by, read, op := "reader/", p.reader.Score, wire.OpScore
	if graph == wire.GraphReranker {
		by, read, op = "reranker/", p.reader.Rerank, wire.OpRerank
	}
	out := Completion{Model: by + info.Pack}
	calibrated := calibrationOf(info, graph)
	if c, ok := answerOfTables(r, calibrated.minConfidence(r.Risk)); ok {
		return c, nil
	}
	chunks := splitChunks(r.Passages, info.Limits[op])
	if len(chunks) == 0 {
		return out, nil
	}
	var err error
	if graph == wire.GraphReranker {
		chunks, err = p.rerankerChunks(ctx, r, info, chunks)
	}
	var scores []wire.PairScore
	var model string
	texts := inputs(r.Question, chunks, &out)
	if err == nil {
		scores, model, err = read(ctx, wire.LaneInteractive, r.Question, texts, true)
	}
	var remote *schema.RemoteError
	if errors.As(err, &remote) && remote.Code == schema.CodeInvalid && remote.Field == "question" {
		return out, nil // it has no word to look for
	}
	if err != nil {
		return Completion{}, fmt.Errorf("read %d passages: %w", len(r.Passages), err)
	}
	if len(scores) != len(texts) {
		return Completion{}, fmt.Errorf("read %d passages: the model server gave %d scores for %d texts", len(r.Passages), len(scores), len(texts))
	}
	out.Model = by + model
	spans, nearest := choose(r.Question, r.Passages, chunks, scores, answerable(info, graph))
	out.Rated, out.Withheld = calibrated.known(), calibrated.rate(spans, r.Risk)
	if len(spans) > 0 {
		out.Features = spans[0].features
	} else if len(nearest) > 0 {
		spans, out.Withheld = nearest, noAnswerReason
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

// rerankerChunks returns the chunks that the reranker reads, in their original order. If there are
// more than maxReranked it takes those with the pair model's highest has_answer; without a pair
// model, the first ones.
func (p *Extractive) rerankerChunks(ctx context.Context, r wire.LLMRequest, info wire.ModelInfo, all []chunk) ([]chunk, error) {
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
	best := make([]chunk, len(order))
	for i, j := range order {
		best[i] = all[j]
	}
	return best, nil
}

// answerable returns the logit of has_answer from which a passage answers: the value that the pack
// was calibrated to for that graph, else 0, which is even odds. (The pack's threshold of has_answer
// is for one text among a search's fifty; with the shipped pack it would refuse two of three
// questions that the ten best passages answer.)
func answerable(info wire.ModelInfo, graph string) float64 {
	if graph == wire.GraphReranker {
		return info.Calibrated["answerable"+wire.RerankerSuffix]
	}
	return info.Calibrated["answerable"]
}

// splitChunks cuts passages at sentence ends into pieces that the model reads whole, and drops
// repeated texts. tokens is how many of its own tokens the model reads; 0: unknown.
func splitChunks(passages []wire.LLMPassage, tokens int) []chunk {
	maxTokens := readTokens
	if tokens > 0 {
		maxTokens = min(maxTokens, max(1, tokens*readTokens/modelTokens))
	}
	var out []chunk
	seen := map[string]bool{}
	for i, p := range passages {
		var pieces []text.Range
		tokens := 0
		for _, s := range text.Sentences(p.Text) {
			n := text.CountTokens(s.Of(p.Text))
			if len(pieces) == 0 || tokens+n > maxTokens {
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
			if out = append(out, chunk{passage: i, piece: piece, input: input, offset: offset}); len(out) == maxRead {
				return out
			}
		}
	}
	return out
}

// inputs returns the texts of chunks, and sets out.InputTokens to their tokens and the question's.
func inputs(question string, chunks []chunk, out *Completion) []string {
	texts := make([]string, len(chunks))
	out.InputTokens = text.CountTokens(question)
	for i, s := range chunks {
		texts[i] = s.input
		out.InputTokens += text.CountTokens(s.input)
	}
	return texts
}

// noAnswerReason is why an answer is withheld if no passage has one.
const noAnswerReason = "no passage says it"

// choose returns the best spans, best first. There are none if no passage reaches the logit
// minLogit of having the answer, or the model's scores are not numbers. Each span is quoted with
// the sentences that it lies in. nearest has the best sentences of each passage that have at least
// half of the question's content, best first, without a short answer.
func choose(question string, passages []wire.LLMPassage, chunks []chunk, scores []wire.PairScore, minLogit float64) (best, nearest []span) {
	var all, good []scoredSpan
	asked := text.ExpectedAnswerType(question)
	for i, s := range chunks {
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
		found := scoredSpan{hasAnswer: has, score: float64(score), next: float64(score) - maxFeature, asked: asked, fits: ok, words: sameWords(answer.Of(body)),
			missing: findMissing(question, s, whole.Of(body))}
		for _, other := range x.Others {
			if other.Score != score {
				found.next = max(found.next, float64(other.Score))
			}
		}
		penalty := found.missing.penalty()
		found.quote = wire.Quote{Passage: s.passage, Start: whole.Start, End: whole.End, Answer: short}
		found.value = has - penalty + spanWeight*float64(score) + rankLogit/float64(1+s.passage)
		all = append(all, found)
		if has >= minLogit && has-penalty >= minLogit-maxPenalty {
			good = append(good, found)
		}
	}
	byValue(good)
	for _, r := range good {
		if len(best) == maxSentences || r.value < good[0].value-maxLogitGap {
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
		if r.missing.share <= maxMissingShare && !seen[r.quote.Passage] {
			seen[r.quote.Passage] = true
			r.quote.Answer = wire.QuoteAnswer{}
			nearest = append(nearest, r.span)
		}
	}
	return best, nearest
}

// answer returns the best span of a chunk as a range of the passage's text, or an empty range if it
// cannot be quoted. If it is not of the kind that the question asks for, the best span of that kind
// that scores nearly as high replaces it. ok says whether the span is of that kind.
func (s chunk) answer(asked text.AnswerType, body string, x wire.PairScore) (answer text.Range, score float32, ok bool) {
	best := s.rangeInPassage(body, *x.Answer)
	if best.Start >= best.End || asked.Fits(body, best) {
		return best, x.Answer.Score, true
	}
	for _, other := range x.Others {
		if !(other.Score >= x.Answer.Score-maxKindGap) {
			break
		}
		if r := s.rangeInPassage(body, other); r.Start < r.End && asked.Fits(body, r) {
			return r, other.Score, true
		}
	}
	return best, x.Answer.Score, false
}

// rangeInPassage converts a span of a chunk's input to a range of the passage's text. The range is
// empty if the span is not part of that text.
func (s chunk) rangeInPassage(body string, a wire.AnswerSpan) text.Range {
	// An answer in the title cannot be quoted from the passage.
	start, end := a.Start-s.offset, a.End-s.offset
	if start < 0 || start >= end || end > s.piece.End-s.piece.Start {
		return text.Range{}
	}
	return text.Trim(body, text.Range{Start: s.piece.Start + start, End: s.piece.Start + end})
}

// findMissing returns what a chunk, and the sentences quoted of it, lack of the question.
func findMissing(question string, s chunk, quoted string) missingContent {
	question = withoutVersion(question, s.input[:s.offset])
	in := text.Supported(question, "", s.input, "")
	return missingContent{share: 1 - text.Supported(question, "", quoted, s.input[:s.offset]).Whole, name: in.Name, number: in.Number}
}

// versionAsked matches a version in a question.
var versionAsked = regexp.MustCompile(`(?i)\b(?:version|revision|release)\s+\d+(?:\.\d+)*\b`)

// withoutVersion removes from a question the version that a passage's title or heading names: its
// number need not occur in the text.
func withoutVersion(question, context string) string {
	if !versionAsked.MatchString(question) {
		return question
	}
	named := identity.Periods(context)
	return versionAsked.ReplaceAllStringFunc(question, func(match string) string {
		for _, p := range identity.Periods(match) {
			if p.Version != "" && slices.Contains(named, p) {
				return " "
			}
		}
		return match
	})
}

// probability converts a logit to a probability.
func probability(logit float64) float64 { return 1 / (1 + math.Exp(-logit)) }

// sentencesAround returns the range of the sentences of a text that part overlaps.
func sentencesAround(s string, part text.Range) text.Range {
	whole := part
	for _, r := range text.Sentences(s) {
		if r.Start < part.End && part.Start < r.End {
			whole.Start, whole.End = min(whole.Start, r.Start), max(whole.End, r.End)
		}
	}
	return text.Trim(s, whole)
}
