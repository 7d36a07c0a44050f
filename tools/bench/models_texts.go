package main

// This file generates input for the model server: prose of real English words, because a made-up
// language would make the tokenizer's work harder.

import (
	"math/rand/v2"
	"strings"
)

// modelTexts are sentences, passages of about 100 words, and questions.
type modelTexts struct {
	sentences []string
	passages  []string
	questions []string
}

func newModelTexts(seed uint64) *modelTexts {
	random := rand.New(rand.NewPCG(seed, 7))
	t := &modelTexts{}
	all := topics()
	for len(t.sentences) < 8000 {
		w := &writer{random: random, topic: all[random.IntN(len(all))]}
		w.turn()
		for range 10 {
			t.sentences = append(t.sentences, w.sentence())
		}
	}
	for range 2000 {
		from := random.IntN(len(t.sentences) - 10)
		t.passages = append(t.passages, strings.Join(t.sentences[from:from+3+random.IntN(7)], " "))
	}
	for range 200 {
		words := strings.Fields(t.sentences[random.IntN(len(t.sentences))])
		t.questions = append(t.questions, "Why is it that "+strings.Join(words[:min(len(words), 4+random.IntN(8))], " ")+"?")
	}
	return t
}

// runs returns 50 sections of 40 sentences, different for each i.
func (t *modelTexts) runs(i int) [][]string {
	out := make([][]string, 50)
	for j := range out {
		from := (i*977 + j*40) % (len(t.sentences) - 40)
		out[j] = t.sentences[from : from+40]
	}
	return out
}

// some returns n passages.
func (t *modelTexts) some(i, n int) []string {
	from := i * 131 % (len(t.passages) - n)
	return t.passages[from : from+n]
}

// mixed returns n texts of all lengths: sentences, passages and sections.
func (t *modelTexts) mixed(i, n int) []string {
	out := make([]string, n)
	for j := range out {
		switch k := i*131 + j; j % 4 {
		case 0:
			from := k % (len(t.sentences) - 20)
			out[j] = strings.Join(t.sentences[from:from+12+k%9], " ")
		case 1:
			out[j] = t.sentences[k%len(t.sentences)]
		default:
			out[j] = t.passages[k%len(t.passages)]
		}
	}
	return out
}
