package evaluate

// This file finds answers in passages, and measures how many sources the passages come from.

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-rag/sluice/schema"
)

// unspaced are the scripts without spaces between words, in which each character is a token.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// words calls each with every word of s: runs of letters, marks and digits after compatibility
// decomposition, in lower case. The slice is valid only during the call.
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

// article reports whether word is an English article, which comparisons of answers ignore.
func article(word string) bool { return word == "a" || word == "an" || word == "the" }

// tokens returns the tokens of s, separated by single spaces and with one at both ends, as
// open-domain question answering compares answers (DPR's has_answer after SQuAD's normalisation):
// words, without the articles a, an and the. It returns "" if there is no token.
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

// answerTokens returns the tokens of each answer that has any.
func answerTokens(answers []string) []string {
	var out []string
	for _, a := range answers {
		if t := tokens(a); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// Answers are right answers, prepared for comparison.
type Answers struct {
	tokens []string
	golds  []gold
}

// NewAnswers prepares alternative right answers.
func NewAnswers(answers []string) Answers { return Answers{answerTokens(answers), golds(answers)} }

// None reports whether no answer has a word.
func (a Answers) None() bool { return len(a.tokens) == 0 }

// In reports whether a text contains one of the answers, as open-domain question answering compares
// them (DPR's has_answer).
func (a Answers) In(text string) bool {
	text = tokens(text)
	return slices.ContainsFunc(a.tokens, func(t string) bool { return strings.Contains(text, t) })
}

// Right reports whether a short answer is right for the purpose of confidence: its F1 with one of
// the answers is at least 0.5, it contains one, or it is part of one.
func (a Answers) Right(short string) bool {
	t := tokens(short)
	contained := func(g string) bool { return strings.Contains(t, g) || t != "" && strings.Contains(g, t) }
	return slices.ContainsFunc(a.tokens, contained) || similaritiesTo(short, a.golds).f1 >= 0.5
}

// minAnswerF1 is the token F1 from which a reply is right that does not contain an answer.
const minAnswerF1 = 0.8

// Accepts reports whether a reply is right: it contains one of the answers, or shares most words
// with one.
func (a Answers) Accepts(reply string) bool {
	return a.In(reply) || similaritiesTo(reply, a.golds).f1 >= minAnswerF1
}

// answerRank returns the rank, from 1, of the first passage that contains an answer; 0: none does.
// AR@k (FunnelRAG, section 4.1) is 1 if it is at most k.
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

// titleEntropy returns the entropy, in bits, of the titles of the first k passages: contextual
// integrity, better when lower (FunnelRAG, appendix C.3). The external id stands for a missing
// title. It is NaN without passages.
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
	return math.Abs(entropy) // 0 instead of -0 for one source
}
