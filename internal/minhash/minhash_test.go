package minhash_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/minhash"
)

func signature(t *testing.T, texts ...string) minhash.Signature {
	t.Helper()
	s, ok := sign(texts...)
	if !ok {
		t.Fatalf("too short: %.80q", texts)
	}
	return s
}

func sign(texts ...string) (minhash.Signature, bool) {
	b := minhash.NewBuilder()
	for _, text := range texts {
		b.Add(text)
	}
	return b.Signature()
}

// jaccard returns the exact similarity of texts without punctuation whose words are separated by
// spaces.
func jaccard(a, b string) float64 {
	shingles := func(s string) map[string]bool {
		out := map[string]bool{}
		words := strings.Fields(strings.ToLower(s))
		for i := range len(words) - 2 {
			out[strings.Join(words[i:i+3], " ")] = true
		}
		return out
	}
	x, y := shingles(a), shingles(b)
	both := 0
	for s := range x {
		if y[s] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

func randomText(random *rand.Rand, words int) []string {
	out := make([]string, words)
	for i := range out {
		out[i] = fmt.Sprintf("w%d", random.IntN(5000))
	}
	return out
}

// The estimate has the documented standard error, and pairs share keys with the documented
// probability.
func TestEstimateAgainstExactJaccard(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, changed := range []float64{0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.5} {
		const pairs = 200
		sum, square, claimed, shared, expected := 0.0, 0.0, 0.0, 0.0, 0.0
		for range pairs {
			a := randomText(random, 400)
			b := slices.Clone(a)
			for i := range b {
				if random.Float64() < changed {
					b[i] = fmt.Sprintf("other%d", random.IntN(5000))
				}
			}
			x, y := strings.Join(a, " "), strings.Join(b, " ")
			exact := jaccard(x, y)
			sx, sy := signature(t, x), signature(t, y)
			d := minhash.Similarity(sx, sy) - exact
			sum, square, claimed = sum+d, square+d*d, claimed+exact*(1-exact)/minhash.Permutations
			expected += 1 - math.Pow(1-math.Pow(exact, minhash.Rows), minhash.Bands)
			keys := sy.Keys([16]byte{})
			if slices.ContainsFunc(sx.Keys([16]byte{}), func(k int64) bool { return slices.Contains(keys, k) }) {
				shared++
			}
		}
		mean, deviation, want := sum/pairs, math.Sqrt(square/pairs), math.Sqrt(claimed/pairs)
		if math.Abs(mean) > 0.015 || deviation > 1.3*want+1e-9 {
			t.Errorf("%g of the words changed: the estimate is off by %.3f on average, with a deviation of %.3f, not %.3f", changed, mean, deviation, want)
		}
		if math.Abs(shared-expected)/pairs > 0.1 {
			t.Errorf("%g of the words changed: %.2f of the pairs share a key, not %.2f", changed, shared/pairs, expected/pairs)
		}
	}
}

func TestTextsOfTheSameWordsAreTheSame(t *testing.T) {
	text := strings.Join(randomText(rand.New(rand.NewPCG(3, 4)), 300), " ")
	a := signature(t, text)
	half := strings.Index(text[len(text)/2:], " ") + len(text)/2
	for name, other := range map[string][]string{
		"capitals and marks":    {strings.ToUpper(strings.ReplaceAll(text, " w1", ",\n\n- w1"))},
		"cut into two sections": {text[:half], text[half:]},
	} {
		if s := minhash.Similarity(a, signature(t, other...)); s != 1 {
			t.Errorf("%s: similarity %g", name, s)
		}
	}
}

func TestShortTextsAreSimilarToNone(t *testing.T) {
	short := "This page is intentionally left blank."
	for _, texts := range [][]string{nil, {""}, {short}, {strings.Repeat(short+" ", 500)}} {
		s, ok := sign(texts...)
		if ok || len(s.Keys([16]byte{})) != 0 || minhash.Similarity(s, s) != 0 || len(s.Bytes()) != 0 {
			t.Errorf("%.40q is compared", texts)
		}
	}
}

func TestScriptsWithoutSpaces(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for name, letters := range map[string][2]rune{"Chinese": {0x4E00, 0x5000}, "Thai": {0x0E01, 0x0E2E}} {
		text := func(n int) []rune {
			out := make([]rune, n)
			for i := range out {
				out[i] = letters[0] + rune(random.IntN(int(letters[1]-letters[0])))
			}
			return out
		}
		a := text(1500)
		b := slices.Clone(a)
		copy(b[700:], text(60)) // a sentence or two
		b = append(text(1), b...)
		x := signature(t, string(a))
		if s := minhash.Similarity(x, signature(t, string(b))); s < 0.75 || s == 1 {
			t.Errorf("%s: a text and its next version have similarity %g", name, s)
		}
		if s := minhash.Similarity(x, signature(t, string(text(1500)))); s > 0.1 {
			t.Errorf("%s: two texts have similarity %g", name, s)
		}
	}
}

func TestSignaturesAreStored(t *testing.T) {
	s := signature(t, strings.Join(randomText(rand.New(rand.NewPCG(7, 8)), 300), " "))
	if got, err := minhash.Decode(s.Bytes()); err != nil || got != s {
		t.Errorf("decoded otherwise: %v", err)
	}
	if got, err := minhash.Decode(nil); err != nil || got != (minhash.Signature{}) {
		t.Errorf("no bytes are no signature: %v", err)
	}
	for _, k := range s.Keys([16]byte{1}) {
		if slices.Contains(s.Keys([16]byte{2}), k) {
			t.Error("two scopes have a key in common")
		}
	}
	if _, err := minhash.Decode(s.Bytes()[1:]); err == nil {
		t.Error("a part of a signature was read")
	}
	// Signatures that one build stores are compared by the next.
	var words strings.Builder
	for i := range 100 {
		fmt.Fprintf(&words, "word%d ", i)
	}
	if s := signature(t, words.String()); s[0] != 80494558 || s[99] != 56843965 || s.Keys([16]byte{})[0] != -7576708626493429241 {
		t.Errorf("the signature of a text changed: %d, %d, key %d", s[0], s[99], s.Keys([16]byte{})[0])
	}
}

func BenchmarkAdd(b *testing.B) {
	text := strings.Join(randomText(rand.New(rand.NewPCG(9, 10)), 10_000), " ")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		builder := minhash.NewBuilder()
		builder.Add(text)
	}
}
