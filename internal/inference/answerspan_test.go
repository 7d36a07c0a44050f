package inference

import (
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
)

func TestBestSpan(t *testing.T) {
	for _, c := range []struct {
		name        string
		start, end  []float32
		longest     int
		first, last int
		score       float32
	}{
		{"one token", []float32{-5}, []float32{-7}, 30, 0, 0, -12},
		{"end before start is none", []float32{0, 0, 10}, []float32{9, 1, 0}, 30, 2, 2, 10},
		{"the best pair, not the best ends", []float32{5, 0, 6}, []float32{0, 8, 1}, 30, 0, 1, 13},
		{"no longer than allowed", []float32{9, 0, 0, 0}, []float32{0, 1, 0, 9}, 2, 0, 1, 10},
		{"all negative", []float32{-3, -1, -2}, []float32{-9, -9, -1}, 30, 1, 2, -2},
	} {
		if first, last, score := bestSpan(c.start, c.end, c.longest); first != c.first || last != c.last || score != c.score {
			t.Errorf("%s: got %d to %d with %v", c.name, first, last, score)
		}
	}
	if first, last, _ := bestSpan(nil, nil, 30); last >= first {
		t.Errorf("no tokens have the span %d to %d", first, last)
	}
}

func TestOtherSpansShareNoToken(t *testing.T) {
	start, end := []float32{9, 0, 5, 0, 7, 1}, []float32{8, 1, 6, 0, 0, 7}
	first, last, score := bestSpan(start, end, 2)
	best := tokenSpan{first, last, score}
	if want := (tokenSpan{0, 0, 17}); best != want {
		t.Fatalf("the best is %v", best)
	}
	for most, want := range map[int][]tokenSpan{0: nil, 1: {{4, 5, 14}}, 2: {{4, 5, 14}, {2, 2, 11}}, 9: {{4, 5, 14}, {2, 2, 11}, {1, 1, 1}, {3, 3, 0}}} {
		if got := otherSpans(start, end, 2, best, most); !slices.Equal(got, want) {
			t.Errorf("of %d: %v, want %v", most, got, want)
		}
	}
	if got := otherSpans(start[:1], end[:1], 2, tokenSpan{0, 0, 17}, 3); len(got) != 0 {
		t.Errorf("one token has the further spans %v", got)
	}
	if got := otherSpans(nil, nil, 2, tokenSpan{last: -1}, 3); len(got) != 0 {
		t.Errorf("no tokens have the further spans %v", got)
	}
}

func TestAnswersAreWholeWords(t *testing.T) {
	for _, c := range []struct{ text, token, want string }{
		{"the unaffable man", "affa", "unaffable"},
		{"in 1990-1999", "99", "1990"},
		{"cafe\u0301s open", "cafe", "cafe\u0301s"},
		{"漢字かな交じり", "かな", "かな"},
		{"ends here", "here", "here"},
		{"x²y", "²", "x²y"},
		{"\xffbad\xff", "ba", "bad"},
	} {
		at := -1
		for i := range c.text {
			if len(c.text[i:]) >= len(c.token) && c.text[i:i+len(c.token)] == c.token {
				at = i
				break
			}
		}
		if at < 0 {
			t.Fatalf("no %q in %q", c.token, c.text)
		}
		span := tokenizer.ByteRange{Start: at, End: at + len(c.token)}
		if start, end := expandToWords(c.text, span, span); c.text[start:end] != c.want {
			t.Errorf("%q in %q: got %q, want %q", c.token, c.text, c.text[start:end], c.want)
		}
	}
}
