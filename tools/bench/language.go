package main

// This file generates text for measuring an index. The cost of a search depends on how frequent
// words are, how they cluster in documents and how long texts are, so these are as in a natural
// language: frequencies follow the Zipf-Mandelbrot law, the most frequent words are English (a
// third are stop words), a document repeats the words of its topic, content words are inflected,
// and lengths are log-normal. The sentences have no meaning.

import (
	"math"
	"math/rand/v2"
	"strings"
)

// commonWords are the first words in the order of frequency, about the same as in English.
const commonWords = `the of and to in a is that for it as was with be by on not he i this are or his from at which but have an
had they you were their one all we can her has there been if more when will would who so no she other its may these what
them than some him time into only do such my new about out also two any up first could our then most see me should after
made over did many before must through where much your way well down because between each just those people how too
little good world make very year still work long get here both own under never same another while last might us great
old off come since against go came right used take three himself few house use during without again place around however
home small found thought went say part once general high upon school every`

const (
	vocabulary = 80_000 // words before inflection
	zipfS      = 1.05   // exponent of Zipf's law
	zipfV      = 2.7    // Mandelbrot's shift
	topicCount = 400
	topicWords = 300  // number of words of a topic
	topicShare = 0.25 // share of words from the topic
	sentence   = 18   // mean number of words
	// passageWords is the median length of a passage, passageSpread the deviation of its logarithm.
	passageWords  = 95
	passageSpread = 0.35
)

// language is a vocabulary in the order of frequency.
type language struct {
	words  []string
	common int // number of words from commonWords
}

// newLanguage generates the vocabulary, which is always the same.
func newLanguage() *language {
	l := &language{words: strings.Fields(commonWords)}
	l.common = len(l.words)
	taken := map[string]bool{}
	for _, w := range l.words {
		taken[w] = true
	}
	random := rand.New(rand.NewPCG(7, 7))
	onsets := strings.Fields("b br c ch cl d dr f fl g gr h j k l m n p ph pl pr qu r s sc sh st str t th tr v w")
	vowels := strings.Fields("a e i o u ai ea io oa ou")
	codas := strings.Fields("b ck d g l ll m n nd ng nt p r rd rm rn st t th v x")
	for len(l.words) < vocabulary {
		var b strings.Builder
		// Frequent words are short.
		syllables := 1 + random.IntN(2) + min(2, len(l.words)/8000)
		for range syllables {
			b.WriteString(onsets[random.IntN(len(onsets))])
			b.WriteString(vowels[random.IntN(len(vowels))])
		}
		b.WriteString(codas[random.IntN(len(codas))])
		if w := b.String(); !taken[w] {
			taken[w] = true
			l.words = append(l.words, w)
		}
	}
	return l
}

// Inflections of content words.
var inflections = []string{"", "", "", "", "", "s", "s", "ed", "ing"}

// docGenerator generates one document.
type docGenerator struct {
	*language
	random *rand.Rand
	all    *rand.Zipf
	own    *rand.Zipf // ranks within the topic's words
	topic  uint64
}

func (l *language) docGenerator(random *rand.Rand) *docGenerator {
	return &docGenerator{
		language: l, random: random, topic: random.Uint64N(topicCount),
		all: rand.NewZipf(random, zipfS, zipfV, vocabulary-1),
		own: rand.NewZipf(random, zipfS, zipfV, topicWords-1),
	}
}

// rank draws the rank of a word.
func (s *docGenerator) rank() int {
	if s.random.Float64() >= topicShare {
		return int(s.all.Uint64())
	}
	// The words of a topic are scattered over the vocabulary by a fixed hash; the square favours
	// frequent words.
	h := (s.topic*topicWords + s.own.Uint64() + 1) * 0x9E3779B97F4A7C15
	h ^= h >> 29
	x := float64(h%1_000_003) / 1_000_003
	return s.common + int(x*x*float64(vocabulary-s.common))
}

// content returns a content word, inflected.
func (s *docGenerator) content() string {
	for {
		if r := s.rank(); r >= s.common {
			return s.words[r] + inflections[s.random.IntN(len(inflections))]
		}
	}
}

// passage appends sentences of about n words.
func (s *docGenerator) passage(b *strings.Builder, n int) {
	for left := n; left > 0; {
		words := min(left, sentence/2+s.random.IntN(sentence))
		left -= words
		for i := range words {
			r := s.rank()
			w := s.words[r]
			if i == 0 {
				b.WriteString(strings.ToUpper(w[:1]))
				w = w[1:]
			} else {
				b.WriteByte(' ')
			}
			b.WriteString(w)
			if r >= s.common {
				b.WriteString(inflections[s.random.IntN(len(inflections))])
			}
		}
		b.WriteString(". ")
	}
}

// length draws a log-normal length with a median.
func (s *docGenerator) length(median, spread float64) int {
	return max(1, int(median*math.Exp(spread*s.random.NormFloat64())))
}

// title generates a short title.
func (s *docGenerator) title() string {
	words := make([]string, 3+s.random.IntN(4))
	for i := range words {
		words[i] = s.content()
	}
	t := strings.Join(words, " ")
	return strings.ToUpper(t[:1]) + t[1:]
}
