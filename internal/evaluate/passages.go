package evaluate

// This file measures the first passages of a search against the evidence, as SAKI-RAG measures
// chunks.

import (
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// passageCutoffs are the cutoffs that are always used.
var passageCutoffs = []int{1, 3, 5, 10}

// passageRanking has the passages that a search found, and the evidence.
type passageRanking struct {
	evidence [][]string // empty: no evidence is known
	passages []schema.Candidate
	agrees   []bool // whether a passage agrees with a piece of evidence, as quotes do
}

func newPassageRanking(evidence [][]string, passages []schema.Candidate) passageRanking {
	out := passageRanking{evidence: evidence, passages: passages}
	if len(evidence) == 0 {
		return out
	}
	for _, p := range passages {
		out.agrees = append(out.agrees, slices.ContainsFunc(evidence, newQuoted(p.Text).agrees))
	}
	return out
}

// first returns the number of passages among the first k.
func (r passageRanking) first(k int) int { return min(k, len(r.passages)) }

// precision returns the share of the first k passages that agree with evidence. If a plan returns
// fewer passages it is their share, and NaN without passages: SAKI-RAG drops what it judges
// irrelevant, and its precision counts what is left.
func (r passageRanking) precision(k int) float64 {
	if len(r.evidence) == 0 {
		return math.NaN()
	}
	right := 0
	for _, agrees := range r.agrees[:r.first(k)] {
		if agrees {
			right++
		}
	}
	return ratio(right, r.first(k))
}

// recall returns the share of the evidence that the first k passages together contain.
func (r passageRanking) recall(k int) float64 {
	if len(r.evidence) == 0 {
		return math.NaN()
	}
	return evidenceRecall(r.evidence, contextTexts(r.passages[:r.first(k)]))
}

// f1 returns the harmonic mean of precision and recall.
func (r passageRanking) f1(k int) float64 {
	precision := r.precision(k)
	if math.IsNaN(precision) { // no passage
		return precision
	}
	return harmonic(precision, r.recall(k))
}

// reciprocal returns 1 / the rank of the first of k passages that agrees with evidence, or 0.
func (r passageRanking) reciprocal(k int) float64 {
	if len(r.evidence) == 0 {
		return math.NaN()
	}
	if i := slices.Index(r.agrees[:r.first(k)], true); i >= 0 {
		return 1 / float64(i+1)
	}
	return 0
}

// effective is the effective information rate (RAGEval, EIR): the share of the words of the first k
// passages that are in sentences of the evidence; NaN without passages.
func (r passageRanking) effective(k int) float64 {
	if len(r.evidence) == 0 {
		return math.NaN()
	}
	texts := contextTexts(r.passages[:r.first(k)])
	all, proving := 0, 0
	for _, text := range texts {
		all += len(plainWords(text))
	}
	seen := map[string]bool{}
	for _, s := range slices.Concat(r.evidence...) {
		if !seen[s] && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, s) }) {
			proving += len(plainWords(s))
		}
		seen[s] = true
	}
	return min(1, ratio(proving, all))
}
