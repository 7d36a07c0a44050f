package parse

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/xuri/excelize/v2"
)

// workbook returns a workbook that build fills.
func workbook(t testing.TB, build func(f *excelize.File) error) []byte {
	t.Helper()
	f := excelize.NewFile()
	defer func() { _ = f.Close() }()
	var b bytes.Buffer
	if err := build(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fillSheet writes rows, starting at a cell.
func fillSheet(f *excelize.File, sheet, at string, rows ...[]any) error {
	column, row, err := excelize.CellNameToCoordinates(at)
	if err != nil {
		return err
	}
	for i, cells := range rows {
		name, err := excelize.CoordinatesToCellName(column, row+i)
		if err != nil {
			return err
		}
		if err := f.SetSheetRow(sheet, name, &cells); err != nil {
			return err
		}
	}
	return nil
}

func TestXLSX(t *testing.T) {
	book := workbook(t, func(f *excelize.File) error {
		if err := f.SetSheetName("Sheet1", "Prices"); err != nil {
			return err
		}
		if err := fillSheet(f, "Prices", "A1", []any{"Pumps of 2024"}, nil, []any{"Model", "Price", "Sold since"},
			[]any{"KD-40", 612.5, time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)}, []any{"KD-60", 700, nil, "on request"}, nil, []any{"Prices without tax."}); err != nil {
			return err
		}
		date, err := f.NewStyle(&excelize.Style{CustomNumFmt: new("yyyy-mm-dd")})
		if err != nil {
			return err
		}
		if err := f.SetCellStyle("Prices", "C4", "C4", date); err != nil {
			return err
		}
		for _, name := range []string{"By country", "Secret", "Empty"} {
			if _, err := f.NewSheet(name); err != nil {
				return err
			}
		}
		// The label's column has no name.
		if err := fillSheet(f, "By country", "B2", []any{"2023", "2024"}); err != nil {
			return err
		}
		if err := fillSheet(f, "By country", "B2", []any{"Last year", "This year"}, []any{3, 4}, []any{5, 6}); err != nil {
			return err
		}
		if err := fillSheet(f, "By country", "A3", []any{"France"}, []any{"Spain"}); err != nil {
			return err
		}
		if err := fillSheet(f, "Secret", "A1", []any{"hidden", "text"}); err != nil {
			return err
		}
		if err := f.SetDocProps(&excelize.DocProperties{Title: "Price list"}); err != nil {
			return err
		}
		return f.SetSheetVisible("Secret", false)
	})
	p := parsed(t, "prices.bin", string(book))
	expect(t, p,
		"heading1: Prices",
		"paragraph: Pumps of 2024",
		"table: Model | Price | Sold since\nKD-40 | 612.5 | 2024-03-01\nKD-60 | 700 |  | on request",
		"paragraph: Prices without tax.",
		"heading1: By country",
		"table: | Last year | This year\nFrance | 3 | 4\nSpain | 5 | 6",
	)
	if p.Title != "Price list" || p.MediaType != mediaTypes[formatXLSX] {
		t.Errorf("title %q, media type %q", p.Title, p.MediaType)
	}
}

// TestXLSXKeepsTheHeaderNearRows checks that each block of a table has the header, so that its rows
// are found.
func TestXLSXKeepsTheHeaderNearRows(t *testing.T) {
	book := workbook(t, func(f *excelize.File) error {
		rows := [][]any{{"Article", "Number in stock"}}
		for i := range 500 {
			rows = append(rows, []any{fmt.Sprintf("Article number %d", i), i})
		}
		return fillSheet(f, "Sheet1", "A1", rows...)
	})
	p := parsed(t, "stock.xlsx", string(book))
	rows := 0
	for _, b := range p.Blocks[1:] {
		if !strings.HasPrefix(b.Text, "Article | Number in stock\n") {
			t.Fatalf("a block without the header: %.60q", b.Text)
		}
		rows += strings.Count(b.Text, "\n")
	}
	if rows != 500 || len(p.Blocks) < 10 {
		t.Errorf("%d rows in %d blocks", rows, len(p.Blocks))
	}
}

const (
	slideSpaces = `xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"`
	relations   = `http://schemas.openxmlformats.org/officeDocument/2006/relationships`
)

func slide(shapes string) string {
	return `<p:sld ` + slideSpaces + `><p:cSld><p:spTree>` + shapes + `</p:spTree></p:cSld></p:sld>`
}

// shape returns a text box; kind is its placeholder's type, "" for none.
func shape(kind string, paragraphs ...string) string {
	s := `<p:sp><p:nvSpPr><p:nvPr>`
	if kind != "" {
		s += `<p:ph type="` + kind + `"/>`
	}
	s += `</p:nvPr></p:nvSpPr><p:txBody>`
	for _, p := range paragraphs {
		text := strings.TrimLeft(p, ">")
		s += fmt.Sprintf(`<a:p><a:pPr lvl="%d"/><a:r><a:t>%s</a:t></a:r></a:p>`, len(p)-len(text), text)
	}
	return s + `</p:txBody></p:sp>`
}

func presentation(slides ...string) map[string]string {
	parts := map[string]string{}
	ids, rels := "", ""
	for i, s := range slides {
		// The parts' names are not in the order of the presentation.
		name := fmt.Sprintf("slides/slide%d.xml", len(slides)-i)
		ids += fmt.Sprintf(`<p:sldId id="%d" r:id="rId%d"/>`, 256+i, i+1)
		rels += fmt.Sprintf(`<Relationship Id="rId%d" Type="%s/slide" Target="%s"/>`, i+1, relations, name)
		parts["ppt/"+name] = s
	}
	parts["ppt/presentation.xml"] = `<p:presentation ` + slideSpaces + `><p:sldIdLst>` + ids + `</p:sldIdLst></p:presentation>`
	parts["ppt/_rels/presentation.xml.rels"] = `<Relationships>` + rels + `</Relationships>`
	return parts
}

func TestPPTX(t *testing.T) {
	table := `<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>Year</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>Sales</a:t></a:r></a:p></a:txBody></a:tc></a:tr>` +
		`<a:tr><a:tc><a:txBody><a:p><a:r><a:t>2024</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>12</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>`
	link := `<p:sp><p:txBody><a:p><a:r><a:rPr><a:hlinkClick r:id="rId7"/></a:rPr><a:t>Our site</a:t></a:r></a:p></p:txBody></p:sp>`
	parts := presentation(
		slide(shape("ctrTitle", "Review of the year")+shape("subTitle", "For the board")+shape("sldNum", "1")),
		slide(`<p:grpSp>`+shape("body", "Sales rose", "&gt;in France", ">in Spain")+`</p:grpSp>`+shape("title", "Sales")+table+link),
		slide(`<p:pic/>`),
		strings.Replace(slide(shape("title", "Not shown")), `<p:sld `, `<p:sld show="0" `, 1),
		slide(shape("", "A box.")),
	)
	parts["ppt/slides/_rels/slide4.xml.rels"] = `<Relationships><Relationship Id="rId7" Type="` + relations + `/hyperlink" TargetMode="External" Target="https://example.org/"/>` +
		`<Relationship Id="rId8" Type="` + relations + `/notesSlide" Target="../notesSlides/n.xml"/></Relationships>`
	parts["ppt/notesSlides/n.xml"] = `<p:notes ` + slideSpaces + `><p:cSld><p:spTree>` + shape("sldImg") + shape("body", "Mention the new pump.") + `</p:spTree></p:cSld></p:notes>`
	p := parsed(t, "review.pptx", string(docx(parts)))
	expect(t, p,
		"heading1@1: Review of the year",
		"paragraph@1: For the board",
		"heading1@2: Sales",
		"list@2: - Sales rose\n- >in France\n  - in Spain",
		"table@2: Year | Sales\n2024 | 12",
		"paragraph@2: Our site",
		"paragraph@2: Mention the new pump.",
		"heading1@5: Slide 5",
		"paragraph@5: A box.",
	)
	if p.Title != "Review of the year" || p.Pages != 5 || p.MediaType != mediaTypes[formatPPTX] {
		t.Errorf("title %q, %d pages, media type %q", p.Title, p.Pages, p.MediaType)
	}
	if links := p.Blocks[5].Links; len(links) != 1 || links[0] != "https://example.org/" {
		t.Errorf("links %q", links)
	}
}

// book returns an EPUB of chapters.
func book(extra map[string]string, chapters ...string) []byte {
	parts := map[string]string{
		"mimetype":               "application/epub+zip",
		"META-INF/container.xml": `<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>`,
	}
	items, spine := "", ""
	for i, c := range chapters {
		items = fmt.Sprintf(`<item id="c%d" href="text/chapter%%20%d.xhtml" media-type="application/xhtml+xml"/>`, i, i) + items
		spine += fmt.Sprintf(`<itemref idref="c%d"/>`, i)
		parts[fmt.Sprintf("OPS/text/chapter %d.xhtml", i)] = c
	}
	parts["OPS/book.opf"] = `<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Pumps</dc:title></metadata><manifest>` +
		items + `</manifest><spine>` + spine + `</spine></package>`
	for name, s := range extra {
		parts[name] = s
	}
	return docx(parts)
}

func TestEPUB(t *testing.T) {
	p := parsed(t, "pumps.epub", string(book(nil,
		`<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a.js"/></head><body><h1>One</h1><p>The <a id="x"/>first chapter.</p></body></html>`,
		`<html><body><h1>Two</h1><nav><p>Contents</p></nav><ul><li>a</li><li>b</li></ul></body></html>`)))
	expect(t, p, "heading1: One", "paragraph: The first chapter.", "heading1: Two", "list: - a\n- b")
	if p.Title != "Pumps" || p.MediaType != mediaTypes[formatEPUB] {
		t.Errorf("title %q, media type %q", p.Title, p.MediaType)
	}
	locked := map[string]string{"META-INF/encryption.xml": `<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData><enc:CipherData><enc:CipherReference URI="%s"/></enc:CipherData></enc:EncryptedData></encryption>`}
	text := `<html><body><p>Text</p></body></html>`
	font := map[string]string{"META-INF/encryption.xml": strings.Replace(locked["META-INF/encryption.xml"], "%s", "OPS/font.otf", 1)}
	expect(t, parsed(t, "font.epub", string(book(font, text))), "paragraph: Text")
	locked["META-INF/encryption.xml"] = strings.Replace(locked["META-INF/encryption.xml"], "%s", "OPS/text/chapter%200.xhtml", 1)
	if r := refused(t, "locked.epub", book(locked, text), Limits{}); r.Code != schema.ReasonEncrypted {
		t.Errorf("reason %+v", r)
	}
}

func TestRefusedOfficeFiles(t *testing.T) {
	sheetOf := func(rows ...[]any) []byte {
		return workbook(t, func(f *excelize.File) error { return fillSheet(f, "Sheet1", "A1", rows...) })
	}
	wide := make([]any, 40)
	for i := range wide {
		wide[i] = i
	}
	shown := presentation(slide(shape("title", "a")), slide(shape("title", "b")))
	deep := strings.Repeat("<p:grpSp>", 1000)
	for _, tt := range []struct {
		name   string
		data   []byte
		limits Limits
		want   string
	}{
		{"blank.xlsx", sheetOf(), Limits{}, schema.ReasonEmpty},
		{"rows.xlsx", sheetOf([]any{"a"}, []any{"b"}, []any{"c"}), Limits{Rows: 2}, schema.ReasonTooLarge},
		{"wide.xlsx", sheetOf(wide), Limits{Cells: 39}, schema.ReasonTooLarge},
		{"cell.xlsx", sheetOf([]any{strings.Repeat("x", 5000), "y"}), Limits{LineBytes: 4000}, schema.ReasonTooLarge},
		{"text.xlsx", sheetOf([]any{strings.Repeat("word ", 1000)}), Limits{TextBytes: 4000}, schema.ReasonTooLarge},
		{"broken.xlsx", docx(map[string]string{"xl/workbook.xml": "<x"}), Limits{}, schema.ReasonBroken},
		{"sheet.xlsx", bytes.Replace(sheetOf([]any{"a"}), []byte("PK\x01\x02"), []byte("PK\x01\x03"), 1), Limits{}, schema.ReasonBroken},
		{"bomb.xlsx", bomb("xl/sharedStrings.xml", 64<<20), Limits{}, schema.ReasonTooLarge},
		{"slides.pptx", docx(shown), Limits{Pages: 1}, schema.ReasonTooLarge},
		{"none.pptx", docx(map[string]string{"ppt/presentation.xml": "<a/>"}), Limits{}, schema.ReasonBroken},
		{"lost.pptx", docx(map[string]string{"ppt/presentation.xml": shown["ppt/presentation.xml"], "ppt/_rels/presentation.xml.rels": shown["ppt/_rels/presentation.xml.rels"]}), Limits{}, schema.ReasonBroken},
		{"blank.pptx", docx(presentation(slide("<p:pic/>"))), Limits{}, schema.ReasonEmpty},
		{"deep.pptx", docx(presentation(slide(deep))), Limits{}, schema.ReasonTooLarge},
		{"cut.pptx", docx(presentation("<p:sld>")), Limits{}, schema.ReasonBroken},
		{"none.epub", docx(map[string]string{"META-INF/container.xml": "<a/>"}), Limits{}, schema.ReasonBroken},
		{"blank.epub", book(nil, "<html><body> </body></html>"), Limits{}, schema.ReasonEmpty},
		{"deep.epub", book(nil, "<html><body>"+strings.Repeat("<div>", 100_000)), Limits{}, schema.ReasonTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := refused(t, tt.name, tt.data, tt.limits); r.Code != tt.want {
				t.Errorf("reason %+v, want %s", r, tt.want)
			}
		})
	}
}

func FuzzXLSX(f *testing.F) {
	fuzz(f, "a.xlsx", func(body []byte) []byte {
		return docx(map[string]string{
			"[Content_Types].xml":        `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>`,
			"_rels/.rels":                `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="` + relations + `/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
			"xl/workbook.xml":            `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="` + relations + `"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>`,
			"xl/_rels/workbook.xml.rels": `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="` + relations + `/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`,
			"xl/worksheets/sheet1.xml":   `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>` + string(body) + `</sheetData></worksheet>`,
		})
	}, `<row r="1"><c r="A1" t="inlineStr"><is><t>Model</t></is></c><c r="B1" t="inlineStr"><is><t>Price</t></is></c></row><row r="3"><c r="A3"><v>1</v></c><c r="XFD3"><f>A1</f><v>2.5</v></c></row>`)
}

func FuzzPPTX(f *testing.F) {
	fuzz(f, "a.pptx", func(body []byte) []byte { return docx(presentation(slide(string(body)))) },
		shape("title", "Sales")+shape("body", "a", ">b"), `<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>x</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>`)
}

func FuzzEPUB(f *testing.F) {
	fuzz(f, "a.epub", func(body []byte) []byte { return book(nil, string(body)) },
		`<html><head><title/></head><body><h1>One</h1><p>a<br/>b</p><table><tr><td>1</td></tr></table></body></html>`)
}
