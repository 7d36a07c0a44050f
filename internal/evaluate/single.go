package evaluate

// This file measures single questions, without a dataset.

import (
	"slices"
	"strings"
)

// NDCG returns the gain of the first k documents of a ranking over that of an ideal ranking. All
// relevant documents have the same grade. Documents are named by external ids.
func NDCG(documents, relevant []string, k int) float64 {
	grades := make(map[string]int, len(relevant))
	for _, d := range relevant {
		grades[d] = 1
	}
	return newRanking(documents, grades).ndcg(k)
}

// Overlap returns the share of a question's content words that occur in a text. It is 1 if the
// question repeats the text, which a lexical search finds too easily.
func Overlap(question, text string) float64 {
	asked, words := contentTokens(question), contentTokens(text)
	if len(asked) == 0 {
		return 0
	}
	n := 0
	for _, w := range asked {
		if slices.Contains(words, w) {
			n++
		}
	}
	return float64(n) / float64(len(asked))
}

// questionWords are words of questions that say nothing about their subject.
var questionWords = strings.Fields(`what when where who which why how is are was were be been do does did must may can should will of in on at to for by from
	with the a an and or it its that this time date long much many`)

func contentTokens(s string) []string {
	var out []string
	words(s, func(word []byte) {
		if w := string(word); !slices.Contains(questionWords, w) {
			out = append(out, strings.TrimSuffix(w, "s"))
		}
	})
	return out
}
