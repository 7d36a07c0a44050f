package evaluate

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The expected forms are from SQuAD's published evaluate-v1.1.py.
func TestSquadWords(t *testing.T) {
	for in, want := range map[string]string{
		"The Eiffel Tower!":    "eiffel tower",
		"U.S.":                 "us",
		"O'Brien, an  artist.": "obrien artist",
		"twenty-one":           "twentyone",
		"$1,500.50":            "150050",
		"a":                    "",
		"Theatre":              "theatre", // the article is a word, not a part of one
		"Beyonce\u0301":        "beyoncé",
	} {
		if got := strings.Join(squadWords(in), " "); got != want {
			t.Errorf("%q is compared as %q, not %q", in, got, want)
		}
	}
}

func TestExactMatchAndF1(t *testing.T) {
	for _, c := range []struct {
		answer, gold string
		em, f1       float64
	}{
		{"the Eiffel Tower.", "Eiffel tower", 1, 1},
		{"in October 1973", "October 1973", 0, 0.8}, // P 2/3, R 1
		{"1973", "October 1973", 0, 2. / 3},         // P 1, R 1/2
		{"oil oil oil", "oil price", 0, 0.4},        // common once: P 1/3, R 1/2
		{"price of oil", "oil of price", 0, 1},      // F1 knows no order
		{"embargo", "October 1973", 0, 0},
		{"", "October", 0, 0},
		{"The", "a", 1, 1}, // both have no words left
	} {
		a, g := squadWords(c.answer), squadWords(c.gold)
		near(t, "EM of "+c.answer, exactMatch(a, g), c.em)
		near(t, "F1 of "+c.answer, wordF1(a, g), c.f1)
	}
}

// The first two examples are Lin's own (2004, section 3.1): of S2 and S3 only the first keeps the
// order.
func TestRougeL(t *testing.T) {
	for _, c := range []struct {
		answer, gold string
		want         float64
	}{
		{"police kill the gunman", "police killed the gunman", 0.75},
		{"the gunman kill police", "police killed the gunman", 0.5},
		{"The gunman police killed.", "police killed the gunman", 0.5}, // "the gunman" or "police killed"
		{"killed", "police killed the gunman", 0.4},                    // P 1, R 1/4
		{"Police killed: the gunman!", "police killed the gunman", 1},
		{"nothing of it", "police killed the gunman", 0},
		{"", "police", 0},
	} {
		near(t, c.answer, rougeL(plainWords(c.answer), plainWords(c.gold)), c.want)
	}
}

// The sentences and counts are from Papineni et al. 2002, section 2. Of candidate 1's 18 words 17
// are in a reference, and 10 of its 17 bigrams. Of candidate 2's 14 words 8 are, and 1 of its 13
// bigrams.
func TestBLEU(t *testing.T) {
	references := [][]string{
		plainWords("It is a guide to action that ensures that the military will forever heed Party commands."),
		plainWords("It is the guiding principle which guarantees the military forces always being under the command of the Party."),
		plainWords("It is the practical guide for the army always to heed the directions of the party."),
	}
	one := plainWords("It is a guide to action which ensures that the military always obeys the commands of the party.")
	two := plainWords("It is to insure the troops forever hearing the activity guidebook that party direct.")
	near(t, "BLEU-1 of candidate 1", bleu(one, references, 1), 17./18) // a reference of 18 words is as long
	near(t, "BLEU-2 of candidate 1", bleu(one, references, 2), math.Sqrt(17./18*11/18))
	// Trigrams 7 of 16 and 4-grams 4 of 15, counted by hand.
	near(t, "BLEU-4 of candidate 1", bleu(one, references, 4), math.Pow(17./18*11/18*8/17*5/16, 0.25))
	// 14 words; the nearest references have 16.
	near(t, "BLEU-1 of candidate 2", bleu(two, references, 1), 8./14*math.Exp(1-16./14))
	near(t, "BLEU-2 of candidate 2", bleu(two, references, 2), math.Sqrt(8./14*2/14)*math.Exp(1-16./14))

	// Papineni's second example: of seven times "the" two count, as in the better reference.
	cat := [][]string{plainWords("The cat is on the mat."), plainWords("There is a cat on the mat.")}
	near(t, "the the the", bleu(plainWords("the the the the the the the"), cat, 1), 2./7)
	// Of two references that are equally near in length the shorter counts: no penalty.
	near(t, "between two lengths", bleu(plainWords("the cat is"), [][]string{plainWords("cat is"), plainWords("the cat is on")}, 1), 1)
	near(t, "between two lengths, the longer first", bleu(plainWords("the cat is"), [][]string{plainWords("the cat is on"), plainWords("cat is")}, 1), 1)
	near(t, "nearer to the longer", bleu(plainWords("the cat is"), [][]string{plainWords("cat"), plainWords("the cat is on")}, 1), math.Exp(1-4./3))

	near(t, "a right word", bleu(plainWords("1973"), [][]string{{"1973"}}, 4), 1)
	near(t, "half of it", bleu(plainWords("October"), [][]string{{"october", "1973"}}, 4), math.Exp(-1))
	near(t, "none of it", bleu(plainWords("embargo"), [][]string{{"1973"}}, 4), 0)
	near(t, "nothing", bleu(nil, [][]string{{"1973"}}, 4), 0)
	near(t, "nothing to compare with", bleu(plainWords("1973"), nil, 4), 0)
}

func TestMETEOR(t *testing.T) {
	for _, c := range []struct {
		answer, gold    string
		matches, chunks int
		want            float64
	}{
		// The example of Banerjee and Lavie 2005, section 2.2: two chunks. P 6/7, R 1: Fmean 60/61.
		{"the president then spoke to the audience", "the president spoke to the audience", 6, 2, 60. / 61 * (1 - 0.5/27)},
		{"the cat sat", "the cat sat", 3, 1, 1 - 0.5/27},        // one chunk of three
		{"sat cat the", "the cat sat", 3, 3, 0.5},               // as many chunks as words
		{"the cats sat", "the cat sits", 2, 1, 2. / 3 * 0.9375}, // "cats" matches by its stem; the stem of "sat" differs from that of "sits"
		{"commanded party", "commands parties", 2, 1, 0.9375},
		{"cat", "the cat sat", 1, 1, 10. / 28 * 0.5}, // P 1, R 1/3: Fmean 10/28
		// One to one: P 1, R 1/2, and the other way round.
		{"oil", "oil oil", 1, 1, 10. / 19 * 0.5},
		{"oil oil", "oil", 1, 1, 10. / 11 * 0.5},
		{"on the mat sat the cat", "the cat sat on the mat", 6, 3, 1 - 0.5/8},
		{"a dog", "the cat", 0, 0, 0},
		{"", "the cat", 0, 0, 0},
	} {
		a, g := plainWords(c.answer), plainWords(c.gold)
		if matches, chunks := aligned(a, g); matches != c.matches || chunks != c.chunks {
			t.Errorf("%q: %d matches in %d chunks, not %d in %d", c.answer, matches, chunks, c.matches, c.chunks)
		}
		near(t, c.answer, meteor(a, g), c.want)
	}
}

// An exact match takes precedence over one by stem, at any position.
func TestMETEORPrefersWordsToStems(t *testing.T) {
	if got := stems([]string{"commands", "commanded", "parties"}); !slices.Equal(got, []string{"command", "command", "parti"}) {
		t.Fatalf("stems are %q", got)
	}
	if matches, chunks := aligned([]string{"command", "commands"}, []string{"commands", "x", "command"}); matches != 2 || chunks != 2 {
		t.Errorf("%d matches in %d chunks", matches, chunks)
	}
}
