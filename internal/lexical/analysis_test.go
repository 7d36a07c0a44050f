package lexical

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

func TestTerms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ language, text, want string }{
		{"en", "The running dogs ran, and the cats' owner's dog runs.", "run dog ran cat owner dog run"},
		{"en", "Beyoncé’s naïve CAFÉ", "beyonc naiv cafe"},
		{"en-GB", "version 3.14, 1,000 users_table x_1", "version 3.14 1,000 users_table user tabl x_1"},
		{"en", "host:port in /etc/server.conf, U.S. e.g. v2.10.", "host:port host port etc server.conf server conf u. e.g v2.10 v2"},
		{"de", "_größe_maß:Straße.", "_größe_maß:straße gross mass strass"},
		{"en", "ﬁnal ＦＵＬＬ width", "final full width"},
		{"de", "Die Häuser und Straßen", "die haus und strass"},
		{"fr", "les chevaux de l’homme étaient rapides aujourd'hui", "le cheval homm rapid aujourd'hui"},
		{"ru", "книги и книга", "книг книг"},
		{"tr", "ISPARTA İzmir", "ıspar izmir"},
		{"zh", "汶川大地震。", "汶 汶川 川 川大 大 大地 地 地震 震"},
		{"ja", "東京へ行く カタカナ", "東 東京 京 京へ へ行 行 行く カタカナ"},
		{"en", "the 汶川 earthquake", "汶 汶川 川 earthquak"},
		{"th", "ไทย", "ไท ทย"},
		{"ko", "서울 대학교", "서울 대학교"},
		{"und", "Plain words stay", "plain words stay"},
		{"en", "bad \xff bytes\xffbroken", "bad byte broken"},
		{"en", " ,.;! ", ""},
	} {
		a, err := NewAnalyzer(test.language)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time from the cache
			if got := strings.Join(a.Terms(test.text), " "); got != test.want {
				t.Errorf("%s: %q: %q, want %q", test.language, test.text, got, test.want)
			}
		}
	}
	if _, err := NewAnalyzer("not a language"); err == nil {
		t.Error("a malformed tag has an analyser")
	}
}

// FuzzTerms checks that terms of any text are valid for an index, and that terms of ASCII text are
// the words of the annex, each followed by its parts.
func FuzzTerms(f *testing.F) {
	f.Add("Don't e.g. 3.14 a_b x:y 1;2,3 max_payload: __init__ server.conf host:port v2.10 'quoted' 汶川 \xff" + strings.Repeat("long", 100))
	plain, err := NewAnalyzer("und")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		terms := plain.Terms(text)
		for _, term := range terms {
			if term == "" || term[0] == 0 || len(term) > MaxTerm || !utf8.ValidString(term) {
				t.Fatalf("%q has the term %q", text, term)
			}
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return
		}
		var want []string
		for it := words.FromString(text); it.Next(); {
			if w := it.Value(); asciiClasses[w[0]] != asciiOther {
				word := strings.ToLower(clip(w))
				want = append(want, word)
				if !strings.ContainsAny(word, "_.:") {
					continue
				}
				for _, part := range strings.FieldsFunc(word, func(c rune) bool { return c == '_' || c == '.' || c == ':' }) {
					if len(part) > 1 && strings.ContainsFunc(part, unicode.IsLetter) {
						want = append(want, part)
					}
				}
			}
		}
		if !slices.Equal(terms, want) {
			t.Fatalf("%q: %q, want %q", text, terms, want)
		}
	})
}

func TestManyMayAnalyseAtOnce(t *testing.T) {
	t.Parallel()
	a, err := NewAnalyzer("en")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				if got := a.Terms("several runners were running"); !slices.Equal(got, []string{"sever", "runner", "run"}) {
					t.Errorf("%q", got)
				}
			}
		})
	}
	group.Wait()
}
