package text

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/internal/waittest"
)

func TestSentences(t *testing.T) {
	tests := []struct {
		name string
		want []string // their concatenation is the input
	}{
		{"plain", []string{"It rains. ", "It pours! ", "Does it? ", "Yes."}},
		{"title", []string{"Dr. Smith met Mrs. Jones on St. Mary's Road. ", "They spoke."}},
		{"initials", []string{"The book by J. R. R. Tolkien sold. ", "So did C. S. Lewis's."}},
		{"country", []string{"He left the U.S. Senate in 1990. ", "He came back to the U.S. ", "The Senate was glad."}},
		{"company", []string{"Acme Inc. Chairman Bob resigned. ", "He works at Beta Ltd. ", "He is happy."}},
		{"letter", []string{"It is rich in vitamin C. ", "This helps."}},
		{"decimals", []string{"Revenue rose 3.5 percent to $1.2 billion. ", "Costs fell."}},
		{"figure", []string{"See Fig. 3 and Sec. 4.2 for details. ", "No. 5 is next."}},
		{"no", []string{"I said no. ", "A man heard it."}},
		{"latin", []string{"Use a tool, e.g. Docker, i.e. Moby. ", "Then stop."}},
		{"et al", []string{"As in Lewis et al. (2020), it works. ", "We agree."}},
		{"quote", []string{"“It is over.” ", "He left. ", "\"Now?\" ", "She nodded."}},
		{"reference", []string{"It fell in 1990.[5] ", "Then it rose.[6][7] ", "The end."}},
		{"reference inside", []string{"The item [5] Alpha is listed."}},
		{"address", []string{"Write to a.b@example.com or www.example.com. ", "We reply."}},
		{"version", []string{"Version v1.2.3 of node.js runs. ", "Try it."}},
		{"list", []string{"1. First item. ", "It has two.\n", "2. Second item\n", "(a) third\n", "- fourth\n", "• Fifth"}},
		{"number alone", []string{"1.\nThe clause\n", "2.\nAnother"}},
		{"heading", []string{"Introduction\n\n", "The text begins. ", "It ends.\n\n", "Next\n\n", "More."}},
		{"wrapped", []string{"This line was wrapped by its author in the middle\nof a sentence and goes on. ", "Next one."}},
		{"short line", []string{"Dear Sir\n", "thank you for writing."}},
		{"table", []string{"Name | Age\n", "bob of the long established house of york | 42\n", "carol | 43"}},
		{"ellipsis", []string{"Wait... ", "What now? ", "Nothing."}},
		{"time", []string{"We open at 9 a.m. ", "The doors close at 5 p.m. Friday."}},
		{"month", []string{"On Jan. 5 it opened. ", "In Dec. 2020 it closed."}},
		{"chinese", []string{"今天下雨。", "明天晴天。"}},
		{"white space first", []string{"  \n Hello there. ", "Bye.  \n"}},
		{"only white space", []string{" \n "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := strings.Join(tt.want, "")
			var got []string
			for _, r := range Sentences(s) {
				got = append(got, r.Of(s))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
	if got := Sentences(""); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// anyText draws texts with many of the patterns that the rules check.
func anyText() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{
		"a", "The", "word", "Dr.", "U.S.", "No.", "5", "3.14", ".", "!", "?", "…", "\n", "\n\n", " ", "  ", "\t", "1.", "(a)", "•", "- ",
		"[5]", "] ", "\"", "”", "ü", "今天。", "👩‍👩‍👧", "\u0301", "\u200b", " | ", "\u00a0", "x.y", ":", "Inc.", "\u2028", "\r\n", "ก", "ครับ",
		strings.Repeat("long", 9), "🇩🇪🇫🇷", "e.g.", "\x00", "\xff", "\ufeff",
	})
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 9).Draw(t, "free") == 0 {
			return rapid.String().Draw(t, "text")
		}
		return strings.Join(rapid.SliceOfN(piece, 0, 120).Draw(t, "pieces"), rapid.SampledFrom([]string{"", " "}).Draw(t, "glue"))
	})
}

func TestSentencesTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		checkTiles(t, s, Sentences(s))
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		parts := Split(s, Sentences(s), limit)
		checkTiles(t, s, parts)
		for _, p := range parts {
			if n := CountTokens(p.Of(s)); n > limit+1 {
				t.Fatalf("a range of %d tokens over the limit of %d: %q", n, limit, p.Of(s))
			}
		}
	})
}

func checkTiles(t interface{ Fatalf(string, ...any) }, s string, ranges []Range) {
	at := 0
	for _, r := range ranges {
		if r.Start != at || r.End <= r.Start {
			t.Fatalf("range %v does not continue at %d", r, at)
		}
		at = r.End
	}
	if at != len(s) {
		t.Fatalf("ranges end at %d of %d", at, len(s))
	}
}

func TestSentencesOfHostileTextIsLinear(t *testing.T) {
	for _, unit := range []string{"Dr. A ", "[1] ", "1. ", "a.B", ". ", "\n", "] A", "U.S. A", "[1]"} {
		s := strings.Repeat(unit, 1<<20/len(unit))
		work := waittest.Work(t, func() { checkTiles(t, s, Split(s, Sentences(s), 400)) })
		if work > 10*time.Second {
			t.Errorf("1 MB of %q took %v of processor time", unit, work)
		}
	}
}

func TestCountTokens(t *testing.T) {
	for s, want := range map[string]int{
		"":                                   0,
		" \n\t":                              0,
		"Hello, world!":                      4,
		"It's 3.14 or 1,000.":                5,
		"今天":                                 2,
		strings.Repeat("a", 16):              1,
		strings.Repeat("a", 17):              2,
		"a  b":                               2,
		strings.Repeat("é", 16):              1,
		"The quick brown fox jumps over it.": 8,
	} {
		if got := CountTokens(s); got != want {
			t.Errorf("CountTokens(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                   "plain",
		"a\x00b":                  "ab",
		"a\r\nb\rc\u2028d\u0085e": "a\nb\nc\nd\ne",
		"\ufeffa\xffb\xc3":        "ab",
		"ü\U0001F600":             "ü\U0001F600",
		"\r":                      "\n",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := Clean(anyText().Draw(t, "s"))
		if !clean(s) || Clean(s) != s {
			t.Fatalf("not clean: %q", s)
		}
	})
}

func BenchmarkSentences(b *testing.B) {
	data, err := os.ReadFile("../../LICENSE")
	if err != nil {
		b.Fatal(err)
	}
	s := string(data)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		Sentences(s)
	}
}

func BenchmarkCountTokens(b *testing.B) {
	data, err := os.ReadFile("../../LICENSE")
	if err != nil {
		b.Fatal(err)
	}
	s := string(data)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		CountTokens(s)
	}
}
