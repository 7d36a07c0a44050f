package modelclient

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/schema/wire"
)

// piece generates text whose JSON takes between one and six times its bytes.
var piece = rapid.Custom(func(t *rapid.T) string {
	unit := rapid.SampledFrom([]string{"a", "é", "中", "<", "\"", "\x01", "\xff", "\u2028", "😀", " word", "\n", "\x7f", "\\"}).Draw(t, "unit")
	return strings.Repeat(unit, rapid.SampledFrom([]int{0, 1, 3, 50, 1000, 20000, 70000, 140000}).Draw(t, "times"))
})

func TestSizeIsTheJSONSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(t, "pieces"), "")
		data, err := wire.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		got, fits := size(text, textBytes)
		if got < len(data)+1 || got > 3*len(data)+1 {
			t.Errorf("size %d, JSON has %d", got, len(data))
		}
		if got <= textBytes && fits != len(text) || !strings.HasPrefix(text[fits:], "\xff") && utf8.ValidString(text) && !utf8.ValidString(text[:fits]) {
			t.Errorf("of %d bytes (%d as JSON) %d fit", len(text), got, fits)
		}
		if cut, err := wire.Encode(text[:fits]); err != nil || len(cut) > textBytes {
			t.Errorf("what fits takes %d bytes", len(cut))
		}
	})
}

func TestTextsAreSplitInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts, _ := shorten(rapid.SliceOfN(piece, 1, 40).Draw(t, "texts"), textBytes)
		most := rapid.IntRange(1, 50).Draw(t, "most")
		question := shortenOne(piece.Draw(t, "question"), questionBytes)
		questionSize, _ := size(question, 0)
		for _, part := range splitTexts(texts, most, partBytes-questionSize) {
			checkRequest(t, wire.ScoreRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Question: question, Texts: part, Answers: true})
		}
		var joined []string
		for _, part := range splitTexts(texts, most, partBytes) {
			if len(part) == 0 || len(part) > most {
				t.Errorf("a part of %d texts", len(part))
			}
			checkRequest(t, wire.EncodeRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Texts: part})
			joined = append(joined, part...)
		}
		equal(t, joined, texts)
	})
}

// TestRunsAreSplitWithoutLosingAPair checks that the pieces of a run ask for each pair of
// neighbours once, in order; and, where sentences are short, each pair with all the context that
// the model reads.
func TestRunsAreSplitWithoutLosingAPair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := rapid.SliceOfN(rapid.SliceOfN(piece, 0, 12), 1, 8).Draw(t, "runs")
		if rapid.Bool().Draw(t, "many") {
			many := make([]string, rapid.IntRange(partSentences-2, 2*partSentences+3).Draw(t, "sentences"))
			for i := range many {
				many[i] = string(rune('a' + i%26))
			}
			runs = append(runs, many)
		}
		pairs := make([][]string, len(runs))
		for _, part := range splitRuns(runs) {
			checkRequest(t, wire.SegmentRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Runs: part.runs})
			sentences := 0
			for i, run := range part.runs {
				sentences += len(run)
				for j := part.from[i]; j < part.to[i]; j++ {
					pairs[part.index[i]] = append(pairs[part.index[i]], run[j], run[j+1])
				}
			}
			if sentences > partSentences {
				t.Errorf("a part of %d sentences", sentences)
			}
		}
		for i, run := range runs {
			run, _ := shorten(run, sentenceBytes)
			var want []string
			for j := range max(0, len(run)-1) {
				want = append(want, run[j], run[j+1])
			}
			equal(t, pairs[i], want)
		}
	})
}

func TestCutRunsKeepContextSentences(t *testing.T) {
	run := make([]string, 2*partSentences+100)
	for i := range run {
		run[i] = strconv.Itoa(i)
	}
	place := 0
	for _, part := range splitRuns([][]string{run}) {
		for i, piece := range part.runs {
			first, err := strconv.Atoi(piece[0])
			if err != nil {
				t.Fatal(err)
			}
			for j := part.from[i]; j < part.to[i]; j++ {
				least, most := max(0, place-wire.SegmentContext+1), min(len(run), place+1+wire.SegmentContext)
				if first+j != place || first > least || first+len(piece) < most {
					t.Fatalf("place %d is %d of sentences %d to %d", place, first+j, first, first+len(piece))
				}
				place++
			}
		}
	}
	if place != len(run)-1 {
		t.Errorf("%d places of %d", place, len(run)-1)
	}
}

func checkRequest(t *rapid.T, request any) {
	data, err := wire.Encode(request)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > wire.MaxRequest {
		t.Errorf("a request of %d bytes", len(data))
	}
}

func equal(t *rapid.T, got, want []string) {
	if len(got) != len(want) {
		t.Fatalf("%d texts, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("text %d differs", i)
		}
	}
}
