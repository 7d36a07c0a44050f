package evaluate

// This file finds answers in passages, and measures from how many sources
// passages come.

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-rag/sluice/schema"
)

// unspaced are the scripts without spaces between words: each character is a
// token.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// words calls each with every word of s: runs of letters, marks and digits after
// compatibility decomposition, in lower case. The bytes are good until each
// returns.
func words(s string, each func(word []byte)) {
	if !ascii(s) {
		s = norm.NFKD.String(s)
	}
	word := make([]byte, 0, 32)
	flush := func() {
		if len(word) > 0 {
			each(word)
		}
		word = word[:0]
	}
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf && ('a' <= r && r <= 'z' || '0' <= r && r <= '9'):
			word = append(word, byte(r))
		case r < utf8.RuneSelf && 'A' <= r && r <= 'Z':
			word = append(word, byte(r)+'a'-'A')
		case r < utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			flush()
		case unicode.In(r, unspaced...):
			flush()
			word = utf8.AppendRune(word, r)
			flush()
		default:
			word = utf8.AppendRune(word, unicode.ToLower(r))
		}
	}
	flush()
}

// article reports an English article, which comparisons of answers leave out.
func article(word string) bool { return word == "a" || word == "an" || word == "the" }

// tokens returns the tokens of s between single spaces, one at both ends too, as
// open-domain question answering compares answers (DPR's has_answer after SQuAD's
// normalisation): words, without the articles a, an and the. Empty: no token.
func tokens(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	words(s, func(word []byte) {
		if article(string(word)) {
			return
		}
		if b.Len() == 0 {
			b.WriteByte(' ')
		}
		b.Write(word)
		b.WriteByte(' ')
	})
	return b.String()
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// answerTokens are the answers that have tokens, ready to be looked for.
func answerTokens(answers []string) []string {
	var out []string
	for _, a := range answers {
		if t := tokens(a); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// Answers are right answers, ready to be compared with.
type Answers struct {
	tokens []string
	golds  []gold
}

// NewAnswers prepares answers, each of which is right.
func NewAnswers(answers []string) Answers { return Answers{answerTokens(answers), golds(answers)} }

// None reports that there is no answer with a word in it.
func (a Answers) None() bool { return len(a.tokens) == 0 }

// In reports whether one of the answers stands in a text, as open-domain question
// answering compares them (DPR's has_answer).
func (a Answers) In(text string) bool {
	text = tokens(text)
	return slices.ContainsFunc(a.tokens, func(t string) bool { return strings.Contains(text, t) })
}

// Right reports whether a short answer is right, as confidence is measured: it shares
// half of its words with one of the answers (F1), holds one, or is part of one.
func (a Answers) Right(short string) bool {
	t := tokens(short)
	alike := func(g string) bool { return strings.Contains(t, g) || t != "" && strings.Contains(g, t) }
	return slices.ContainsFunc(a.tokens, alike) || resemble(short, a.golds).f1 >= 0.5
}

// saidFrom is the token F1 from which an answer is right whose words are not all there.
const saidFrom = 0.8

// Accepts reports whether a reply is right: one of the answers stands in it, or it shares
// most words with one.
func (a Answers) Accepts(reply string) bool {
	return a.In(reply) || resemble(reply, a.golds).f1 >= saidFrom
}

// answerRank is the rank, from 1, of the first passage that holds an answer; 0:
// none does. AR@k (FunnelRAG, section 4.1) is whether it is at most k.
func answerRank(passages []schema.Candidate, answers []string) int {
	for i, p := range passages {
		text := tokens(p.Text)
		for _, a := range answers {
			if strings.Contains(text, a) {
				return i + 1
			}
		}
	}
	return 0
}

// titleEntropy is the entropy, in bits, of the titles of the first k passages:
// contextual integrity, better when lower (FunnelRAG, appendix C.3). A document
// without a title is its external id. It is not defined, NaN, without passages.
func titleEntropy(passages []schema.Candidate, k int) float64 {
	passages = passages[:min(k, len(passages))]
	if len(passages) == 0 {
		return math.NaN()
	}
	counts := map[string]float64{}
	for _, p := range passages {
		title := p.Title
		if title == "" {
			title = p.ExternalID
		}
		counts[title]++
	}
	entropy := 0.0
	for _, n := range counts {
		share := n / float64(len(passages))
		entropy -= share * math.Log2(share)
	}
	return math.Abs(entropy) // one source: 0, not -0
}
