package evaluate

// This file compares what an answer cites with what is known to prove it.

import (
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// agreement has the precision and recall of citations; NaN: undefined.
type agreement struct{ precision, recall float64 }

// cited measures the citations of an answer by documents and by quotes. By documents: the share of
// the citations whose document is relevant, and the share of the relevant documents that are cited.
// By quotes, if evidence is known: the share of the quotes that agree with a piece of evidence, and
// the share of the pieces that a quote agrees with. A quote and a piece agree if one contains a
// whole sentence of the other, ignoring white space. Without citations precision is undefined, and
// recall is 0.
func cited(q *judged, citations []schema.Citation) (documents, quotes agreement) {
	none := agreement{math.NaN(), math.NaN()}
	documents, quotes = none, none
	if len(q.Relevant) > 0 {
		right, found := 0, map[string]bool{}
		for _, c := range citations {
			if q.Relevant[c.Document] > 0 {
				right++
				found[c.Document] = true
			}
		}
		documents = agreement{ratio(right, len(citations)), ratio(len(found), len(q.Relevant))}
	}
	if len(q.evidence) > 0 {
		pieces := make([]bool, len(q.evidence))
		right := 0
		for _, c := range citations {
			quote, agrees := newQuoted(c.Quote), false
			for i, e := range q.evidence {
				if quote.agrees(e) {
					pieces[i], agrees = true, true
				}
			}
			if agrees {
				right++
			}
		}
		found := 0
		for _, p := range pieces {
			if p {
				found++
			}
		}
		quotes = agreement{ratio(right, len(citations)), ratio(found, len(pieces))}
	}
	return documents, quotes
}

// contextPrecision measures a context by its passages: the share from relevant documents, and the
// share that agree with a piece of evidence as quotes do.
func contextPrecision(q *judged, context []schema.Candidate) (relevant, proving float64) {
	right, proofs := 0, 0
	for _, c := range context {
		if q.Relevant[c.ExternalID] > 0 {
			right++
		}
		if text := newQuoted(c.Text); slices.ContainsFunc(q.evidence, text.agrees) {
			proofs++
		}
	}
	relevant, proving = math.NaN(), math.NaN()
	if len(q.Relevant) > 0 {
		relevant = ratio(right, len(context))
	}
	if len(q.evidence) > 0 {
		proving = ratio(proofs, len(context))
	}
	return relevant, proving
}

// ratio returns n / of, which is NaN for 0 / 0.
func ratio(n, of int) float64 { return float64(n) / float64(of) }

// quoted is a quote with its sentences.
type quoted struct {
	text      string
	sentences []string
}

func newQuoted(quote string) quoted {
	out := quoted{text: squeeze(quote)}
	for _, piece := range evidenceSentences([]string{quote}) {
		out.sentences = append(out.sentences, piece...)
	}
	return out
}

// agrees reports whether the quote contains a sentence of a piece of evidence, or the piece a
// sentence of the quote.
func (q quoted) agrees(piece []string) bool {
	if slices.ContainsFunc(piece, func(s string) bool { return strings.Contains(q.text, s) }) {
		return true
	}
	whole := strings.Join(piece, " ")
	return slices.ContainsFunc(q.sentences, func(s string) bool { return strings.Contains(whole, s) })
}
