package answer_test

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/question/answer"
)

func TestViewOf(t *testing.T) {
	const question = "When did the mill open?"
	read := func(first, second float64) []answer.ReaderSpan {
		return []answer.ReaderSpan{{Text: "in 1952", Score: first}, {Text: "12 June 1949", Score: second}}
	}
	for name, c := range map[string]struct {
		sentence, question string
		read               []answer.ReaderSpan
		want               answer.ReaderVerdict
	}{
		"what reads best":                        {"The mill opened in 1952.", question, read(9, 1), answer.SameAnswer},
		"the answer alone":                       {"1952", question, read(9, 1), answer.SameAnswer},
		"part of what reads best":                {"The mill opened on 12 June 1949.", question, read(1, 9), answer.SameAnswer},
		"another, far behind":                    {"The mill opened on 12 June 1949.", question, read(9, 1), answer.OtherAnswer},
		"another, near by":                       {"The mill opened on 12 June 1949.", question, read(9, 5.5), answer.NoVerdict},
		"one that was not read":                  {"The mill opened in 1960.", question, read(9, 1), answer.OtherAnswer},
		"another, but nothing reads like one":    {"The mill opened in 1960.", question, read(-3, -9), answer.NoVerdict},
		"what reads best, but not like one":      {"The mill opened in 1952.", question, read(-1, -9), answer.NoVerdict},
		"nothing was read":                       {"The mill opened in 1960.", question, nil, answer.NoVerdict},
		"nothing that the question does not say": {"The mill opened.", question, read(9, 1), answer.NoVerdict},
		"yes or no":                              {"Yes, in 1960.", "Did the mill open?", read(9, 1), answer.NoVerdict},
	} {
		if got := answer.CompareWithReader(c.sentence, c.question, c.read); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSupports(t *testing.T) {
	const question = "Who painted the hall in 1952?"
	quote := answer.Evidence{Quote: "Mary Ann Tolm painted the hall, and Jon Brent the stairs.", Context: "The mill"}
	of := func(passage string, read ...answer.ReaderSpan) answer.Evidence {
		e := quote
		e.Passage, e.Read = passage, read
		return e
	}
	for name, c := range map[string]struct {
		sentence string
		e        answer.Evidence
		trust    answer.Trust
		want     bool
	}{
		"the question's number is in the passage":  {"Mary Ann Tolm painted the hall in 1952.", of("The works began in 1952. Mary Ann Tolm painted the hall."), answer.Claimed, true},
		"the question's number is nowhere":         {"Mary Ann Tolm painted the hall in 1952.", of("Mary Ann Tolm painted the hall."), answer.Claimed, false},
		"more than the quote says":                 {"Mary Ann Tolm painted the hall quickly.", of(""), answer.Unclaimed, false},
		"the same, and it is what reads best":      {"Mary Ann Tolm painted the hall quickly.", of("", answer.ReaderSpan{Text: "Mary Ann Tolm", Score: 5}), answer.Unclaimed, true},
		"the same, and something else reads best":  {"Mary Ann Tolm painted the hall quickly.", of("", answer.ReaderSpan{Text: "the stairs", Score: 5}), answer.Unclaimed, false},
		"a made-up name is so whatever reads best": {"Mary Ann Tolm painted the hall for Anna Bray.", of("", answer.ReaderSpan{Text: "Mary Ann Tolm", Score: 5}), answer.Claimed, false},
	} {
		if got := answer.Supports(c.sentence, question, c.e, c.trust); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
