package evaluate

// This file is METEOR (Banerjee and Lavie 2005) with two of its modules: words
// that are the same, then words of the same stem. It has no module of synonyms,
// which needs WordNet, so values of tools that have one are a little higher.

import (
	"math"
	"slices"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// meteor scores an answer against one gold: 10PR / (R + 9P) of unigram precision
// and recall over the aligned words, less the share 0.5 (chunks / matches)^3 for
// an order that is not the gold's.
func meteor(answer, gold []string) float64 {
	matches, chunks := aligned(answer, gold)
	if matches == 0 {
		return 0
	}
	p, r := float64(matches)/float64(len(answer)), float64(matches)/float64(len(gold))
	penalty := 0.5 * math.Pow(float64(chunks)/float64(matches), 3)
	return 10 * p * r / (r + 9*p) * (1 - penalty)
}

// aligned aligns words one to one, as many as can be in the first module and then
// of the rest in the second, and returns how many and in how many chunks: runs of
// words that stand side by side, in the same order, in both. Of the alignments
// that there may be when a word comes more than once, the paper takes one with the
// fewest crossings; here the longest run that is left is aligned first, which gives
// few chunks.
func aligned(answer, gold []string) (matches, chunks int) {
	to := make([]int, len(answer)) // the gold's word, from 1; 0: none
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

// alignRuns aligns equal words that are not aligned yet, the longest run first, of
// equals the one that begins first, and returns how many it has aligned.
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
	runs := make([]int, len(gold)+1) // that end before the word
	for i, word := range answer {
		for j := len(gold) - 1; j >= 0; j-- {
			if to[i] > 0 || taken[j] || word != gold[j] {
				runs[j+1] = 0
				continue
			}
			runs[j+1] = runs[j] + 1
			// Of the same answer's words the run that begins first in the gold.
			begins := j + 1 - runs[j+1]
			if at := i + 1 - runs[j+1]; runs[j+1] > length || runs[j+1] == length && at == a && begins < g {
				length, a, g = runs[j+1], at, begins
			}
		}
	}
	return length, a, g
}

// stems are the words' stems by the Snowball stemmer of English.
func stems(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		env := snowballstem.NewEnv(w)
		english.Stem(env)
		out[i] = env.Current()
	}
	return out
}
