package parse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

// parsed parses data and fails the test if that is not possible.
func parsed(t *testing.T, name string, data string) schema.Parsed {
	t.Helper()
	p, err := Parse(t.Context(), name, "", []byte(data), Limits{})
	if err != nil {
		t.Fatalf("parsing %s: %v", name, err)
	}
	check(t, p)
	return p
}

// check tests the properties of every parsed document.
func check(t *testing.T, p schema.Parsed) {
	t.Helper()
	for i, b := range p.Blocks {
		if !utf8.ValidString(b.Text) || strings.ContainsRune(b.Text, 0) {
			t.Errorf("block %d is not clean text: %q", i, b.Text)
		}
		if b.Text == "" || strings.TrimSpace(b.Text) != b.Text {
			t.Errorf("block %d has blank ends: %q", i, b.Text)
		}
		if b.Kind == schema.BlockHeading && (b.Level < 1 || b.Level > 9) {
			t.Errorf("heading %d has level %d", i, b.Level)
		}
		if b.Page < 0 || b.Page > p.Pages {
			t.Errorf("block %d is on page %d of %d", i, b.Page, p.Pages)
		}
	}
}

// show returns blocks as lines, for comparison.
func show(p schema.Parsed) []string {
	var out []string
	for _, b := range p.Blocks {
		s := string(b.Kind)
		if b.Level > 0 {
			s += fmt.Sprint(b.Level)
		}
		if b.Page > 0 {
			s += fmt.Sprintf("@%d", b.Page)
		}
		out = append(out, s+": "+b.Text)
	}
	return out
}

func expect(t *testing.T, p schema.Parsed, want ...string) {
	t.Helper()
	if got := show(p); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// refused parses data and returns the reason's code.
func refused(t *testing.T, name string, data []byte, limits Limits) schema.Reason {
	t.Helper()
	p, err := Parse(t.Context(), name, "", data, limits)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: %v and %d blocks, want a reason", name, err, len(p.Blocks))
	}
	if e.Reason.Message == "" || !utf8.ValidString(e.Reason.Message) || p.Blocks != nil {
		t.Errorf("%s: reason %+v with %d blocks", name, e.Reason, len(p.Blocks))
	}
	return e.Reason
}

func TestPlainText(t *testing.T) {
	expect(t, parsed(t, "a.txt", "Minutes\r\n=======\r\n\r\nOpening hours\n\nThis paragraph was wrapped by hand at a column, as\nit was usual in the times of terminals, and hyphen-\nated once.\n\n- one\n- two goes\n  on\n\nName:  Bob\nAge:   42\n"),
		"heading1: Minutes",
		"heading1: Opening hours",
		"paragraph: This paragraph was wrapped by hand at a column, as it was usual in the times of terminals, and hyphenated once.",
		"list: - one\n- two goes on",
		"paragraph: Name:  Bob\nAge:   42",
	)
	p := parsed(t, "", "First page.\fSecond page.")
	expect(t, p, "paragraph@1: First page.", "paragraph@2: Second page.")
}

// TestTextThatBeginsLikeABinary: the signatures of some binary formats are letters that a text may
// begin with.
func TestTextThatBeginsLikeABinary(t *testing.T) {
	for _, begin := range []string{"BMW released", "ID3 tags say", "OggS is a mark", "GIF89a is a mark", "MThd is a mark", "wOFF is a mark"} {
		expect(t, parsed(t, "a", begin+" the first interface."), "paragraph: "+begin+" the first interface.")
	}
}

func TestMarkdown(t *testing.T) {
	p := parsed(t, "a.md", "---\ntitle: The guide\ntags: [a, b]\n---\n\n# Guide\n\nSee [the *docs*](http://x.y) &amp; `go test`\nfor more\\.[^1]\n\n## Steps\n\n1. One\n2. Two\n   - nested **bold**\n\n   more of two\n\n| Name | Age |\n|---|---:|\n| Bob | 42 |\n| Eve | |\n\n```go\nfunc main() {\n\treturn\n}\n```\n\n> A quote.\n\n{% hint %}\nTake care.\n{% endhint %}\n\n<p>Raw <b>html</b></p>\n\n[^1]: The note.\n")
	expect(t, p,
		"heading1: Guide",
		"paragraph: See the docs & go test for more.[1]",
		"heading2: Steps",
		"list: 1. One\n2. Two\n  - nested bold\n  more of two",
		"table: Name | Age\nBob | 42\nEve",
		"code: func main() {\n    return\n}",
		"paragraph: A quote.",
		"paragraph: Take care.",
		"paragraph: Raw html",
		"paragraph: The note.",
	)
	if p.Title != "The guide" || p.MediaType != "text/markdown" {
		t.Errorf("title %q, type %q", p.Title, p.MediaType)
	}
	if p := parsed(t, "a.md", "# Only heading\n\nText."); p.Title != "Only heading" {
		t.Errorf("title %q", p.Title)
	}
}

func TestHTML(t *testing.T) {
	body := strings.Repeat("This is a sentence of the main text, which is long enough to be found. ", 12)
	p := parsed(t, "page", `<!DOCTYPE html><html><head><title>Pumps - Acme</title><style>x{}</style></head><body>
<nav><a href="/">Home</a> <a href="/shop">Shop</a></nav><div class="content"><article><h1>Pumps</h1>
<p>`+body+`</p><h2>Table</h2><table><thead><tr><th>Name</th><th>Flow</th></tr></thead><tr><td>KT&nbsp;90</td><td>90</td></tr></table>
<ul><li>one<ul><li>nested</li></ul></li><li>two</li></ul><pre>a
  b</pre><script>alert(1)</script><p style="display: none">secret</p></article></div><footer>Imprint</footer></body></html>`)
	expect(t, p,
		"heading1: Pumps",
		"paragraph: "+strings.TrimSpace(body),
		"heading2: Table",
		"table: Name | Flow\nKT 90 | 90",
		"list: - one\n  - nested\n- two",
		"code: a\n  b",
	)
	// If the main content cannot be determined, the whole page is used.
	p = parsed(t, "x.pdf", "<html><body><div>Opening hours</div><div>9 to 5</div></body></html>")
	expect(t, p, "paragraph: Opening hours", "paragraph: 9 to 5")
	if p.MediaType != "text/html" {
		t.Errorf("an HTML page named .pdf has type %s", p.MediaType)
	}
}

func TestCSV(t *testing.T) {
	expect(t, parsed(t, "a.csv", "Name;Price;Note\nPump;612,00;\"two\nlines\"\nValve;9,50;\n"),
		"table: Name | Price | Note\nPump | 612,00 | two lines\nValve | 9,50")
	// Without a name the content decides.
	if p := parsed(t, "", "id,name,price\n1,pump,6\n2,valve,7\n3,seal,8\n"); p.MediaType != "text/csv" {
		t.Errorf("type %s", p.MediaType)
	}
	// The header is repeated.
	var b strings.Builder
	b.WriteString("Article\tPrice\n")
	for i := range 300 {
		fmt.Fprintf(&b, "KD-%d\t%d.00\n", i, i)
	}
	p := parsed(t, "a.tsv", b.String())
	if len(p.Blocks) < 3 {
		t.Fatalf("%d blocks of 300 rows", len(p.Blocks))
	}
	for i, block := range p.Blocks {
		if !strings.HasPrefix(block.Text, "Article | Price\nKD-") {
			t.Errorf("block %d lacks the header: %.40q", i, block.Text)
		}
	}
	// Rows with long cells become records.
	long := strings.TrimSpace(strings.Repeat("word ", 100))
	expect(t, parsed(t, "a.csv", "id,text\n1,"+long+"\n"), "table: id: 1\ntext: "+long)
}

func TestJSONLines(t *testing.T) {
	expect(t, parsed(t, "a.jsonl", `{"id": 7, "text": "It leaks.\n\nBadly.", "tags": ["a", "b"], "title": "Report", "who": {"name": "Bob"}, "none": null}`+"\n\n"+`{"id": 8, "ok": true}`+"\n"),
		"heading1: Report",
		"paragraph: text: It leaks.\nBadly.\nid: 7\ntags: a, b\nwho.name: Bob",
		"paragraph: id: 8\nok: true",
	)
	expect(t, parsed(t, "a.json", "[\n {\"a\": 1},\n {\"a\": 2}\n]"), "paragraph: a: 1", "paragraph: a: 2")
	r := refused(t, "a.jsonl", []byte("{\"a\": 1}\n{\"a\": \n"), Limits{})
	if r.Code != schema.ReasonBroken || !strings.Contains(r.Message, "Line 2") {
		t.Errorf("reason %+v", r)
	}
}

// TestPlainTextGoesBeforeANameOfAnotherFormat: in datasets, text extracted from a file keeps the
// file's name and has the media type of plain text.
func TestPlainTextGoesBeforeANameOfAnotherFormat(t *testing.T) {
	for _, c := range []struct {
		name, data, media string
		want              []string
	}{
		{"rows.jsonl", "id: 7\ntext: It leaks.", "text/plain", []string{"paragraph: id: 7\ntext: It leaks."}},
		{"rows.csv", "They say:\n\nThe price, for now, is 20.", "text/plain", []string{"paragraph: They say:", "paragraph: The price, for now, is 20."}},
		{"mail.eml", "The ferry leaves at 6:40.", "text/plain", []string{"paragraph: The ferry leaves at 6:40."}},
		{"whole.jsonl", `{"id": 7}` + "\n" + `{"id": 8}`, "application/jsonl", []string{"paragraph: id: 7", "paragraph: id: 8"}},
		{"whole.csv", "id,price\n7,20\n8,21\n", "text/csv", []string{"table: id | price\n7 | 20\n8 | 21"}},
	} {
		p, err := Parse(t.Context(), c.name, "text/plain; charset=utf-8", []byte(c.data), Limits{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		check(t, p)
		expect(t, p, c.want...)
		if p.MediaType != c.media {
			t.Errorf("%s is %s, want %s", c.name, p.MediaType, c.media)
		}
	}
}

func TestDOCX(t *testing.T) {
	p := parsed(t, "a.docx", string(docx(map[string]string{
		"word/document.xml": document1(`
<w:p><w:pPr><w:pStyle w:val="Titel"/></w:pPr><w:r><w:t>The Lease</w:t></w:r></w:p>
<w:p><w:pPr><w:pStyle w:val="H1"/></w:pPr><w:r><w:t>Rent</w:t></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">The rent is </w:t></w:r><w:del><w:r><w:delText>900</w:delText></w:r></w:del><w:ins><w:r><w:t>950</w:t></w:r></w:ins><w:r><w:tab/><w:t>euros</w:t><w:br/><w:t>a month</w:t><w:footnoteReference w:id="2"/><w:t>.</w:t></w:r></w:p>
<w:p><w:pPr><w:pStyle w:val="H1"/></w:pPr><w:r><w:t>Duties</w:t></w:r></w:p>
<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="5"/></w:numPr></w:pPr><w:r><w:t>Pay</w:t></w:r></w:p>
<w:p><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="5"/></w:numPr></w:pPr><w:r><w:t>on time</w:t></w:r></w:p>
<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="5"/></w:numPr></w:pPr><w:r><w:t>Clean</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Item</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>Price</w:t></w:r></w:p></w:tc></w:tr>
<w:tr><w:tc><w:p><w:r><w:t>Key</w:t></w:r></w:p><w:p><w:r><w:t>(spare)</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>20</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
<w:p><w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent></wps:txbx></w:drawing></mc:Choice><mc:Fallback><w:p><w:r><w:t>In a box</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent></w:r></w:p>
<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>`),
		"word/styles.xml": `<w:styles ` + namespaces + `><w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="B1"><w:name w:val="heading 2"/></w:style><w:style w:type="paragraph" w:styleId="H1"><w:name w:val="My heading"/><w:basedOn w:val="B1"/><w:pPr><w:numPr><w:numId w:val="6"/></w:numPr></w:pPr></w:style></w:styles>`,
		"word/numbering.xml": `<w:numbering ` + namespaces + `><w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl><w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl></w:abstractNum>
<w:abstractNum w:abstractNumId="2"><w:lvl w:ilvl="0"><w:start w:val="4"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="§ %1"/></w:lvl></w:abstractNum>
<w:num w:numId="5"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="6"><w:abstractNumId w:val="2"/></w:num></w:numbering>`,
		"word/footnotes.xml": `<w:footnotes ` + namespaces + `><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote><w:footnote w:id="2"><w:p><w:r><w:t>Without heating.</w:t></w:r></w:p></w:footnote></w:footnotes>`,
	})))
	expect(t, p,
		"heading1: The Lease",
		"heading2: § IV Rent",
		"paragraph: The rent is 950 euros a month[1].",
		"heading2: § V Duties",
		"list: 1. Pay\n  1.a) on time\n2. Clean",
		"table: Item | Price\nKey (spare) | 20",
		"paragraph: In a box",
		"paragraph: [1] Without heating.",
	)
	if p.Title != "The Lease" {
		t.Errorf("title %q", p.Title)
	}
}

func TestPDF(t *testing.T) {
	data := pdfFile([]string{
		"BT /F1 24 Tf 72 720 Td (Annual report) Tj ET BT /F1 11 Tf 72 680 Td (The pumps were sold in many coun-) Tj 0 -14 Td (tries and the revenue rose by three per cent.) Tj ET" +
			" BT /F1 11 Tf 72 620 Td (A second paragraph stands below it.) Tj ET BT /F1 9 Tf 300 30 Td (Page 1 of 2) Tj ET",
		"BT /F1 11 Tf 72 720 Td (On page two there is more.) Tj ET BT /F1 9 Tf 300 30 Td (Page 2 of 2) Tj ET",
	})
	expect(t, parsed(t, "a.bin", string(data)),
		"heading1@1: Annual report",
		"paragraph@1: The pumps were sold in many countries and the revenue rose by three per cent.",
		"paragraph@1: A second paragraph stands below it.",
		"paragraph@2: On page two there is more.",
	)
}

// corpus returns a folder of the shared datasets, which are not part of the repository. If they are
// missing, the test fails only in continuous integration.
func corpus(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SLUICE_DATASETS")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "datasets")
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the dataset %s is missing: set SLUICE_DATASETS to the folder that holds it", dir)
		}
		t.Logf("NOT CHECKED: the dataset %s is missing; set SLUICE_DATASETS to the folder that holds it", dir)
		return ""
	}
	return dir
}

func TestRealPDFs(t *testing.T) {
	dir := corpus(t, "pdf")
	if dir == "" {
		return
	}
	wants := map[string][]string{
		"MCDONALDS_2023Q1_EARNINGS.pdf": {
			"Consolidated operating income increased 10% (14% in constant currencies).",
			"International Operated Markets | 12.6 | 20.4",
			"said Chris Kempczinski, McDonald’s President and Chief Executive Officer. “Running great restaurants is fundamental to our business momentum.",
		},
		"SALESFORCE_2021_8K_dated-2023-01-04.pdf": {
			"The Plan includes a reduction of the Company’s current workforce by approximately 10 percent and select real estate exits",
		},
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.pdf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no PDF in %s: %v", dir, err)
	}
	start := time.Now()
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p := parsed(t, f, string(data))
		all := strings.Join(show(p), "\n")
		for _, want := range wants[filepath.Base(f)] {
			if !strings.Contains(all, want) {
				t.Errorf("%s lacks %q", f, want)
			}
		}
		if p.Pages < 2 || p.Blocks[len(p.Blocks)-1].Page != p.Pages || len(all) < 3000 {
			t.Errorf("%s: %d pages, last block on %d, %d bytes", f, p.Pages, p.Blocks[len(p.Blocks)-1].Page, len(all))
		}
	}
	t.Logf("%d PDFs in %v", len(files), time.Since(start).Round(time.Millisecond))
}

func TestRealMarkdown(t *testing.T) {
	dir := corpus(t, "nats-docs")
	if dir == "" {
		return
	}
	start := time.Now()
	n, empty := 0, 0
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		p, err := Parse(t.Context(), path, "", data, Limits{})
		var e2 *Error
		if errors.As(err, &e2) && e2.Reason.Code == schema.ReasonEmpty && len(data) == 0 {
			empty++
			return nil
		}
		if err != nil || p.MediaType != "text/markdown" {
			t.Errorf("%s: %v, %s", path, err, p.MediaType)
		}
		check(t, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 200 {
		t.Errorf("only %d pages", n)
	}
	t.Logf("%d pages in %v, %d empty", n, time.Since(start).Round(time.Millisecond), empty)
}

func TestParseEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Parse(ctx, "a.txt", "", []byte("Text."), Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	reason := refused(t, "a.txt", []byte(strings.Repeat("Text.\n\n", 1<<16)), Limits{Time: time.Microsecond})
	if reason.Code != schema.ReasonTimeout {
		t.Errorf("reason %+v", reason)
	}
	if _, err := Parse(t.Context(), "a.txt", "", []byte("Text."), Limits{Pages: -1}); err == nil || !strings.Contains(err.Error(), "pages") {
		t.Errorf("got %v", err)
	}
}
