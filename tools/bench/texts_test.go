package main

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestTheSameNumberMakesTheSameText(t *testing.T) {
	a, b := newSynthetic(3), newSynthetic(3)
	if !reflect.DeepEqual(a.document(17), b.document(17)) {
		t.Error("document 17 differs")
	}
	if reflect.DeepEqual(a.document(17), newSynthetic(4).document(17)) || reflect.DeepEqual(a.document(17), a.document(18)) {
		t.Error("other seeds and numbers make the same text")
	}
	docs := first(a, 500)
	if !reflect.DeepEqual(questions(docs, 50, 1), questions(docs, 50, 1)) {
		t.Error("questions differ")
	}
	if reflect.DeepEqual(questions(docs, 50, 1), questions(docs, 50, 2)) {
		t.Error("another seed asks the same")
	}
}

func TestPassagesTileSections(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("Ein längerer Satz, der weitergeht. ", 400)
	for name, text := range map[string]string{"long.md": "  " + long, "short.txt": "word", "none.txt": " \n", "other.bin": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read, err := openTexts(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if read.maxDocuments() != 2 {
		t.Fatalf("%d documents", read.maxDocuments())
	}
	if got := strings.Join(flat([]written{read.document(0)}), ""); got != "  "+long {
		t.Error("the passages are not the text")
	}
	if got := read.document(0).passages(); got != 20 { // 2,000 words
		t.Errorf("%d passages of the long text", got)
	}
	for _, source := range []texts{read, newSynthetic(1)} {
		for i := range 2 {
			for _, p := range source.document(i).pieces {
				if p.starts[0] != 0 || !slices.IsSorted(p.starts) || p.starts[len(p.starts)-1] >= len(p.text) {
					t.Fatalf("%s: passages begin at %v of %d", source.name(), p.starts, len(p.text))
				}
			}
		}
	}
}

func TestBEIRIsRead(t *testing.T) {
	dir := t.TempDir()
	lines := `{"_id":"1","title":"One","text":"first text"}` + "\n" + `{"_id":"2","title":"","text":"second"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "corpus.jsonl"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := openTexts(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if read.maxDocuments() != 2 || read.document(0).title != "One" || read.document(1).pieces[0].text != "second" {
		t.Errorf("read %+v", read)
	}
	if _, err := openTexts(t.TempDir(), 0); err == nil {
		t.Error("an empty folder is no corpus")
	}
}

// Synthetic text is useful only if it is similar to a language.
func TestTextIsLikeALanguage(t *testing.T) {
	docs := first(newSynthetic(1), 4000)
	passages := flat(docs)
	counts := map[string]int{}
	var lengths []float64
	total, common := 0, 0
	for _, p := range passages {
		lengths = append(lengths, float64(wordsIn(p)))
		for _, w := range strings.Fields(strings.ToLower(p)) {
			w = strings.Trim(w, ".")
			counts[w]++
			total++
			if minor[w] {
				common++
			}
		}
	}
	if share := float64(common) / float64(total); share < 0.35 || share > 0.6 {
		t.Errorf("%.2f of the words are common ones", share)
	}
	if m := median(lengths); m < 80 || m > 110 {
		t.Errorf("a passage has %g words", m)
	}
	var frequencies []int
	for _, n := range counts {
		frequencies = append(frequencies, n)
	}
	slices.SortFunc(frequencies, func(a, b int) int { return b - a })
	// In natural languages, the frequency of a word is about inversely proportional to its rank.
	slope := math.Log(float64(frequencies[10])/float64(frequencies[1000])) / math.Log(100)
	if slope < 0.7 || slope > 1.3 {
		t.Errorf("frequencies fall with exponent %.2f", slope)
	}
	// A word of a document is more likely to occur again in it than in another one.
	if again, chance := burstiness(docs); again < 2*chance {
		t.Errorf("a word comes again in %.4f of a document's passages, in %.4f of others'", again, chance)
	}
	for _, q := range questions(docs, 100, 1) {
		words := strings.Fields(q)
		if len(words) < 2 || len(words) > 6 || slices.ContainsFunc(words, func(w string) bool { return minor[w] }) {
			t.Errorf("question %q", q)
		}
	}
}

// burstiness returns how often a content word of a document's first passage occurs in its second
// passage, and in the second passage of another document.
func burstiness(docs []written) (again, chance float64) {
	n := 0.0
	for i, d := range docs[1:] {
		own, other := d.pieces[0].passage(1), docs[i].pieces[0].passage(1)
		for _, w := range contentWords(d.pieces[0].passage(0)) {
			n++
			if strings.Contains(own, " "+w+" ") {
				again++
			}
			if strings.Contains(other, " "+w+" ") {
				chance++
			}
		}
	}
	return again / n, chance / n
}
