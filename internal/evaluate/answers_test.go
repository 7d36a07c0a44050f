package evaluate

import (
	"math"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

func TestTokens(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"  -- ":                      "",
		"The":                        "",
		"The Eiffel Tower!":          " eiffel tower ",
		"an apple a day":             " apple day ",
		"U.S. $1,500":                " u s 1 500 ",
		"Michael\tGrimm\n":           " michael grimm ",
		"ﬁve":                        " five ",      // a ligature
		"汶川大地震":                      " 汶 川 大 地 震 ", // no spaces between words
		"mid-1990s":                  " mid 1990s ",
		"Shanghai—1,500 km (930 mi)": " shanghai 1 500 km 930 mi ",
	} {
		if got := tokens(in); got != want {
			t.Errorf("tokens of %q are %q, not %q", in, got, want)
		}
	}
	if tokens("Beyoncé") != tokens("Beyonce\u0301") {
		t.Error("the two ways to write é differ")
	}
}

func passages(texts ...string) []schema.Candidate {
	out := make([]schema.Candidate, len(texts))
	for i, t := range texts {
		out[i].Text = t
	}
	return out
}

func TestAnswerRank(t *testing.T) {
	for _, c := range []struct {
		name     string
		passages []schema.Candidate
		answers  []string
		rank     int
	}{
		{"in the second", passages("nothing here", "won by the Michael Grimm."), []string{"Michael Grimm"}, 2},
		{"case, punctuation and articles aside", passages("THE U.S. ARMY"), []string{"a U S army"}, 1},
		{"whole tokens only", passages("in 19735", "in 1973."), []string{"1973"}, 2},
		{"in order, without gaps", passages("Grimm Michael", "Michael B Grimm"), []string{"Michael Grimm"}, 0},
		{"any of the answers", passages("x", "y", "nearly $12 globally"), []string{"eleven", "nearly $12"}, 3},
		{"no passages", nil, []string{"x"}, 0},
		{"a name in characters", passages("(Chinese: 汶川大地震; pinyin)"), []string{"汶川"}, 1},
	} {
		if got := answerRank(c.passages, answerTokens(c.answers)); got != c.rank {
			t.Errorf("%s: rank %d, not %d", c.name, got, c.rank)
		}
	}
	if got := answerTokens([]string{"the", "%", ""}); len(got) != 0 {
		t.Errorf("answers without tokens are looked for: %q", got)
	}
}

func TestAnswerRecall(t *testing.T) {
	all := map[string]measure{}
	for _, m := range measures([]int{2}) {
		all[m.name] = m
	}
	o := &observation{answers: true, answerRank: 2}
	near(t, "ar@1", all["ar@1"].of(o), 0)
	near(t, "ar@2, asked for", all["ar@2"].of(o), 1)
	near(t, "ar@4", all["ar@4"].of(o), 1)
	near(t, "ar@4, not found", all["ar@4"].of(&observation{answers: true}), 0)
	near(t, "ar@4, no answer known", all["ar@4"].of(&observation{}), math.NaN())
}

func TestTitleEntropy(t *testing.T) {
	titled := func(titles ...string) []schema.Candidate {
		out := make([]schema.Candidate, len(titles))
		for i, title := range titles {
			out[i] = schema.Candidate{Title: title, ExternalID: string(rune('A' + i))}
		}
		return out
	}
	near(t, "one source", titleEntropy(titled("x", "x", "x", "x"), 4), 0)
	near(t, "two and two", titleEntropy(titled("x", "y", "y", "x"), 4), 1)
	near(t, "four sources", titleEntropy(titled("w", "x", "y", "z"), 4), 2)
	near(t, "three and one", titleEntropy(titled("x", "x", "y", "x"), 4), 0.75*math.Log2(4./3)+0.25*2)
	near(t, "only the first four", titleEntropy(titled("x", "x", "x", "x", "y", "z"), 4), 0)
	near(t, "fewer than four", titleEntropy(titled("x", "y"), 4), 1)
	near(t, "no titles: the ids", titleEntropy(titled("", ""), 4), 1)
	near(t, "nothing found", titleEntropy(nil, 4), math.NaN())
}

func TestEvidenceRecall(t *testing.T) {
	paragraph := "The crisis began in October. Prices rose to $12. It was called the first oil shock."
	for _, c := range []struct {
		name     string
		evidence []string
		context  []string
		want     float64
	}{
		{"all of a paragraph", []string{paragraph}, []string{"Before. " + paragraph + " After."}, 1},
		{"two of its three sentences", []string{paragraph}, []string{"The crisis began in October. Prices rose to $12."}, 2. / 3},
		{"in two passages", []string{paragraph}, []string{"It was called the first oil shock.", "x", "The crisis began in October. Prices rose to $12."}, 1},
		{"white space aside", []string{"Prices  rose\nto $12."}, []string{"Prices rose to $12."}, 1},
		{"one piece of two", []string{"Alpha is first.", "Beta is second."}, []string{"We know that Beta is second."}, 0.5},
		{"pieces weigh alike, whatever their length", []string{"Alpha is first.", paragraph}, []string{"Alpha is first."}, 0.5},
		{"case counts: evidence is verbatim", []string{"Alpha is first."}, []string{"alpha is first."}, 0},
		{"nothing selected", []string{"Alpha is first."}, nil, 0},
	} {
		context := make([]schema.Candidate, len(c.context))
		for i, text := range c.context {
			context[i].Text = text
		}
		near(t, c.name, evidenceRecall(evidenceSentences(c.evidence), contextTexts(context)), c.want)
	}
	if got := evidenceSentences([]string{" ", "—"}); len(got) != 0 {
		t.Errorf("evidence without a word is looked for: %q", got)
	}
}

// A sentence across two passages is in the context if both are selected, in any order.
func TestTouchingPassagesAreOneText(t *testing.T) {
	section, other := uuid.New(), uuid.New()
	piece := func(section uuid.UUID, start int, text string) schema.Candidate {
		return schema.Candidate{Text: text, Spans: []schema.Span{{Section: section, Start: start, End: start + len(text)}}}
	}
	whole := "Alpha is first, and Beta is second. Gamma."
	evidence := evidenceSentences([]string{"Alpha is first, and Beta is second."})
	for _, c := range []struct {
		name    string
		context []schema.Candidate
		want    float64
	}{
		{"touching", []schema.Candidate{piece(section, 0, whole[:15]), piece(section, 15, whole[15:])}, 1},
		{"the later one first", []schema.Candidate{piece(section, 15, whole[15:]), piece(section, 0, whole[:15])}, 1},
		{"overlapping", []schema.Candidate{piece(section, 0, whole[:20]), piece(section, 10, whole[10:])}, 1},
		{"one inside the other", []schema.Candidate{piece(section, 0, whole), piece(section, 5, whole[5:9])}, 1},
		{"with a gap", []schema.Candidate{piece(section, 0, whole[:10]), piece(section, 15, whole[15:])}, 0},
		{"of another section", []schema.Candidate{piece(section, 0, whole[:15]), piece(other, 15, whole[15:])}, 0},
		{"of two spans", []schema.Candidate{{Text: whole, Spans: []schema.Span{{Section: section}, {Section: other}}}}, 1},
	} {
		near(t, c.name, evidenceRecall(evidence, contextTexts(c.context)), c.want)
	}
}

func TestContextTokens(t *testing.T) {
	if got := contextTokens(passages("Two words.", "One")); got != 4 { // the full stop counts
		t.Errorf("%d tokens, not 4", got)
	}
}

// TestRepliesThatSayAnAnswer: a reply is right if it contains an answer or shares most words with
// it. A part of an answer is not enough.
func TestRepliesThatSayAnAnswer(t *testing.T) {
	a := NewAnswers([]string{"14 December 1972 UTC", "the ribs of the ship"})
	for reply, want := range map[string]bool{
		"It was on 14 December, 1972 UTC.": true, "14 December 1972": true, "December 1972": false, "1972": false, "ribs of a ship": true,
		"": false, "Nobody knows.": false, "On 13 December 1972 UTC, a Wednesday": false,
	} {
		if got := a.Accepts(reply); got != want {
			t.Errorf("%q: %t", reply, got)
		}
	}
}
