package evaluate

// This file lists the measures of a plan, and computes them for one question.

import (
	"fmt"
	"math"
	"slices"
)

// Cutoffs that are always used; Options.Cutoffs adds more.
var (
	rankingCutoffs = []int{1, 3, 5, 10, 20, 100}
	answerCutoffs  = []int{1, 3, 4, 5, 10}
)

// sourcesAt is how many passages the entropy of sources covers.
const sourcesAt = 4

// summed are the cutoffs whose values SAKI-RAG adds up (its formula 9).
var summed = []int{1, 3, 5}

// measure is a value of one question; a plan's is the mean over its questions.
type measure struct {
	name string
	of   func(o *observation) float64 // NaN: the question has none
}

// judged is a question, prepared for comparison.
type judged struct {
	Topic
	answers  []string
	evidence [][]string
	golds    []gold
	right    []int // numbers of the right choices, from 1
}

// observation is the result of one question under one plan, as the measures need it.
type observation struct {
	ranking
	shown      passageRanking
	answers    bool // the question has known answers
	answerRank int
	inContext  bool    // a passage of the context contains an answer
	evidence   float64 // NaN: no evidence is known
	// The shares of the context's passages that are from relevant documents, and that agree with
	// evidence; NaN: unknown, or there are no passages.
	relevant, proving float64
	sources           float64 // NaN: there are no passages
	tokens            int
	answer            *answerObservation // nil: it was not asked for
}

func observe(q *judged, f *Found) observation {
	o := observation{ranking: newRanking(f.Documents, q.Relevant), answers: len(q.answers) > 0, evidence: math.NaN(), sources: titleEntropy(f.Passages, sourcesAt),
		shown: newPassageRanking(q.evidence, f.Passages)}
	if o.answers {
		o.answerRank = answerRank(f.Passages, q.answers)
	}
	context := f.context()
	o.inContext = o.answers && answerRank(context, q.answers) > 0
	if len(q.evidence) > 0 {
		o.evidence = evidenceRecall(q.evidence, contextTexts(context))
	}
	o.tokens = contextTokens(context)
	o.relevant, o.proving = contextPrecision(q, context)
	return o
}

// measures returns the measures of one question, with the cutoffs in more besides those that are
// always used.
func measures(more []int) []measure {
	var out []measure
	at := func(name string, cutoffs []int, of func(o *observation, k int) float64) {
		for _, k := range cutoffs {
			out = append(out, measure{fmt.Sprintf("%s@%d", name, k), func(o *observation) float64 { return of(o, k) }})
		}
	}
	rankings := merge(rankingCutoffs, more)
	ranked := func(name string, of func(r ranking, k int) float64) {
		at(name, rankings, func(o *observation, k int) float64 {
			if !o.judged() {
				return math.NaN()
			}
			return of(o.ranking, k)
		})
	}
	ranked("ndcg", ranking.ndcg)
	ranked("hit", ranking.hit)
	ranked("mrr", ranking.mrr)
	ranked("document_recall", ranking.recall)
	ranked("document_precision", ranking.precision)
	answers := slices.DeleteFunc(merge(answerCutoffs, more), func(k int) bool { return k > MaxPassages }) // searches do not return more
	at("ar", answers, func(o *observation, k int) float64 {
		switch {
		case !o.answers:
			return math.NaN()
		case o.answerRank > 0 && o.answerRank <= k:
			return 1
		}
		return 0
	})
	for _, m := range []struct {
		name string
		of   func(r passageRanking, k int) float64
	}{
		{"passage_recall", passageRanking.recall}, {"passage_precision", passageRanking.precision}, {"passage_f1", passageRanking.f1},
		{"passage_mrr", passageRanking.reciprocal}, {"passage_eir", passageRanking.effective},
	} {
		at(m.name, passageDepths(more), func(o *observation, k int) float64 { return m.of(o.shown, k) })
	}
	return append(out,
		measure{"context_ar", func(o *observation) float64 {
			if !o.answers {
				return math.NaN()
			}
			return share(o.inContext)
		}},
		measure{"evidence_recall", func(o *observation) float64 { return o.evidence }},
		measure{"evidence_precision", func(o *observation) float64 { return o.proving }},
		measure{"context_precision", func(o *observation) float64 { return o.relevant }},
		measure{fmt.Sprintf("entropy@%d", sourcesAt), func(o *observation) float64 { return o.sources }},
		measure{"tokens", func(o *observation) float64 { return float64(o.tokens) }})
}

// passageDepths returns the cutoffs of measures of passages: at most MaxPassages, because searches
// do not return more.
func passageDepths(more []int) []int {
	return slices.DeleteFunc(merge(passageCutoffs, more), func(k int) bool { return k > MaxPassages })
}

// depth returns the length of the ranking that the measures need.
func depth(more []int) int { return slices.Max(merge(rankingCutoffs, more)) }

// breadth returns how many passages the measures need; 0: those that every search returns. If they
// need more it returns MaxPassages: a smaller number could cut the context short.
func breadth(more []int) int {
	if slices.ContainsFunc(more, func(k int) bool { return k > slices.Max(answerCutoffs) && k <= MaxPassages }) {
		return MaxPassages
	}
	return 0
}

func merge(a, b []int) []int {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// measureGroup is a group of measures, of documents or of passages, from which others are computed.
type measureGroup struct {
	prefix  string
	cutoffs []int
	summed  []string // measures that are also summed over the cutoffs in summed
}

func groups(more []int) []measureGroup {
	return []measureGroup{
		{"document_", merge(rankingCutoffs, more), []string{"recall", "precision", "ie"}},
		{"passage_", passageDepths(more), []string{"recall", "precision", "ie", "eir"}},
	}
}

// combined adds the figures that are computed from means, of documents and of passages: IE@k, which
// SAKI-RAG defines as mean recall times mean precision (its formula 8; its tables confirm that the
// means are multiplied, not the questions' values), and the sums over k = 1, 3, 5 (its formula 9).
// Figures that a dataset does not have stay unknown.
func combined(means map[string]float64, more []int) {
	for _, of := range groups(more) {
		at := func(name string, k int) string { return fmt.Sprintf("%s%s@%d", of.prefix, name, k) }
		if _, known := means[at("precision", 1)]; !known {
			continue
		}
		for _, k := range of.cutoffs {
			means[at("ie", k)] = means[at("recall", k)] * means[at("precision", k)]
		}
		for _, name := range of.summed {
			sum := 0.0
			for _, k := range summed {
				sum += means[at(name, k)]
			}
			means[of.prefix+name+"_sum"] = sum
		}
	}
}

// mean returns the mean of the values that are not NaN; NaN if there are none.
func mean(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(n)
}

// percentile returns the nearest-rank percentile of sorted values, p in (0, 100]; 0 if there are
// none.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
