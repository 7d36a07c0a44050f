package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
)

// converted converts, and reads the result as sluice eval does.
func converted(t *testing.T, o Options) (Summary, *evaluate.Dataset) {
	t.Helper()
	if o.Folder == "" {
		o.Folder = filepath.Join(t.TempDir(), "set")
	}
	if o.Format == "" {
		o.Format = Auto
	}
	done, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	split := "test"
	if len(done.Splits) > 0 {
		split = done.Splits[0]
	}
	d, err := evaluate.ReadDataset(o.Folder, split)
	if err != nil {
		t.Fatal(err)
	}
	if d.Documents != done.Documents {
		t.Errorf("%d documents are read, and %d were told", d.Documents, done.Documents)
	}
	entries, err := os.ReadDir(filepath.Dir(o.Folder))
	if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.Contains(e.Name(), ".partial-") }) {
		t.Errorf("beside the folder are %v, %v", entries, err)
	}
	return done, d
}

// all returns options that convert files of testdata with every document and question.
func all(files ...string) Options {
	o := Options{Others: -1}
	for _, f := range files {
		o.Sources = append(o.Sources, filepath.Join("testdata", f))
	}
	return o
}

// texts returns the documents of a dataset, by id.
func texts(t *testing.T, d *evaluate.Dataset) map[string]string {
	t.Helper()
	out := map[string]string{}
	if d.Documents == 0 {
		return out
	}
	if err := d.EachDocument(func(id, title, text string) error { out[id] = title + "|" + text; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// topic returns a question of a dataset by its text, answerable or not.
func topic(t *testing.T, d *evaluate.Dataset, text string) evaluate.Topic {
	t.Helper()
	for _, q := range append(slices.Clone(d.Queries), d.Unanswerable...) {
		if q.Text == text {
			return q
		}
	}
	t.Fatalf("%q is not asked", text)
	return evaluate.Topic{}
}

// relevant returns the texts of the relevant documents, sorted.
func relevant(documents map[string]string, q evaluate.Topic) []string {
	out := []string{}
	for id := range q.Relevant {
		out = append(out, documents[id])
	}
	slices.Sort(out)
	return out
}

// metadata returns the metadata of a question in queries.jsonl.
func metadata(t *testing.T, d *evaluate.Dataset, id string) map[string]any {
	t.Helper()
	return lineOf(t, filepath.Join(d.Dir, "queries.jsonl"), id)
}

func lineOf(t *testing.T, path, id string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l struct {
			ID       string         `json:"_id"`
			Metadata map[string]any `json:"metadata"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.ID == id {
			return l.Metadata
		}
	}
	t.Fatalf("%s has no %s", path, id)
	return nil
}

// dropped returns how often something was left out whose reason begins with what.
func dropped(s Summary, what string) int {
	n := 0
	for _, l := range s.LeftOut {
		if strings.HasPrefix(l.What, what) {
			n += l.Count
		}
	}
	return n
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// counted checks the counts of a summary.
func counted(t *testing.T, s Summary, format string, documents, questions, answers, evidence, judged, unanswerable int) {
	t.Helper()
	if s.Format != format {
		t.Errorf("the format is %s, want %s", s.Format, format)
	}
	equal(t, "documents, questions, with answers, with evidence, with documents, unanswerable",
		[]int{s.Documents, s.Questions, s.WithAnswers, s.WithEvidence, s.WithDocuments, s.Unanswerable},
		[]int{documents, questions, answers, evidence, judged, unanswerable})
}

func TestSQuAD(t *testing.T) {
	for _, file := range []string{"squad-1.1.json", "squad-list.json"} {
		s, d := converted(t, all(file))
		counted(t, s, "squad", 2, 3, 3, 3, 3, 0)
		q := topic(t, d, "Where was she born?")
		equal(t, "answers", q.Answers, []string{"Houston", "Houston, Texas"})
		equal(t, "evidence", q.Evidence, []string{"Beyoncé was born in Houston, Texas."})
		equal(t, "relevant", relevant(texts(t, d), q), []string{"Beyoncé Knowles|Beyoncé was born in Houston, Texas."})
	}
	s, d := converted(t, all("squad-2.0.json"))
	counted(t, s, "squad", 1, 2, 1, 1, 1, 1)
	q := topic(t, d, "Who never ruled?")
	if !q.Unanswerable || len(q.Answers) > 0 || len(q.Relevant) > 0 {
		t.Errorf("the unanswerable question is %+v", q)
	}
	equal(t, "plausible answers", metadata(t, d, q.ID)["plausible_answers"].([]any), []any{"Rollo"})
	if got := dropped(s, noAnswers); got != 1 {
		t.Errorf("%d questions without answers are left out, want 1", got)
	}
}

func TestHotpotQA(t *testing.T) {
	s, d := converted(t, all("hotpot.json"))
	counted(t, s, "hotpotqa", 4, 2, 2, 2, 2, 0)
	q := topic(t, d, "Are both directors?")
	documents := texts(t, d)
	equal(t, "relevant", relevant(documents, q), []string{"Ann Lee|Ann Lee directs films. She lives in Rome.", "Bo Ray|Bo Ray is a director. He sings."})
	equal(t, "evidence", q.Evidence, []string{"Ann Lee directs films.", "Bo Ray is a director."})
	if m := metadata(t, d, q.ID); m["type"] != "comparison" || m["level"] != "hard" {
		t.Errorf("its metadata is %v", m)
	}
	// The paragraph is shared with the first question, and exists once.
	equal(t, "relevant", relevant(documents, topic(t, d, "Where does the director of Dawn live?")), []string{"Ann Lee|Ann Lee directs films. She lives in Rome.", "Dawn|Dawn is by Ann Lee."})
	equal(t, "left out", []int{dropped(s, "supporting facts whose sentence"), dropped(s, "supporting facts whose paragraph"), dropped(s, noText)}, []int{1, 1, 1})
}

func TestTwoWiki(t *testing.T) {
	s, d := converted(t, all("2wiki.json", "id_aliases.json"))
	counted(t, s, "2wiki", 2, 1, 1, 1, 1, 0)
	q := d.Queries[0]
	equal(t, "answers", q.Answers, []string{"Małgorzata Braunek", "Braunek", "M. Braunek"})
	equal(t, "evidence", q.Evidence, []string{"It was directed by Xawery Żuławski.", "He is the son of Małgorzata Braunek."})
	documents := texts(t, d)
	equal(t, "relevant", relevant(documents, q), []string{
		"Polish-Russian War (film)|Polish-Russian War is a film. It was directed by Xawery Żuławski.",
		"Xawery Żuławski|Xawery Żuławski is a director. He is the son of Małgorzata Braunek."})
	m := metadata(t, d, q.ID)
	if triples, _ := m["triples"].([]any); len(triples) != 2 || m["answer_id"] != "Q274277" {
		t.Errorf("its metadata is %v", m)
	}
}

func TestMuSiQue(t *testing.T) {
	s, d := converted(t, all("musique_full.jsonl"))
	counted(t, s, "musique", 4, 2, 1, 1, 1, 1)
	documents := texts(t, d)
	q := topic(t, d, "Who is the spouse of the Green performer?")
	if q.Unanswerable {
		q = d.Queries[0]
	}
	equal(t, "answers", q.Answers, []string{"Miquette Giraudy", "Giraudy"})
	equal(t, "relevant", relevant(documents, q), []string{"Green|Green is by Steve Hillage.", "Miquette Giraudy|She is married to Steve Hillage."})
	if m := metadata(t, d, q.ID); m["hops"] != 2.0 || q.Scope != nil {
		t.Errorf("the answerable question is %+v, %v", q, m)
	}
	// Its twin is restricted to its own paragraphs, because other paragraphs answer it.
	twin := d.Unanswerable[0]
	if twin.ID != q.ID+"-unanswerable" || !twin.Unanswerable || len(twin.Relevant)+len(twin.Answers) > 0 {
		t.Errorf("the unanswerable question is %+v", twin)
	}
	equal(t, "documents of the twin", scoped(t, d, twin), []string{"Green|Green is by Steve Hillage.", "Purple|A colour."})
}

// scoped returns the documents in a question's scope.
func scoped(t *testing.T, d *evaluate.Dataset, q evaluate.Topic) []string {
	t.Helper()
	if len(q.Scope) != 1 || q.Scope[0].Op != schema.OpIn {
		t.Fatalf("the scope of %s is %+v", q.ID, q.Scope)
	}
	out := []string{}
	for id, text := range texts(t, d) {
		m := lineOf(t, filepath.Join(d.Dir, "corpus.jsonl"), id)
		values, isList := m[q.Scope[0].Key].([]any)
		if !isList {
			values = []any{m[q.Scope[0].Key]}
		}
		if slices.ContainsFunc(values, func(v any) bool { return v == q.Scope[0].Values[0] }) {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

func TestQuestionsAreAskedAboutTheirDocuments(t *testing.T) {
	o := all("hotpot.json")
	o.Scope = true
	_, d := converted(t, o)
	q := topic(t, d, "Where does the director of Dawn live?")
	equal(t, "documents", scoped(t, d, q), []string{"Ann Lee|Ann Lee directs films. She lives in Rome.", "Dawn|Dawn is by Ann Lee.", "Moss|Moss grows."})
}

func TestDPR(t *testing.T) {
	s, d := converted(t, all("nq-test.qa.csv"))
	counted(t, s, "dpr", 0, 3, 3, 0, 0, 0)
	equal(t, "answers", topic(t, d, "who was d'artagnan").Answers, []string{"D'Artagnan", `a "musketeer"`})
	equal(t, "answers", topic(t, d, `what did "Weird Al" sing`).Answers, []string{"Eat It", "Fat"})
	if !d.AnswersAlone {
		t.Error("there are judgements")
	}

	s, d = converted(t, all("biencoder.json"))
	counted(t, s, "dpr", 4, 2, 2, 0, 2, 0)
	documents := texts(t, d)
	equal(t, "relevant", relevant(documents, topic(t, d, "where is the moon")), []string{"Moon|The moon is in the sky."})
	if documents["1"] != "Moon|The moon is in the sky." {
		t.Errorf("passage 1 is %q", documents["1"])
	}

	// With all of Wikipedia: passages that came with a question exist once, under their ids.
	s, d = converted(t, all("psgs_w100.tsv", "biencoder.json", "nq-test.qa.csv"))
	counted(t, s, "dpr", 6, 5, 5, 0, 2, 0)
	documents = texts(t, d)
	if documents["5"] != `Weird Al|He "sings", and	more.` || documents["1"] != "Moon|The moon is in the sky." {
		t.Errorf("the passages are %q", documents)
	}
	if got := dropped(s, "passages of the corpus that differ"); got != 1 {
		t.Errorf("%d passages differ, want 1", got)
	}
}

func TestOpenQuestions(t *testing.T) {
	s, d := converted(t, all("nq-open.jsonl"))
	counted(t, s, "nq-open", 0, 2, 2, 0, 0, 0)
	equal(t, "answers", topic(t, d, "when was the last time anyone was on the moon").Answers, []string{"14 December 1972 UTC", "December 1972", "1972"})
	equal(t, "left out", []int{dropped(s, duplicateQuestions), dropped(s, noAnswers)}, []int{1, 1})

	s, d = converted(t, all("popQA.tsv", "psgs_w100.tsv"))
	counted(t, s, "popqa", 4, 2, 2, 0, 0, 0)
	q := topic(t, d, "What is George Rankin's occupation?")
	equal(t, "answers", q.Answers, []string{"politician", "political leader"})
	if m := metadata(t, d, "4222362"); m["popularity"] != 142.0 || m["subject"] != "George Rankin" {
		t.Errorf("its metadata is %v", m)
	}
}

func TestQASPER(t *testing.T) {
	s, d := converted(t, all("qasper.json"))
	counted(t, s, "qasper", 2, 5, 4, 3, 4, 1)
	q := topic(t, d, "Which data?")
	equal(t, "answers", q.Answers, []string{"SQuAD, NQ", "two sets"})
	equal(t, "evidence", q.Evidence, []string{"We use SQuAD and NQ.", "Table 1: Two sets."})
	equal(t, "documents", scoped(t, d, q), []string{"A paper|We study.\n\nData\n\nWe use SQuAD and NQ.\n\nIt works.\n\nTable 1: Two sets."})
	equal(t, "answers", topic(t, d, "Is it fast?").Answers, []string{"No"})
	if q := topic(t, d, "Who paid?"); !q.Unanswerable || q.Scope == nil {
		t.Errorf("the unanswerable question is %+v", q)
	}
	if q := topic(t, d, "Does it work?"); q.Unanswerable || q.Answers[0] != "Yes" {
		t.Errorf("the question that one of two did not answer is %+v", q)
	}
	equal(t, "left out", []int{dropped(s, notVerbatim), dropped(s, "annotators")}, []int{1, 1})
}

func TestPubHealth(t *testing.T) {
	s, d := converted(t, all("pubhealth.tsv"))
	counted(t, s, "pubhealth", 1, 2, 2, 0, 1, 0)
	q := topic(t, d, `Tea "cures" colds.`)
	equal(t, "answers", q.Answers, []string{"false"})
	equal(t, "choices", q.Choices, []string{"true", "false", "mixture", "unproven"})
	equal(t, "relevant", relevant(texts(t, d), q), []string{"|Tea was tested.\tIt does nothing."})
	if m := metadata(t, d, q.ID); m["explanation"] != "No effect." {
		t.Errorf("its metadata is %v", m)
	}
	if got := dropped(s, "claims whose label"); got != 2 {
		t.Errorf("%d claims are left out, want 2", got)
	}
}
