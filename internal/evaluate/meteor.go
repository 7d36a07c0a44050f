package evaluate

// This file implements METEOR (Banerjee and Lavie 2005) with two of its modules: equal words, then
// words with the same stem. It lacks the module of synonyms, which needs WordNet, so tools that
// have it give slightly higher values.

import (
	"math"
	"slices"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// meteor scores an answer against one gold: 10PR / (R + 9P) of unigram precision and recall over
// the aligned words, reduced by the share 0.5 (chunks / matches)^3 for words in another order than
// the gold's.
func meteor(answer, gold []string) float64 {
	matches, chunks := aligned(answer, gold)
	if matches == 0 {
		return 0
	}
	p, r := float64(matches)/float64(len(answer)), float64(matches)/float64(len(gold))
	penalty := 0.5 * math.Pow(float64(chunks)/float64(matches), 3)
	return 10 * p * r / (r + 9*p) * (1 - penalty)
}

// aligned aligns words one to one, as many as possible by equality and then as many of the rest by
// stem. It returns the number of matches, and of chunks: runs of words that are adjacent and in the
// same order in both. If a word occurs more than once there may be several alignments. The paper
// takes one with the fewest crossings; here the longest remaining run is aligned first, which gives
// few chunks.
func aligned(answer, gold []string) (matches, chunks int) {
	to := make([]int, len(answer)) // the aligned word of gold, from 1; 0: none
	taken := make([]bool, len(gold))
	matches = alignRuns(answer, gold, to, taken)
	matches += alignRuns(stems(answer), stems(gold), to, taken)
	before := 0
	for _, t := range to {
		if t > 0 && (before == 0 || t != before+1) {
			chunks++
		}
		before = t
	}
	return matches, chunks
}

// alignRuns aligns equal words that are not aligned yet, longest run first, then the earliest, and
// returns how many it aligned.
func alignRuns(answer, gold []string, to []int, taken []bool) int {
	n := 0
	for {
		length, a, g := longestRun(answer, gold, to, taken)
		if length == 0 {
			return n
		}
		for i := range length {
			to[a+i], taken[g+i] = g+i+1, true
		}
		n += length
	}
}

func longestRun(answer, gold []string, to []int, taken []bool) (length, a, g int) {
	runs := make([]int, len(gold)+1) // runs that end before the word
	for i, word := range answer {
		for j := len(gold) - 1; j >= 0; j-- {
			if to[i] > 0 || taken[j] || word != gold[j] {
				runs[j+1] = 0
				continue
			}
			runs[j+1] = runs[j] + 1
			// Of runs at the same words of the answer, take the first in the gold.
			begins := j + 1 - runs[j+1]
			if at := i + 1 - runs[j+1]; runs[j+1] > length || runs[j+1] == length && at == a && begins < g {
				length, a, g = runs[j+1], at, begins
			}
		}
	}
	return length, a, g
}

// stems returns the words' stems by the Snowball stemmer for English.
func stems(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		env := snowballstem.NewEnv(w)
		english.Stem(env)
		out[i] = env.Current()
	}
	return out
}
