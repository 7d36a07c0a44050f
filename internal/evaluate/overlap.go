package evaluate

// This file compares the text of an answer with right answers: exact match and F1 as in SQuAD,
// ROUGE-L and BLEU. METEOR is in meteor.go.

import (
	"math"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// squadWords returns the words of an answer as SQuAD's evaluation compares them (Rajpurkar et al.
// 2016): in lower case, with ASCII punctuation deleted, not replaced, so that "U.S." is "us",
// without the articles a, an and the, split at white space.
func squadWords(s string) []string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) {
			return -1
		}
		return r
	}, strings.ToLower(norm.NFC.String(s)))
	return slices.DeleteFunc(strings.Fields(s), article)
}

// exactMatch returns 1 if two answers have the same words (squadWords), else 0.
func exactMatch(answer, gold []string) float64 {
	if slices.Equal(answer, gold) {
		return 1
	}
	return 0
}

// wordF1 returns the harmonic mean of precision and recall of the words (squadWords) that answer
// and gold have in common, repetitions counted. If either has no words it returns exactMatch.
func wordF1(answer, gold []string) float64 {
	if len(answer) == 0 || len(gold) == 0 {
		return exactMatch(answer, gold)
	}
	common := clipped(counted(answer, 1), counted(gold, 1))
	return harmonic(float64(common)/float64(len(answer)), float64(common)/float64(len(gold)))
}

func harmonic(p, r float64) float64 {
	if p+r == 0 {
		return 0
	}
	return 2 * p * r / (p + r)
}

// plainWords returns the words that ROUGE, BLEU and METEOR compare: those of answer recall, with
// the articles.
func plainWords(s string) []string {
	var out []string
	words(s, func(word []byte) { out = append(out, string(word)) })
	return out
}

// rougeL is ROUGE-L of one sentence (Lin 2004, section 3.1) with beta 1: the harmonic mean of the
// length of the longest common subsequence, relative to the answer and relative to the gold.
func rougeL(answer, gold []string) float64 {
	if len(answer) == 0 || len(gold) == 0 {
		return 0
	}
	row := make([]int, len(gold)+1) // of the table of longest common subsequences
	for _, a := range answer {
		diagonal := 0
		for j, g := range gold {
			above := row[j+1]
			if a == g {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	length := float64(row[len(gold)])
	return harmonic(length/float64(len(answer)), length/float64(len(gold)))
}

// bleu is BLEU (Papineni et al. 2002) of one answer over n-grams of 1 to order words: the geometric
// mean of the clipped precisions, times the brevity penalty exp(1 - r/c) of an answer of c words
// that is shorter than the gold nearest to it in length, with r words; of two equally near golds,
// the shorter. One sentence often has no 4-gram in common, so for n > 1 one match and one n-gram
// are added (Lin and Och 2004). If an answer is too short to have n-grams the precision is 1, so
// that a right answer of one word is right.
func bleu(answer []string, golds [][]string, order int) float64 {
	if len(answer) == 0 || len(golds) == 0 {
		return 0
	}
	logs := 0.0
	for n := 1; n <= order; n++ {
		maxCounts := map[string]int{} // in any single gold
		for _, g := range golds {
			for gram, count := range counted(g, n) {
				maxCounts[gram] = max(maxCounts[gram], count)
			}
		}
		matched, all := clipped(counted(answer, n), maxCounts), max(0, len(answer)-n+1)
		if n > 1 {
			matched, all = matched+1, all+1
		}
		if matched == 0 {
			return 0
		}
		logs += math.Log(float64(matched) / float64(all))
	}
	near := len(golds[0])
	for _, g := range golds[1:] {
		before, now := distance(near, len(answer)), distance(len(g), len(answer))
		if now < before || now == before && len(g) < near {
			near = len(g)
		}
	}
	brevity := min(0, 1-float64(near)/float64(len(answer)))
	return math.Exp(logs/float64(order) + brevity)
}

func distance(a, b int) int { return max(a-b, b-a) }

// counted returns the counts of the n-grams of words.
func counted(words []string, n int) map[string]int {
	out := map[string]int{}
	for i := range max(0, len(words)-n+1) {
		out[strings.Join(words[i:i+n], " ")]++
	}
	return out
}

// clipped returns the number of n-grams in common, repetitions counted up to their number in b.
func clipped(a, b map[string]int) int {
	n := 0
	for gram, count := range a {
		n += min(count, b[gram])
	}
	return n
}

// best returns the highest value of a comparison with any of the golds, 0 if there are none.
func best(answer []string, golds [][]string, compare func(answer, gold []string) float64) float64 {
	out := 0.0
	for _, g := range golds {
		out = max(out, compare(answer, g))
	}
	return out
}
