package convert

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// file writes a file for a test.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestErrorsSayWhereTheyAre: errors name file, line or record, and field, and nothing is written.
func TestErrorsSayWhereTheyAre(t *testing.T) {
	hotpot := `{"_id":"1","question":"Who?","answer":"He","supporting_facts":[],"context":[["A",["He."]]]}`
	for _, c := range []struct {
		name, format, file, content string
		want                        []string
	}{
		{"empty", Auto, "a.json", " \n", []string{"a.json is empty"}},
		{"no format", Auto, "a.json", `{"x": 1}`, []string{"a.json: the format is not recognised", "hotpotqa"}},
		{"another format", "squad", "a.json", "[" + hotpot + "]", []string{"a.json: looks like HotpotQA's JSON", "squad"}},
		{"unknown format", "sqad", "a.json", "[]", []string{`"sqad" is none of: auto, squad`}},
		{"UTF-16", Auto, "a.json", "\xff\xfe[\x00", []string{"a.json is UTF-16", "save it as UTF-8"}},
		{"Latin-1", "nq-open", "a.jsonl", `{"question":"Who?","answer":["x"]}` + "\n" + `{"question":"` + "\xe9" + `","answer":["x"]}`, []string{"a.jsonl", "line 2 is not UTF-8"}},
		{"cut off", "hotpotqa", "a.json", "[" + hotpot + "," + hotpot[:40], []string{"a.json: record 2: the file ends in the middle"}},
		{"cut off before the end", "hotpotqa", "a.json", "[" + hotpot, []string{"a.json: the file ends in the middle"}},
		{"more behind", "hotpotqa", "a.json", "[" + hotpot + "] 1", []string{"a.json: there is more at byte"}},
		{"not JSON", "hotpotqa", "a.json", "[" + hotpot + ", oops]", []string{"a.json: record 2: is not JSON at byte"}},
		{"type", "hotpotqa", "a.json", "[" + hotpot + `, {"_id": 7}]`, []string{"a.json: record 2: _id: is a number"}},
		{"paragraph", "hotpotqa", "a.json", `[{"_id":"1","question":"Who?","answer":"He","context":[["A"]]}]`, []string{"a.json: record 1: context: a paragraph is a title and a list"}},
		{"id twice", "hotpotqa", "a.json", "[" + hotpot + "," + hotpot + "]", []string{`a.json: record 2: id: "1" is in record 1 already`}},
		{"no id", "hotpotqa", "a.json", "[" + strings.Replace(hotpot, `"1"`, `""`, 1) + "]", []string{"a.json: record 1: id: is missing"}},
		{"a tab in an id", "hotpotqa", "a.json", "[" + strings.Replace(hotpot, `"1"`, `"1\t2"`, 1) + "]", []string{"a.json: record 1: id:", "has a tab"}},
		{"no question", "hotpotqa", "a.json", "[" + strings.Replace(hotpot, `"Who?"`, `" "`, 1) + "]", []string{"a.json: record 1: question: is missing"}},
		{"nothing known", "hotpotqa", "a.json", `[{"_id":"1","question":"Who?","context":[]}]`, []string{"no question in", "left out: 1 questions with neither answers nor documents"}},
		{"squad id twice", "squad", "a.json", `{"data":[{"title":"T","paragraphs":[{"context":"C","qas":[{"id":"1","question":"Q","answers":[{"text":"C"}]},{"id":"1","question":"Q","answers":[{"text":"C"}]}]}]}]}`,
			[]string{`a.json: article 1: paragraphs[0].qas[1]: id: "1" is in article 1, paragraphs[0].qas[0] already`}},
		{"squad type", "squad", "a.json", `{"data":[{"title":"T","paragraphs":[{"context":["C"]}]}]}`, []string{"a.json: article 1: paragraphs.context: is a array"}},
		{"squad without context", "squad", "a.json", `{"data":[{"title":"T","paragraphs":[{"qas":[]}]}]}`, []string{"a.json: article 1: paragraphs[0]: context: is missing"}},
		{"musique twice", "musique", "a.jsonl", strings.Repeat(`{"id":"1","question":"Q","answer":"A","paragraphs":[{"title":"T","paragraph_text":"P","is_supporting":true}]}`+"\n", 2), []string{`a.jsonl: line 2: id: "1" is in line 1 already`}},
		{"musique line", "musique", "a.jsonl", "\n{oops\n", []string{"a.jsonl: line 2: is not JSON"}},
		{"answers", "dpr", "a.csv", "who\t['a']\nwhat\t[a]\n", []string{"a.csv: line 2: answers: is no list of strings"}},
		{"columns", "dpr", "a.csv", "who\t['a']\nwhat\n", []string{"a.csv: line 2: has 1 columns; two are expected"}},
		{"open quotation", "popqa", "a.tsv", "id\tquestion\tpossible_answers\n1\tQ\t[\"a\"]\n2\t\"Q\t\"\"[]\n3\tQ\t[]\n", []string{"a.tsv: line 3: a quotation mark opens a cell that does not end"}},
		{"popqa columns", "popqa", "a.tsv", "id\tquestion\tpossible_answers\n1\tQ\n", []string{"a.tsv: line 2: has 2 columns, and the header 3"}},
		{"no column", "popqa", "a.tsv", "id\tquestion\n", []string{"a.tsv: line 1: the header has no column possible_answers"}},
		{"popularity", "popqa", "a.tsv", "id\tquestion\tpossible_answers\ts_pop\n1\tQ\t[\"a\"]\tmany\n", []string{"a.tsv: line 2: s_pop", "many"}},
		{"passage id", "dpr", "a.json", `[{"question":"Q","answers":["A"],"positive_ctxs":[{"title":"T","text":"A","passage_id":true}]}]`, []string{"a.json: record 1: passage_id: a number or text is expected"}},
		{"qasper twice", "qasper", "a.json", `{"p":{"title":"T","abstract":"A","qas":[]},"p":{"title":"T","abstract":"A","qas":[]}}`, []string{`a.json: paper "p": id: "p" is in paper 1 already`}},
		{"qasper without text", "qasper", "a.json", `{"p":{"title":"T","qas":[]}}`, []string{`a.json: paper "p": full_text: is missing`}},
		{"no claim", "pubhealth", "a.tsv", "claim_id\tclaim\tlabel\n1\t\ttrue\n", []string{"a.tsv: line 2: claim: is missing"}},
		{"passages alone", Auto, "a.tsv", "id\ttext\ttitle\n1\tA\tT\n", []string{"there is no file of questions"}},
		{"a packed file", Auto, "a.json.gz", "\x1f\x8boops", []string{"a.json.gz: unpack"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out", "set")
			_, err := Run(t.Context(), Options{Format: c.format, Sources: []string{file(t, c.file, c.content)}, Folder: out, Others: -1})
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("the error is %v; want %q in it", err, part)
				}
			}
			if remaining, _ := os.ReadDir(filepath.Dir(out)); len(remaining) > 0 {
				t.Errorf("%v is left", remaining)
			}
		})
	}
}

func TestPassagesTwice(t *testing.T) {
	passages := file(t, "psgs.tsv", "id\ttext\ttitle\n1\tA\tT\n2\tB\tT\n1\tC\tT\n")
	_, err := Run(t.Context(), Options{Format: Auto, Sources: []string{"testdata/nq-open.jsonl", passages}, Folder: filepath.Join(t.TempDir(), "set"), Others: -1})
	if err == nil || !strings.Contains(err.Error(), `psgs.tsv: line 4: id: "1" is in line 2 already`) {
		t.Errorf("the error is %v", err)
	}
}

func TestPackedFilesAndMarksAreRead(t *testing.T) {
	text, err := os.ReadFile("testdata/hotpot.json")
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(append([]byte("\ufeff"), text...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ := converted(t, Options{Sources: []string{file(t, "hotpot.json.gz", packed.String())}, Others: -1})
	counted(t, s, "hotpotqa", 4, 2, 2, 2, 2, 0)
}

// TestFoldersAreReplacedOnlyWhenTold, and never if they contain anything else.
func TestFoldersAreReplacedOnlyWhenTold(t *testing.T) {
	o := all("hotpot.json")
	o.Folder = filepath.Join(t.TempDir(), "set")
	converted(t, o)
	if _, err := Run(t.Context(), withFormat(o)); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("the error is %v", err)
	}
	o.Sources, o.Replace = []string{"testdata/squad-1.1.json"}, true
	s, _ := converted(t, o)
	counted(t, s, "squad", 2, 3, 3, 3, 3, 0)
	kept := filepath.Join(o.Folder, "notes.txt")
	if err := os.WriteFile(kept, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), withFormat(o)); err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func withFormat(o Options) Options {
	o.Format = Auto
	return o
}

func TestAnEndedContextEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	o := withFormat(all("hotpot.json"))
	o.Folder = filepath.Join(t.TempDir(), "set")
	if _, err := Run(ctx, o); !errors.Is(err, enough) {
		t.Errorf("the error is %v", err)
	}
}

// archived writes a zip file of entries. A name that ends in "@" is a link.
func archived(t *testing.T, entries ...[2]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: strings.TrimSuffix(e[0], "@"), Method: zip.Deflate}
		if h.Name != e[0] {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(e[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file(t, "set.zip", b.String())
}

const (
	beirCorpus  = `{"_id":"d1","title":"A","text":"Alpha.","metadata":{"year":20240101000000001}}` + "\n" + `{"_id":"d2","title":"","text":"Beta."}` + "\n" + `{"_id":"d3","title":" ","text":" "}` + "\n"
	beirQueries = `{"_id":"q1","text":"first?","metadata":{"answers":["Alpha"]}}` + "\n" + `{"_id":"q2","text":"second?","metadata":{}}` + "\n" + `{"_id":"q3","text":"none?","metadata":{"unanswerable":true}}` + "\n" + `{"_id":"q4","text":"unjudged?"}` + "\n"
	beirTest    = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td3\t1\nq2\td2\t1\nq9\td2\t1\n"
	beirDev     = "q2\td2\t1\n"
)

func beirEntries(folder string) [][2]string {
	return [][2]string{{folder + "corpus.jsonl", beirCorpus}, {folder + "queries.jsonl", beirQueries}, {folder + "qrels/test.tsv", beirTest}, {folder + "qrels/dev.tsv", beirDev}}
}

func TestBEIR(t *testing.T) {
	archive := archived(t, beirEntries("scifact/")...)
	s, d := converted(t, Options{Sources: []string{archive}, Others: -1})
	counted(t, s, "beir", 2, 3, 1, 0, 2, 1)
	equal(t, "splits", s.Splits, []string{"dev", "test"})
	equal(t, "left out", []int{dropped(s, noText), dropped(s, noDocument), dropped(s, "judgements of questions"), dropped(s, "questions that are judged in no split")}, []int{1, 1, 1, 1})
	if got := lineOf(t, filepath.Join(d.Dir, "corpus.jsonl"), "d1")["year"]; got != 20240101000000001.0 {
		t.Errorf("its metadata is %v", got)
	}
	text, err := os.ReadFile(filepath.Join(d.Dir, "qrels", "test.tsv"))
	if err != nil || string(text) != "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td2\t1\n" {
		t.Errorf("the judgements are %q, %v", text, err)
	}

	// The written folder is such a set itself. Converting it again gives the same.
	again, _ := converted(t, Options{Sources: []string{d.Dir}, Others: -1, Split: "test"})
	counted(t, again, "beir", 2, 3, 1, 0, 2, 1)
	equal(t, "splits", again.Splits, []string{"test"})

	o := Options{Format: Auto, Sources: []string{archive}, Folder: filepath.Join(t.TempDir(), "set"), Split: "train", Others: -1}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "it has: dev, test") {
		t.Errorf("the error is %v", err)
	}
}

func TestHostileAndBrokenArchivesAreRefused(t *testing.T) {
	with := func(entries ...[2]string) [][2]string { return append(beirEntries(""), entries...) }
	replaced := func(name, content string) [][2]string {
		entries := beirEntries("")
		for i := range entries {
			if entries[i][0] == name {
				entries[i][1] = content
			}
		}
		return entries
	}
	for _, c := range []struct {
		name    string
		entries [][2]string
		want    string
	}{
		{"leads out", with([2]string{"../../etc/passwd", "x"}), `"../../etc/passwd" leads out of the archive`},
		{"leads out later", with([2]string{"qrels/../../x.tsv", "x"}), "leads out of the archive"},
		{"absolute", with([2]string{"/etc/passwd", "x"}), "leads out of the archive"},
		{"backslashes", with([2]string{`..\x`, "x"}), "leads out of the archive"},
		{"link", with([2]string{"qrels/more.tsv@", "/etc/passwd"}), "is no file, but a link"},
		{"twice", with([2]string{"corpus.jsonl", "x"}), "occurs twice"},
		{"bomb", with([2]string{"bomb", strings.Repeat("0", 30<<20)}), "unpack to more than 200 times"},
		{"several", with([2]string{"android/corpus.jsonl", "x"}), "has several sets"},
		{"no set", [][2]string{{"train.tsv", "x"}}, "is an archive without a corpus.jsonl"},
		{"document twice", replaced("corpus.jsonl", beirCorpus+`{"_id":"d1","text":"x"}`), filepath.FromSlash(`set.zip/corpus.jsonl: line 4: id: "d1" is in line 1 already`)},
		{"question twice", replaced("queries.jsonl", beirQueries+`{"_id":"q1","text":"x","metadata":{"unanswerable":true}}`), `line 5: id: "q1" is in line 1 already`},
		{"judged twice", replaced("qrels/test.tsv", beirTest+"q1\td1\t1\n"), "judged on line 2 already"},
		{"score", replaced("qrels/test.tsv", beirTest+"q1\td5\tgood\n"), `qrels/test.tsv: line 7: score: "good"`},
		{"columns", replaced("qrels/test.tsv", "q1 0 d1 1\n"), "has 1 columns"},
		{"corpus", replaced("corpus.jsonl", "{oops"), "corpus.jsonl: line 1: is not JSON"},
		{"type", replaced("corpus.jsonl", `{"_id":1}`), "corpus.jsonl: line 1: _id: is a number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "set")
			_, err := Run(t.Context(), Options{Format: Auto, Sources: []string{archived(t, c.entries...)}, Folder: out, Others: -1})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v; want %q in it", err, c.want)
			}
			if remaining, _ := os.ReadDir(filepath.Dir(out)); len(remaining) > 0 {
				t.Errorf("%v is left", remaining)
			}
		})
	}
	whole, err := os.ReadFile(archived(t, beirEntries("")...))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"cut.zip":  {string(whole[:len(whole)-10]), "cut.zip: open the archive"},
		"lies.zip": {writeUnderstatedArchive(t), "corpus.jsonl"},
	} {
		out := filepath.Join(t.TempDir(), "set")
		_, err := Run(t.Context(), Options{Format: Auto, Sources: []string{file(t, name, c[0])}, Folder: out, Others: -1})
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: the error is %v; want %q in it", name, err, c[1])
		}
		if remaining, _ := os.ReadDir(filepath.Dir(out)); len(remaining) > 0 {
			t.Errorf("%v is left", remaining)
		}
	}
}

// writeUnderstatedArchive writes an archive whose corpus unpacks to more bytes than its header
// states.
func writeUnderstatedArchive(t *testing.T) string {
	t.Helper()
	var b, packed bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range beirEntries("")[1:] {
		f, err := w.Create(e[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(e[1])); err != nil {
			t.Fatal(err)
		}
	}
	deflate, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deflate.Write([]byte(beirCorpus)); err != nil {
		t.Fatal(err)
	}
	if err := deflate.Close(); err != nil {
		t.Fatal(err)
	}
	first := strings.Index(beirCorpus, "\n") + 1 // a whole line, so that only the size is wrong
	f, err := w.CreateRaw(&zip.FileHeader{Name: "corpus.jsonl", Method: zip.Deflate, CRC32: crc32.ChecksumIEEE([]byte(beirCorpus[:first])),
		CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(first)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(packed.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// writeManyQuestions writes a HotpotQA file of n questions with two paragraphs each, one of them
// shared.
func writeManyQuestions(t *testing.T, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `%s{"_id":"q%d","question":"What is %d?","answer":"%d","supporting_facts":[["T%d",0]],"context":[["T%d",["It is %d."]],["All",["Everything."]]]}`,
			map[bool]string{true: "[", false: ","}[i == 0], i, i, i, i, i, i)
	}
	return file(t, "many.json", b.String()+"]")
}

// TestDrawnSetsAreSmallerAndTheSame: the same seed draws the same questions, with their documents
// and the requested number of others.
func TestDrawnSetsAreSmallerAndTheSame(t *testing.T) {
	source := writeManyQuestions(t, 200)
	draw := func(limit, others int, seed uint64) (Summary, *evaluate.Dataset) {
		return converted(t, Options{Sources: []string{source}, Limit: limit, Others: others, Seed: seed})
	}
	ids := func(d *evaluate.Dataset) []string {
		out := []string{}
		for _, q := range d.Queries {
			out = append(out, q.ID)
		}
		return out
	}
	s, d := draw(20, -1, 1)
	counted(t, s, "hotpotqa", 201, 20, 20, 20, 20, 0)
	if got := dropped(s, notSampled); got != 180 {
		t.Errorf("%d questions are left out, want 180", got)
	}
	s, same := draw(20, 0, 1)
	counted(t, s, "hotpotqa", 21, 20, 20, 20, 20, 0)
	equal(t, "questions of the same seed", ids(same), ids(d))
	s, more := draw(20, 7, 1)
	counted(t, s, "hotpotqa", 28, 20, 20, 20, 20, 0)
	if got := dropped(s, unusedDocuments); got != 173 {
		t.Errorf("%d documents are left out, want 173", got)
	}
	if _, other := draw(20, 0, 2); slices.Equal(ids(other), ids(d)) {
		t.Error("another seed draws the same questions")
	}
	_, again := draw(20, 7, 1)
	if again.Hash != more.Hash {
		t.Error("the same seed draws other documents")
	}
	if s, _ := draw(1000, 1000, 1); s.Documents != 201 || s.Questions != 200 {
		t.Errorf("more than there is gave %+v", s)
	}
}

// TestAnEvenDrawOfPassages: passages are drawn evenly from all of a corpus that is read as a
// stream.
func TestAnEvenDrawOfPassages(t *testing.T) {
	var b strings.Builder
	b.WriteString("id\ttext\ttitle\n")
	const n, kept = 20_000, 500
	for i := range n {
		fmt.Fprintf(&b, "%d\tText %d.\tT\n", i, i)
	}
	passages := file(t, "psgs.tsv", b.String())
	o := Options{Sources: []string{"testdata/biencoder.json", passages}, Others: kept, Seed: 5}
	s, d := converted(t, o)
	if s.Documents != kept+4 || s.WithDocuments != 2 {
		t.Errorf("%d documents are kept, want %d and those of the questions, 4: %+v", s.Documents, kept, s)
	}
	quarters := [4]int{}
	for id := range texts(t, d) {
		var i int
		if _, err := fmt.Sscan(id, &i); err == nil {
			quarters[i*4/n]++
		}
	}
	for _, q := range quarters { // 125 are expected in each; fewer than 80 are 4.6 standard deviations off
		if q < 80 {
			t.Errorf("of the quarters of the corpus %v are kept", quarters)
		}
	}
}
