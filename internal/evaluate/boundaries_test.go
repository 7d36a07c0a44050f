package evaluate

import (
	"math"
	"strings"
	"testing"
)

// places parses boundaries in the notation of the literature: 1 is a boundary.
func places(s string) []bool {
	out := make([]bool, len(s))
	for i := range s {
		out[i] = s[i] == '1'
	}
	return out
}

func TestPkAndWindowDiff(t *testing.T) {
	const thirds = "00100100" // nine sentences in three segments of three
	for _, c := range []struct {
		what       string
		ref, hyp   string
		k          int
		pk, window float64
	}{
		// Counted by hand: 7 windows of two positions, 4 of them with a boundary.
		{"the same", thirds, thirds, 2, 0, 0},
		{"none", thirds, "00000000", 2, 4. / 7, 4. / 7},
		{"all", thirds, "11111111", 2, 3. / 7, 1},
		{"one a place late", thirds, "00010100", 2, 2. / 7, 2. / 7},
		// In the first window there is a boundary where there should be none, in the second there
		// are two where there should be one, which Pk does not notice.
		{"one too many beside one", thirds, "01100100", 2, 1. / 7, 2. / 7},
		// The examples of NLTK's documentation: 0, 0.30 and 0.80; 0.50 and 0.50.
		{"NLTK windowdiff 1", "000100000010", "000100000010", 3, 0, 0},
		{"NLTK windowdiff 2", "000100000010", "000010000100", 3, 0.3, 0.3},
		{"NLTK windowdiff 3", "000010000100", "100000010000", 3, 0.8, 0.8},
		{"NLTK pk 1", strings.Repeat("0100", 100), strings.Repeat("1", 400), 2, 199. / 399, 1},
		{"NLTK pk 2", strings.Repeat("0100", 100), strings.Repeat("0", 400), 2, 200. / 399, 200. / 399},
		{"too short", "01", "10", 3, 0, 0},
	} {
		pk, window := Pk(places(c.ref), places(c.hyp), c.k), WindowDiff(places(c.ref), places(c.hyp), c.k)
		if math.Abs(pk-c.pk) > 1e-12 || math.Abs(window-c.window) > 1e-12 {
			t.Errorf("%s: Pk %.4f, WindowDiff %.4f; want %.4f, %.4f", c.what, pk, window, c.pk, c.window)
		}
	}
	for s, want := range map[string]int{thirds: 2, "": 1, "1": 1, "000": 2, "0000000": 4, "00010000010000": 3, "00001": 2} {
		if got := WindowLength(places(s)); got != want {
			t.Errorf("%q: windows of %d, want %d", s, got, want)
		}
	}
}
