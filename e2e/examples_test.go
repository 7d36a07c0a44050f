package e2e

// This file does what a new user does first: ingest a folder, and ask.

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// ingested is what `sluice ingest --json` prints.
type ingested struct {
	Found, Uploaded, Unchanged, Ready, Failed int
	Failures                                  []struct{ Document, Code, Message string }
}

// example is a line of examples/questions.jsonl. A line without documents is a question without an
// answer.
type example struct {
	Question       string
	Documents      []string
	AnswerContains []string `json:"answer_contains"`
}

func testExamples(t *testing.T, s *server) {
	folder := filepath.Join(s.repository, "examples", "documents")
	files := 0
	for _, entry := range walk(t, folder) {
		if !strings.HasPrefix(filepath.Base(entry), ".") {
			files++
		}
	}
	first := into[ingested](t, s.sluice(t, "ingest", folder, "--collection", "examples", "--wait", "--json").ok(t))
	if first.Found != files || first.Uploaded != files || first.Ready != files || first.Failed != 0 {
		t.Fatalf("of %d files: %+v", files, first)
	}
	again := into[ingested](t, s.sluice(t, "ingest", folder, "--collection", "examples", "--wait", "--json").ok(t))
	if again.Found != files || again.Uploaded != 0 || again.Unchanged != files || again.Ready != files {
		t.Errorf("the second time, of %d files: %+v", files, again)
	}
	db := connect(t, s.superuserURL(t))
	defer func() { _ = db.Close(t.Context()) }()
	t.Run("Answers", func(t *testing.T) { testAnswers(t, s, db) })
	t.Run("Search", func(t *testing.T) { testSearch(t, s, db) })
	t.Run("Documents", func(t *testing.T) { testDocuments(t, s, files) })
	s.checkStored(t)
}

// The minimum numbers of right documents and right answers.
const (
	minDocuments = 9
	minAnswers   = 8
)

func testAnswers(t *testing.T, s *server, db *pgx.Conn) {
	var documents, answers, answerable int
	for _, e := range readExamples(t, s) {
		r := s.sluice(t, "ask", e.Question, "--collection", "examples", "--json").ok(t)
		checkAnswerFields(t, []byte(r.out))
		a := into[schema.Answer](t, r)
		checkQuotes(t, s, db, a)
		if a.Question != e.Question || a.Plan != plans.Default {
			t.Errorf("question %q came back as %q, plan %q", e.Question, a.Question, a.Plan)
		}
		if len(e.Documents) == 0 {
			if a.Supported || a.Answer != schema.NoAnswer {
				t.Errorf("%q has no answer in the documents, but: %q %+v", e.Question, a.Answer, a.Citations)
			}
			continue
		}
		answerable++
		said := a.Answer
		cited := false
		for _, c := range a.Citations {
			said += " " + c.Quote
			cited = cited || slices.Contains(e.Documents, c.Document)
		}
		if cited {
			documents++
		} else {
			t.Logf("%q is answered from %v, not from %v: %q", e.Question, a.Citations, e.Documents, a.Answer)
		}
		if containsAll(said, e.AnswerContains) {
			answers++
		} else {
			t.Logf("%q: no %q in %q", e.Question, e.AnswerContains, said)
		}
	}
	t.Logf("of %d questions %d cite an expected document, %d have the expected answer", answerable, documents, answers)
	if documents < minDocuments || answers < minAnswers || answerable != 10 {
		t.Errorf("of %d questions %d cite an expected document (at least %d), %d have the expected answer (at least %d)",
			answerable, documents, minDocuments, answers, minAnswers)
	}
}

func readExamples(t *testing.T, s *server) []example {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.repository, "examples", "questions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	for line := range bytes.Lines(text) {
		var e example
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("examples/questions.jsonl: %v", err)
		}
		out = append(out, e)
	}
	return out
}

// checkAnswerFields checks the names of fields in `ask --json`, which programs rely on.
func checkAnswerFields(t *testing.T, answer []byte) {
	t.Helper()
	var top map[string]json.RawMessage
	if err := json.Unmarshal(answer, &top); err != nil {
		t.Fatal(err)
	}
	keys(t, "the answer", top, []string{"question", "answer", "citations", "plan", "trace", "usage"}, []string{"question_id", "supported", "sentences", "rounds", "choice", "uncited", "notes"})
	var citations, trace []map[string]json.RawMessage
	if err := json.Unmarshal(top["citations"], &citations); err != nil || citations == nil {
		t.Errorf("citations is no list: %s", top["citations"])
	}
	for _, c := range citations {
		keys(t, "a citation", c, []string{"document", "title", "location", "quote"}, []string{"document_id", "span", "answer", "page", "boxes"})
		for _, name := range []string{"document", "title", "location", "quote"} {
			var text string
			// Formats without titles give an empty title.
			if json.Unmarshal(c[name], &text) != nil || text == "" && name != "title" {
				t.Errorf("a citation's %s is no text, or empty: %s", name, c[name])
			}
		}
	}
	if err := json.Unmarshal(top["trace"], &trace); err != nil || len(trace) == 0 {
		t.Errorf("trace is no list, or empty: %s", top["trace"])
	}
	for _, stage := range trace {
		keys(t, "a stage", stage, []string{"stage", "in", "out", "ms"}, []string{"why", "unit", "kept", "dropped", "statistics", "features"})
	}
	var usage map[string]any
	if err := json.Unmarshal(top["usage"], &usage); err != nil || len(usage) == 0 {
		t.Errorf("usage is no object, or empty: %s", top["usage"])
	}
}

func keys(t *testing.T, what string, object map[string]json.RawMessage, needed, allowed []string) {
	t.Helper()
	for _, name := range needed {
		if _, ok := object[name]; !ok {
			t.Errorf("%s has no %q", what, name)
		}
	}
	for name := range object {
		if !slices.Contains(needed, name) && !slices.Contains(allowed, name) {
			t.Errorf("%s has a %q that nobody knows of", what, name)
		}
	}
}

// checkQuotes checks that every quote is stored text, and for plain text that the file contains it.
func checkQuotes(t *testing.T, s *server, db *pgx.Conn, a schema.Answer) {
	t.Helper()
	if a.Supported && len(a.Citations) == 0 {
		t.Errorf("%q is answered without a citation", a.Question)
	}
	for _, c := range a.Citations {
		if text := stored(t, db, c.Span); text != c.Quote {
			t.Errorf("%q quotes %q, but stored is %q", a.Question, c.Quote, text)
		}
		if filepath.Ext(c.Document) == ".txt" {
			content := s.call(t, http.MethodGet, "/v1/documents/"+c.DocumentID.String()+"/content", nil).want(t, http.StatusOK)
			if utf8.Valid(content.body) && !strings.Contains(collapse(string(content.body)), collapse(c.Quote)) {
				t.Errorf("%q quotes %q, which %s does not say", a.Question, c.Quote, c.Document)
			}
		}
	}
}

func containsAll(text string, wanted []string) bool {
	for _, w := range wanted {
		if !strings.Contains(strings.ToLower(collapse(text)), strings.ToLower(collapse(w))) {
			return false
		}
	}
	return true
}

// collapse replaces every run of white space by one space.
func collapse(text string) string { return strings.Join(strings.Fields(text), " ") }

func testSearch(t *testing.T, s *server, db *pgx.Conn) {
	const question = "How long did a full restore of the ERP database take?"
	found := into[api.SearchResult](t, s.sluice(t, "search", question, "-c", "examples", "--json", "--explain", "-k", "5").ok(t))
	if len(found.Passages) != 5 || found.Query != question || found.Plan != plans.Default {
		t.Fatalf("found %d passages for %q with plan %q", len(found.Passages), found.Query, found.Plan)
	}
	if !slices.Contains(names(found.Passages), "it/runbook-erp-restore.md") {
		t.Errorf("found %v", names(found.Passages))
	}
	for i, p := range found.Passages {
		if i > 0 && p.Score > found.Passages[i-1].Score {
			t.Errorf("passage %d scores %g, more than the one before it", i+1, p.Score)
		}
		text := ""
		for _, span := range p.Spans {
			text += stored(t, db, span)
		}
		if text != p.Text || p.Location == "" {
			t.Errorf("passage %d of %s at %q is %q, but stored is %q", i+1, p.ExternalID, p.Location, p.Text, text)
		}
	}
	if len(found.Trace) < 2 || len(found.Trace[1].Kept) == 0 || found.Trace[1].Kept[0].Document != found.Passages[0].ExternalID {
		t.Errorf("the explanation is %+v", found.Trace)
	}
	plain := into[api.SearchResult](t, s.sluice(t, "search", question, "-c", "examples", "--json").ok(t))
	if len(plain.Trace) < 2 || len(plain.Trace[1].Kept) != 0 {
		t.Error("there is an explanation that nobody asked for")
	}
	// The output for people has the documents and each stage.
	s.sluice(t, "search", question, "-c", "examples", "--explain").ok(t).has(t, "it/runbook-erp-restore.md", "hybrid", "lexical.document", "plan "+plans.Default)
	s.sluice(t, "ask", question, "-c", "examples").ok(t).has(t, "it/runbook-erp-restore.md", "plan "+plans.Default)
}

func testDocuments(t *testing.T, s *server, files int) {
	all := documents(t, s, "examples")
	if len(all) != files {
		t.Errorf("%d documents are listed, of %d", len(all), files)
	}
	for name, d := range all {
		if d.State != schema.StateReady || !d.Live || d.Passages == 0 || d.Sections == 0 || d.Bytes == 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
	const one = "reports/safety-report-2024.pdf"
	shown := show(t, s, "examples", one)
	if shown.ExternalID != one || shown.MediaType != "application/pdf" || len(shown.Versions) != 1 || shown.Versions[0].State != schema.StateReady {
		t.Errorf("%+v", shown)
	}
	s.sluice(t, "documents", "show", shown.ID.String()).ok(t).has(t, one, "version 1", "ready")
	two := s.sluice(t, "documents", "show", one, "faq/staff-faq.md", "-c", "examples", "--json").ok(t)
	if list := into[[]api.DocumentDetail](t, two); len(list) != 2 || list[1].ExternalID != "faq/staff-faq.md" {
		t.Errorf("%v", two)
	}
	s.sluice(t, "documents", "list", "-c", "examples", "--prefix", "handbook/").ok(t).has(t, "handbook/01-working-hours.md")
	s.sluice(t, "collections", "list").ok(t).has(t, "examples")
	s.sluice(t, "documents", "show", "no/such.pdf", "-c", "examples").fails(t, "no/such.pdf", "not found")
	s.sluice(t, "documents", "retry", one, "-c", "examples").fails(t, one)
}

func walk(t *testing.T, folder string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
