package search

// BM25 in fixed point, so that sums do not depend on the order of terms, which depends on the
// blocks: units with the same postings must have equal scores.

import (
	"fmt"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// score is a score in units of 1/scoreScale.
type score int64

const scoreScale = 1 << 32

// Limits that keep a score within its type.
const (
	maxK1    = 1000
	maxTerms = 1 << 16 // of a query, repetitions counted
)

func (s score) float() float64 { return float64(s) / scoreScale }

// bm25 is BM25 with the parameters and the average length filled in.
type bm25 struct{ base, perTerm float64 }

func newScorer(s lexical.Settings, average float64) bm25 {
	if average == 0 {
		average = 1 // there is no term, so nothing is scored
	}
	return bm25{base: s.K1 * (1 - s.B), perTerm: s.K1 * s.B / average}
}

// score returns a term's score. The conversions to float64 keep the compiler from fusing
// multiplications and additions, so that scores are the same on all processors.
func (s bm25) score(weight float64, frequency, length uint32) score {
	f := float64(frequency)
	return score(float64(weight*f/(f+s.base+float64(s.perTerm*float64(length)))*scoreScale) + 0.5)
}

// boundScore is an upper bound of the scores of units with a bound.
func (s bm25) boundScore(weight float64, b segment.Bound) score {
	return s.score(weight*(1+1e-9), b.Frequency, b.Length) + 1
}

// limit is an upper bound of all scores of a term.
func (s bm25) limit(weight float64) score { return score(weight*scoreScale) + 2 }

// weightOf is a term's part of the formula that does not depend on the unit.
func weightOf(s lexical.Settings, units, df, times int) float64 {
	return lexical.IDF(units, df) * (s.K1 + 1) * float64(times)
}

// settingsOf returns the settings of a query, and an error if they are out of range.
func settingsOf(q lexical.TermQuery) (lexical.Settings, error) {
	s := q.Settings
	if s == (lexical.Settings{}) {
		return lexical.Defaults, nil
	}
	if !(s.K1 >= 0 && s.K1 <= maxK1 && s.B >= 0 && s.B <= 1) {
		return s, fmt.Errorf("BM25: k1 = %g must be from 0 to %d and b = %g from 0 to 1", s.K1, maxK1, s.B)
	}
	return s, nil
}
