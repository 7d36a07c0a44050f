package e2e

// This file searches company filings in PDF with questions whose pages are known, and checks the
// positions of passages on their pages.

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// filingQuestion is a question on one filing, and the pages that answer it.
type filingQuestion struct {
	Question string `json:"question"`
	Doc      string `json:"doc"` // the file's name without its extension
	Pages    []int  `json:"pages"`
}

// The minimum shares that the default plan finds of the 36 questions. They were .861, .583 and .667
// when this was written.
const (
	leastDocument = 0.80
	leastPageIn5  = 0.50
	leastPageIn10 = 0.60
)

// testFilings searches the filings that another test has ingested.
func testFilings(t *testing.T, s *server) {
	folder := datasetFolder(t, "filings", "pdf")
	if folder == "" {
		return
	}
	questions := lines[filingQuestion](t, filepath.Join(filepath.Dir(folder), "questions.jsonl"))
	var document, in5, in10 float64
	var first schema.Candidate
	for _, q := range questions {
		found := search(t, s, "filings", q.Question, "-k", "100")
		if len(found) == 0 {
			t.Fatalf("nothing is found for %q", q.Question)
		}
		type page struct {
			document string
			number   int
		}
		var pages []page
		for _, c := range found {
			if p := (page{c.ExternalID, c.Page}); !slices.Contains(pages, p) {
				pages = append(pages, p)
			}
		}
		rank := slices.IndexFunc(pages, func(p page) bool { return p.document == q.Doc+".pdf" && slices.Contains(q.Pages, p.number) })
		if found[0].ExternalID == q.Doc+".pdf" {
			document++
			first = found[0]
		}
		if rank >= 0 && rank < 5 {
			in5++
		}
		if rank >= 0 && rank < 10 {
			in10++
		}
	}
	n := float64(len(questions))
	t.Logf("of %g questions on filings: right document first %.3f, its page among five %.3f, among ten %.3f", n, document/n, in5/n, in10/n)
	if document/n < leastDocument || in5/n < leastPageIn5 || in10/n < leastPageIn10 {
		t.Errorf("document %.3f, want %.2f; page in five %.3f, want %.2f; in ten %.3f, want %.2f", document/n, leastDocument, in5/n, leastPageIn5, in10/n, leastPageIn10)
	}
	place := as[schema.Place](t, s.call(t, http.MethodGet, "/v1/documents/"+first.Document.String()+"/place?section="+first.Spans[0].Section.String(), nil).want(t, http.StatusOK))
	if place.Page == 0 || len(place.Boxes) == 0 || place.Boxes[0].Empty() {
		t.Errorf("a passage of %s stands at %+v", first.ExternalID, place)
	}
}

// testPlaces searches for a number in a table of a PDF, and checks the position of its cell.
func testPlaces(t *testing.T, s *server) {
	folder := datasetFolder(t, "filings", "pdf")
	if folder == "" {
		return
	}
	data, err := os.ReadFile(filepath.Join(folder, "ADOBE_2022_10K.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	in := write(t, map[string]string{"adobe.pdf": string(data), "plain.txt": "What a file without pages says is left alone."})
	s.sluice(t, "ingest", in, "-c", "places", "--wait").ok(t)
	a := into[schema.Answer](t, s.sluice(t, "ask", "What was Adobe's total revenue in fiscal 2022?", "-c", "places", "--json").ok(t))
	if !a.Supported || len(a.Citations) == 0 || a.Citations[0].Answer.Text != "$17,606" && a.Citations[0].Answer.Text != "17,606" {
		t.Fatalf("the answer is %+v", a)
	}
	c := a.Citations[0]
	if c.Page == 0 || len(c.Boxes) == 0 || len(c.Answer.Boxes) != 1 {
		t.Fatalf("the citation is %+v", c)
	}
	row, cell := c.Boxes[0], c.Answer.Boxes[0]
	for _, b := range c.Boxes[1:] {
		row = row.Union(b)
	}
	if cell.Page != c.Page || row.Union(cell) != row || cell.Right-cell.Left > 60 {
		t.Errorf("the cell stands at %+v, its row at %+v", cell, row)
	}
}

// testReparse removes the stored positions from the PDF of testPlaces, as older versions of Sluice
// stored none, and has it parsed again.
func testReparse(t *testing.T, s *server) {
	if datasetFolder(t, "filings", "pdf") == "" {
		return
	}
	found := search(t, s, "places", "total revenue in fiscal 2022")
	if len(found) == 0 {
		t.Fatal("nothing is found of the PDF")
	}
	old := found[0]
	place := func(c schema.Candidate, query string) schema.Place {
		t.Helper()
		return as[schema.Place](t, s.call(t, http.MethodGet,
			"/v1/documents/"+c.Document.String()+"/place?section="+c.Spans[0].Section.String()+query, nil).want(t, http.StatusOK))
	}
	if _, err := connect(t, s.superuserURL(t)).Exec(t.Context(), `UPDATE sections SET layout = NULL WHERE document_id = $1`, old.Document); err != nil {
		t.Fatal(err)
	}
	if p := place(old, ""); len(p.Boxes) != 0 {
		t.Fatalf("without a layout it stands at %+v", p)
	}
	done := into[schema.Reparse](t, s.sluice(t, "collections", "reparse", "places", "--wait", "--json").ok(t))
	if done.State != schema.ReparseDone || done.Changed != 1 || done.Unchanged != 1 || done.Failed != 0 {
		t.Errorf("parsed again: %+v", done)
	}
	now := search(t, s, "places", "total revenue in fiscal 2022")[0]
	if p := place(now, ""); p.Page == 0 || len(p.Boxes) == 0 || p.Boxes[0].Empty() {
		t.Errorf("parsed again it stands at %+v", p)
	}
	if now.Document != old.Document || now.Spans[0].Version == old.Spans[0].Version || now.Text != old.Text {
		t.Errorf("the passage was %+v and is %+v", old, now)
	}
	// The position of the earlier citation is still stored.
	if p := place(old, "&version="+old.Spans[0].Version.String()); p.Page == 0 {
		t.Errorf("what was cited before stands at %+v", p)
	}
	again := into[schema.Reparse](t, s.sluice(t, "collections", "reparse", "places", "--wait", "--json").ok(t))
	if again.Number != done.Number+1 || again.Unchanged != 2 {
		t.Errorf("once more: %+v", again)
	}
}
