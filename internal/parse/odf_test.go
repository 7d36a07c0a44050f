package parse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

const odfSpaces = `xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" ` +
	`xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0" ` +
	`xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0"`

// odf returns a document of a kind: "text", "spreadsheet" or "presentation".
func odf(kind, styles, body string, extra ...string) []byte {
	parts := map[string]string{
		"mimetype":    "application/vnd.oasis.opendocument." + kind,
		"content.xml": `<?xml version="1.0"?><office:document-content ` + odfSpaces + `><office:automatic-styles>` + styles + `</office:automatic-styles><office:body><office:` + kind + `>` + body + `</office:` + kind + `></office:body></office:document-content>`,
		"meta.xml":    `<office:document-meta ` + odfSpaces + `><office:meta/></office:document-meta>`,
	}
	for i := 0; i+1 < len(extra); i += 2 {
		parts[extra[i]] = extra[i+1]
	}
	return docx(parts)
}

func TestODT(t *testing.T) {
	styles := `<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Title"/>` +
		`<style:style style:name="T9" style:family="text"><style:text-properties text:display="none"/></style:style>` +
		`<text:list-style style:name="L1"><text:list-level-style-number text:level="1" style:num-format="1"/><text:list-level-style-bullet text:level="2"/></text:list-style>`
	p := parsed(t, "no name", string(odf("text", styles,
		`<text:tracked-changes><text:changed-region><text:deletion><text:p>Deleted.</text:p></text:deletion></text:changed-region></text:tracked-changes>`+
			`<text:p text:style-name="P1">Manual of the pump</text:p>`+
			`<text:h text:outline-level="1">Größe</text:h>`+
			`<text:p>It is <text:span>very<text:s text:c="900000000"/>small</text:span><text:span text:style-name="T9">secret</text:span>,<text:line-break/>see <text:a xlink:href="https://example.org/a">the site</text:a>.<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>In our view.</text:p></text:note-body></text:note></text:p>`+
			`<text:list text:style-name="L1"><text:list-item><text:p>One</text:p></text:list-item><text:list-item><text:p>Two</text:p><text:list><text:list-item><text:p>inner</text:p></text:list-item></text:list></text:list-item></text:list>`+
			`<text:section text:display="none"><text:p>Hidden.</text:p></text:section>`+
			`<table:table table:name="T"><table:table-column/><table:table-header-rows><table:table-row><table:table-cell><text:p>Model</text:p></table:table-cell><table:table-cell><text:p>Price</text:p></table:table-cell></table:table-row></table:table-header-rows>`+
			`<table:table-row><table:table-cell><text:p>KD-40</text:p></table:table-cell><table:table-cell><text:p>612</text:p></table:table-cell></table:table-row></table:table>`+
			`<text:p>Before.<draw:frame><draw:text-box><text:p>In a box.</text:p></draw:text-box></draw:frame></text:p>`+
			`<text:table-of-content><text:index-body><text:p>Größe 1</text:p></text:index-body></text:table-of-content>`)))
	expect(t, p,
		"heading1: Manual of the pump",
		"heading1: Größe",
		"paragraph: It is very small, see the site.[1]",
		"list: 1. One\n2. Two\n  - inner",
		"table: Model | Price\nKD-40 | 612",
		"paragraph: Before.",
		"paragraph: In a box.",
		"paragraph: [1] In our view.",
	)
	expectLinks(t, p, "It is very small, see the site.[1] -> https://example.org/a")
	if p.Title != "Manual of the pump" || p.MediaType != "application/vnd.oasis.opendocument.text" {
		t.Errorf("title %q, media type %q", p.Title, p.MediaType)
	}
	titled := parsed(t, "a.odt", string(odf("text", "", "<text:p>Text.</text:p>", "meta.xml", `<office:document-meta `+odfSpaces+`><office:meta><dc:title>Given</dc:title></office:meta></office:document-meta>`)))
	if titled.Title != "Given" {
		t.Errorf("title %q", titled.Title)
	}
	// Only its content shows the format.
	expect(t, parsed(t, "a", string(odf("text", "", "<text:p>Text.</text:p>", "mimetype", "", "META-INF/manifest.xml", "<a/>"))), "paragraph: Text.")
}

// odsCell returns a cell with a text; attrs may repeat it.
func odsCell(text, attrs string) string {
	return `<table:table-cell ` + attrs + `><text:p>` + text + `</text:p></table:table-cell>`
}

func TestODS(t *testing.T) {
	const empty = `<table:table-row table:number-rows-repeated="1048000"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>`
	p := parsed(t, "no name", string(odf("spreadsheet", `<style:style style:name="ta9" style:family="table"><style:table-properties table:display="false"/></style:style>`,
		`<table:table table:name="Prices"><table:table-row>`+odsCell("Model", "")+odsCell("Price", "")+odsCell("Stock", "")+`<table:table-cell table:number-columns-repeated="16381"/></table:table-row>`+
			`<table:table-row table:number-rows-repeated="2">`+odsCell("KD-40", "")+odsCell("612", `table:number-columns-repeated="2"`)+`</table:table-row>`+
			`<table:table-row>`+odsCell("KD-60", "")+`<table:table-cell/><table:table-cell office:value-type="float" office:value="7"/></table:table-row>`+empty+`</table:table>`+
			`<table:table table:name="Secret" table:style-name="ta9"><table:table-row>`+odsCell("hidden", "")+`</table:table-row></table:table>`+
			`<table:table table:name="Notes"><table:table-row>`+odsCell("Prices without tax.", "")+`</table:table-row>`+empty+`</table:table>`)))
	expect(t, p,
		"heading1: Prices",
		"table: Model | Price | Stock\nKD-40 | 612 | 612\nKD-40 | 612 | 612\nKD-60 |  | 7",
		"heading1: Notes",
		"paragraph: Prices without tax.",
	)
}

func TestODP(t *testing.T) {
	box := func(class string, paragraphs string) string {
		return `<draw:frame presentation:class="` + class + `"><draw:text-box>` + paragraphs + `</draw:text-box></draw:frame>`
	}
	p := parsed(t, "no name", string(odf("presentation", `<style:style style:name="dp9" style:family="drawing-page"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>`,
		`<draw:page draw:name="page1">`+box("title", "<text:p>Review of the year</text:p>")+box("footer", "<text:p>Confidential</text:p>")+`</draw:page>`+
			`<draw:page draw:style-name="dp9">`+box("title", "<text:p>Not shown</text:p>")+`</draw:page>`+
			`<draw:page><draw:frame><draw:image/></draw:frame></draw:page>`+
			`<draw:page>`+box("outline", "<text:list><text:list-item><text:p>Sales rose</text:p></text:list-item></text:list>")+`<draw:g><draw:custom-shape><text:p>A shape.</text:p></draw:custom-shape></draw:g>`+
			`<presentation:notes><draw:page-thumbnail presentation:class="page"/>`+box("notes", "<text:p>Mention the new pump.</text:p>")+`</presentation:notes></draw:page>`)))
	expect(t, p,
		"heading1@1: Review of the year",
		"heading1@4: Slide 4",
		"list@4: - Sales rose",
		"paragraph@4: A shape.",
		"paragraph@4: Mention the new pump.",
	)
	if p.Title != "Review of the year" || p.Pages != 4 {
		t.Errorf("title %q, %d pages", p.Title, p.Pages)
	}
}

func TestRefusedODF(t *testing.T) {
	row := func(attrs, cells string) string {
		return `<table:table table:name="Big"><table:table-row ` + attrs + `>` + cells + `</table:table-row></table:table>`
	}
	for _, tt := range []struct {
		name   string
		data   []byte
		limits Limits
		want   string
		says   string
	}{
		{"locked.odt", odf("text", "", "noise", "META-INF/manifest.xml", `<manifest:manifest><manifest:file-entry><manifest:encryption-data/></manifest:file-entry></manifest:manifest>`), Limits{}, schema.ReasonEncrypted, "password"},
		{"wholly.odt", docx(map[string]string{"mimetype": "application/vnd.oasis.opendocument.text", "encrypted-package": "x"}), Limits{}, schema.ReasonEncrypted, "password"},
		{"drawing.odg", odf("graphics", "", "<draw:page/>"), Limits{}, schema.ReasonUnsupported, "OpenDocument"},
		{"blank.odt", odf("text", "", "<text:p/>"), Limits{}, schema.ReasonEmpty, ""},
		{"cut.odt", odf("text", "", "", "content.xml", "<office:document-content"), Limits{}, schema.ReasonBroken, "content.xml"},
		{"body.odt", odf("text", "", "", "content.xml", "<a/>"), Limits{}, schema.ReasonBroken, "content.xml"},
		{"none.ods", odf("text", "", "", "mimetype", "application/vnd.oasis.opendocument.spreadsheet"), Limits{}, schema.ReasonBroken, "sheets"},
		{"deep.odt", odf("text", "", strings.Repeat("<text:list><text:list-item>", 150)), Limits{}, schema.ReasonTooLarge, "deep"},
		{"rows.ods", odf("spreadsheet", "", row(`table:number-rows-repeated="2000000000"`, odsCell("a", ""))), Limits{}, schema.ReasonTooLarge, `sheet "Big"`},
		{"cells.ods", odf("spreadsheet", "", row("", odsCell("a", `table:number-columns-repeated="2000000000"`))), Limits{}, schema.ReasonTooLarge, `sheet "Big"`},
		{"gap.ods", odf("spreadsheet", "", row("", `<table:table-cell table:number-columns-repeated="9223372036854775807"/><table:table-cell table:number-columns-repeated="9223372036854775807"/>`+odsCell("a", ""))), Limits{}, schema.ReasonTooLarge, `sheet "Big"`},
		{"wide.ods", odf("spreadsheet", "", row("", odsCell(strings.Repeat("word ", 1000), `table:number-columns-repeated="1000"`))), Limits{TextBytes: 1 << 20}, schema.ReasonTooLarge, "text"},
		{"times.odt", odf("text", "", row(`table:number-rows-repeated="2000000000"`, odsCell("a", "")+odsCell("b", ""))), Limits{}, schema.ReasonTooLarge, `table "Big"`},
		{"cell.ods", odf("spreadsheet", "", row("", odsCell(strings.Repeat("x", 5000), ""))), Limits{LineBytes: 4000}, schema.ReasonTooLarge, `sheet "Big"`},
		{"slides.odp", odf("presentation", "", "<draw:page/><draw:page/>"), Limits{Pages: 1}, schema.ReasonTooLarge, "slides"},
		{"ring.odt", odf("text", `<style:style style:name="a" style:family="paragraph" style:parent-style-name="b"/><style:style style:name="b" style:family="paragraph" style:parent-style-name="a"/>`, `<text:p text:style-name="a"/>`), Limits{}, schema.ReasonEmpty, ""},
		{"bomb.ods", bomb("content.xml", 64<<20), Limits{}, schema.ReasonTooLarge, "zip bomb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := refused(t, tt.name, tt.data, tt.limits); r.Code != tt.want || !strings.Contains(r.Message, tt.says) {
				t.Errorf("reason %+v, want %s that says %q", r, tt.want, tt.says)
			}
		})
	}
}

func FuzzODF(f *testing.F) {
	fuzz(f, "a.odt", func(body []byte) []byte {
		kind := "text"
		switch {
		case strings.Contains(string(body), "<table:"):
			kind = "spreadsheet"
		case strings.Contains(string(body), "<draw:page"):
			kind = "presentation"
		}
		return odf(kind, `<text:list-style style:name="L"><text:list-level-style-number text:level="1" style:num-format="1"/></text:list-style>`, string(body))
	}, `<text:h text:outline-level="2">a</text:h><text:list text:style-name="L"><text:list-item><text:p>b<text:note><text:note-body><text:p>c</text:p></text:note-body></text:note></text:p></text:list-item></text:list>`,
		fmt.Sprintf(`<table:table table:name="x"><table:table-row table:number-rows-repeated="3">%s</table:table-row></table:table>`, odsCell("1", `table:number-columns-repeated="2"`)),
		`<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>t</text:p></draw:text-box></draw:frame></draw:page>`)
}
