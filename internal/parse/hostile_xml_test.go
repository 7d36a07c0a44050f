package parse

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/xuri/excelize/v2"
)

// laughs returns entities that each contain the previous one ten times.
func laughs(root string) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><!DOCTYPE ` + root + ` [<!ENTITY l0 "lol">`)
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, `<!ENTITY l%d "%s">`, i, strings.Repeat(fmt.Sprintf("&l%d;", i-1), 10))
	}
	return b.String() + "]>"
}

// hostileXML returns documents with wrong XML, in each format that is XML in a container.
func hostileXML() []hostileFile {
	word := func(head, body string) []byte {
		return docx(map[string]string{"word/document.xml": head + strings.TrimPrefix(document1(body), `<?xml version="1.0"?>`)})
	}
	text := func(head, body string) []byte {
		inner := `<office:document-content ` + odfSpaces + `><office:body><office:text>` + body + `</office:text></office:body></office:document-content>`
		return docx(map[string]string{"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": head + inner})
	}
	epub := func(head, body string) []byte { return book(nil, head+"<html><body>"+body+"</body></html>") }
	formats := []struct {
		name, p, end string
		make         func(head, body string) []byte
	}{
		{"docx", "<w:p><w:r><w:t>", "</w:t></w:r></w:p>", word}, {"odt", "<text:p>", "</text:p>", text}, {"epub", "<p>", "</p>", epub},
	}
	var list []hostileFile
	for _, f := range formats {
		words := f.p + "Some words." + f.end
		add := func(name string, data []byte) {
			list = append(list, hostileFile{f.name + " " + name, data})
		}
		add("of entities that laugh", f.make(laughs("a"), f.p+"&l11;"+f.end))
		add("of an external entity", f.make(`<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>`, f.p+"&x; words"+f.end))
		add("of an external entity of the network", f.make(`<!DOCTYPE a SYSTEM "http://192.0.2.1/a.dtd" [<!ENTITY % x SYSTEM "http://192.0.2.1/b"> %x;]>`, words))
		add("of an entity of itself", f.make(`<!DOCTYPE a [<!ENTITY x "&x;">]>`, f.p+"&x;"+f.end))
		add("100,000 deep", f.make("", strings.Repeat(f.p, 100_000)))
		add("with an attribute of 8 MB", f.make("", strings.Replace(words, ">", ` w:x="`+strings.Repeat("a", 8<<20)+`">`, 1)))
		add("with 200,000 attributes", f.make("", strings.Replace(words, ">", " "+strings.Repeat(`a="b" `, 200_000)+">", 1)))
		add("with a name of 1 MB", f.make("", words+"<"+strings.Repeat("n", 1<<20)+"/>"))
		add("with a comment without an end", f.make("", words+"<!--"+strings.Repeat(" a", 100_000)))
		add("with a million empty elements", f.make("", words+strings.Repeat(f.p+f.end, 100_000)))
		add("with NULs", f.make("", f.p+"a\x00b"+f.end))
		add("in an encoding that is not", f.make(`<?xml version="1.0" encoding="utf-99"?>`, words))
		add("that says UTF-16", f.make(`<?xml version="1.0" encoding="UTF-16"?>`, words))
		add("of bytes that are no text", f.make("", f.p+"\xff\xfe\xfd"+f.end))
		add("with letters of no number", f.make("", f.p+"&#x110000;&#0;&#xFFFFFFFFFF;"+f.end))
		add("of instructions", f.make("", strings.Repeat("<?x y?>", 100_000)+words))
		add("of a thousand namespaces", f.make("", strings.Repeat(`<a xmlns:b="c">`, 150)+words))
	}
	return list
}

// workbookParts returns the parts of an empty workbook.
func workbookParts() map[string]string {
	f := excelize.NewFile()
	b, err := f.WriteToBuffer()
	if err != nil {
		panic(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		panic(err)
	}
	parts := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			panic(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			panic(err)
		}
		parts[f.Name] = string(text)
	}
	return parts
}

// hostileOffice returns office files and books whose parts contradict one another.
func hostileOffice() []hostileFile {
	var list []hostileFile
	add := func(name string, data []byte) {
		list = append(list, hostileFile{"office " + name, data})
	}
	const rels = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">%s</Relationships>`
	sheet := func(rows string) string {
		return `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>` + rows + `</sheetData></worksheet>`
	}
	excel := func(rows string, more ...string) []byte {
		parts := workbookParts()
		parts["xl/worksheets/sheet1.xml"] = sheet(rows)
		for i := 0; i+1 < len(more); i += 2 {
			parts[more[i]] = more[i+1]
		}
		return docx(parts)
	}
	row := `<row r="1"><c r="A1" t="str"><v>Some</v></c><c r="B1" t="str"><v>words</v></c></row>`
	add("xlsx with a shared string out of range", excel(`<row r="1"><c r="A1" t="s"><v>1000000000</v></c></row>`))
	add("xlsx with a shared string below nothing", excel(`<row r="1"><c r="A1" t="s"><v>-1</v></c></row>`, "xl/sharedStrings.xml", `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>a</t></si></sst>`))
	add("xlsx with a shared string of 8 MB, 1,000 times", excel(strings.Repeat(`<row><c t="s"><v>0</v></c></row>`, 1000), "xl/sharedStrings.xml", `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>`+strings.Repeat("long ", 1<<20)+`</t></si></sst>`))
	add("xlsx that says a billion shared strings", excel(row, "xl/sharedStrings.xml", `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" count="1000000000" uniqueCount="1000000000"><si><t>a</t></si></sst>`))
	add("xlsx with a cell of the last column", excel(`<row r="1"><c r="XFD1" t="str"><v>Some words</v></c></row>`))
	add("xlsx with a cell behind the last column", excel(`<row r="1"><c r="ZZZZZZZZ1" t="str"><v>Some words</v></c></row>`))
	add("xlsx with a row of two billion", excel(`<row r="2147483647"><c r="A2147483647" t="str"><v>Some words</v></c></row>`))
	add("xlsx with rows backwards", excel(`<row r="9"><c r="A9" t="str"><v>Some words</v></c></row><row r="-5"><c r="A-5" t="str"><v>Other</v></c></row>`))
	add("xlsx of 200,000 rows", excel(strings.Repeat(`<row><c t="str"><v>a</v></c></row>`, 200_000)))
	add("xlsx with styles out of range", excel(`<row r="1"><c r="A1" s="99999999"><v>1</v></c><c r="B1" s="-1"><v>2</v></c></row>`))
	add("xlsx with a number of 1e999", excel(`<row r="1"><c r="A1"><v>1e999</v></c><c r="B1"><v>-1e-999</v></c><c r="C1"><v>nan</v></c></row>`))
	add("xlsx merged from the first to the last cell", excel(row, "xl/worksheets/sheet1.xml", strings.Replace(sheet(row), "</worksheet>", `<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells></worksheet>`, 1)))
	add("xlsx whose sheet is its workbook", excel(row, "xl/_rels/workbook.xml.rels", fmt.Sprintf(rels, `<Relationship Id="rId1" Type="`+relations+`/worksheet" Target="workbook.xml"/>`)))
	add("xlsx whose sheet is outside", excel(row, "xl/_rels/workbook.xml.rels", fmt.Sprintf(rels, `<Relationship Id="rId1" Type="`+relations+`/worksheet" Target="../../../../etc/passwd"/>`)))
	add("xlsx whose sheet is on the network", excel(row, "xl/_rels/workbook.xml.rels", fmt.Sprintf(rels, `<Relationship Id="rId1" TargetMode="External" Type="`+relations+`/worksheet" Target="http://192.0.2.1/a"/>`)))
	add("xlsx with a date of the year 10^9", excel(`<row r="1"><c r="A1" s="1"><v>99999999999</v></c></row>`, "xl/styles.xml", `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>`))
	add("xlsx with a format of 1 MB", excel(`<row r="1"><c r="A1" s="1"><v>7</v></c></row>`, "xl/styles.xml", `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><numFmts><numFmt numFmtId="200" formatCode="`+strings.Repeat("[h]", 300_000)+`"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="200"/></cellXfs></styleSheet>`))

	words := slide(shape("title", "Some words"))
	show := presentation(words)
	with := func(more ...string) []byte {
		parts := map[string]string{}
		for k, v := range show {
			parts[k] = v
		}
		for i := 0; i+1 < len(more); i += 2 {
			parts[more[i]] = more[i+1]
		}
		return docx(parts)
	}
	add("pptx whose slide is its presentation", with("ppt/_rels/presentation.xml.rels", fmt.Sprintf(rels, `<Relationship Id="rId1" Type="`+relations+`/slide" Target="presentation.xml"/>`)))
	add("pptx whose notes are its slide", with("ppt/slides/_rels/slide1.xml.rels", fmt.Sprintf(rels, `<Relationship Id="rId8" Type="`+relations+`/notesSlide" Target="slide1.xml"/>`)))
	add("pptx with a slide 10,000 times", with("ppt/presentation.xml", `<p:presentation `+slideSpaces+`><p:sldIdLst>`+strings.Repeat(`<p:sldId id="256" r:id="rId1"/>`, 10_000)+`</p:sldIdLst></p:presentation>`))
	add("pptx of groups 10,000 deep", with("ppt/slides/slide1.xml", slide(strings.Repeat("<p:grpSp>", 10_000)+strings.Repeat("</p:grpSp>", 10_000))))
	add("pptx with 100,000 relations", with("ppt/_rels/presentation.xml.rels", fmt.Sprintf(rels, strings.Repeat(`<Relationship Id="rId1" Type="`+relations+`/slide" Target="slides/slide1.xml"/>`, 100_000))))

	body := func(s string, more ...string) []byte {
		parts := map[string]string{"word/document.xml": document1(s)}
		for i := 0; i+1 < len(more); i += 2 {
			parts[more[i]] = more[i+1]
		}
		return docx(parts)
	}
	p := "<w:p><w:pPr><w:pStyle w:val=\"A\"/></w:pPr><w:r><w:t>Some words</w:t></w:r></w:p>"
	add("docx of styles in a circle", body(p, "word/styles.xml", `<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:style w:styleId="A"><w:basedOn w:val="B"/></w:style><w:style w:styleId="B"><w:basedOn w:val="A"/></w:style></w:styles>`))
	add("docx of a style of itself", body(p, "word/styles.xml", `<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:style w:styleId="A"><w:basedOn w:val="A"/></w:style></w:styles>`))
	add("docx of tables in tables", body(strings.Repeat("<w:tbl><w:tr><w:tc>", 60)+p+strings.Repeat("</w:tc></w:tr></w:tbl>", 60)))
	add("docx of a table of 5,000 columns", body("<w:tbl><w:tr>"+strings.Repeat("<w:tc>"+p+"</w:tc>", 5000)+"</w:tr></w:tbl>"))
	add("docx with cells that span a billion", body("<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val=\"1000000000\"/></w:tcPr>"+p+"</w:tc></w:tr></w:tbl>"))
	add("docx whose note is itself", body(`<w:p><w:r><w:t>Some words</w:t><w:footnoteReference w:id="1"/></w:r></w:p>`, "word/footnotes.xml",
		`<w:footnotes xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:footnote w:id="1"><w:p><w:r><w:t>Note</w:t><w:footnoteReference w:id="1"/></w:r></w:p></w:footnote></w:footnotes>`))
	add("docx of a list of level a billion", body(`<w:p><w:pPr><w:numPr><w:ilvl w:val="1000000000"/><w:numId w:val="-1"/></w:numPr></w:pPr><w:r><w:t>Some words</w:t></w:r></w:p>`))
	add("docx of lists in a circle", body(`<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>Some words</w:t></w:r></w:p>`, "word/numbering.xml",
		`<w:numbering xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:abstractNum w:abstractNumId="1"><w:numStyleLink w:val="1"/></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num></w:numbering>`))
	add("docx twice", docx(map[string]string{"word/document.xml": document1(p), "xl/workbook.xml": "<workbook/>", "ppt/presentation.xml": "<a/>"}))

	ods := func(rows string) []byte {
		return odf("spreadsheet", "", `<table:table table:name="S">`+rows+`</table:table>`)
	}
	add("ods of 2^20 columns and 2^20 rows", ods(`<table:table-row table:number-rows-repeated="1048576">`+odsCell("a", `table:number-columns-repeated="1048576"`)+`</table:table-row>`))
	add("ods of a cell two billion times", ods(`<table:table-row>`+odsCell("a", `table:number-columns-repeated="2147483647"`)+`</table:table-row>`))
	add("ods of minus one rows", ods(`<table:table-row table:number-rows-repeated="-1">`+odsCell("Some words", "")+`</table:table-row>`))
	add("ods of rows of no number", ods(`<table:table-row table:number-rows-repeated="99999999999999999999">`+odsCell("Some words", "")+`</table:table-row>`))
	add("ods of 100,000 rows of 1,000 letters", ods(`<table:table-row table:number-rows-repeated="100000">`+odsCell(strings.Repeat("long ", 200), "")+`</table:table-row>`))
	add("odt of two billion spaces", odf("text", "", `<text:p>a<text:s text:c="2147483647"/>b</text:p>`))
	add("odt of styles in a circle", odf("text", `<style:style style:name="A" style:family="paragraph" style:parent-style-name="B"/><style:style style:name="B" style:family="paragraph" style:parent-style-name="A"/>`, `<text:p text:style-name="A">Some words</text:p>`))
	add("odt of lists 5,000 deep", odf("text", "", strings.Repeat("<text:list><text:list-item>", 5000)+"<text:p>a</text:p>"+strings.Repeat("</text:list-item></text:list>", 5000)))
	add("odp of a slide 10,000 times", odf("presentation", "", strings.Repeat(`<draw:page><draw:frame><draw:text-box><text:p>a</text:p></draw:text-box></draw:frame></draw:page>`, 10_000)))

	const page = "<html><body><p>Some words</p></body></html>"
	spine := func(items, refs string) []byte {
		return book(map[string]string{"OPS/book.opf": `<package xmlns="http://www.idpf.org/2007/opf"><metadata/><manifest>` + items + `</manifest><spine>` + refs + `</spine></package>`}, page)
	}
	add("epub whose spine is its package", spine(`<item id="a" href="book.opf" media-type="application/xhtml+xml"/>`, `<itemref idref="a"/>`))
	add("epub of a chapter 10,000 times", spine(`<item id="a" href="text/chapter%200.xhtml" media-type="application/xhtml+xml"/>`, strings.Repeat(`<itemref idref="a"/>`, 10_000)))
	add("epub whose fallbacks run in a circle", spine(`<item id="a" href="x" media-type="image/svg" fallback="b"/><item id="b" href="y" media-type="image/svg" fallback="a"/>`, `<itemref idref="a"/>`))
	add("epub of a chapter outside", spine(`<item id="a" href="../../../etc/passwd" media-type="application/xhtml+xml"/>`, `<itemref idref="a"/>`))
	add("epub of a chapter that is not there", spine(`<item id="a" href="none.xhtml" media-type="application/xhtml+xml"/>`, `<itemref idref="a"/><itemref idref="b"/>`))
	add("epub whose package is its container", book(map[string]string{"META-INF/container.xml": `<container><rootfiles><rootfile full-path="META-INF/container.xml"/></rootfiles></container>`}, page))
	add("epub of 1,000 packages", book(map[string]string{"META-INF/container.xml": `<container><rootfiles>` + strings.Repeat(`<rootfile full-path="none.opf"/>`, 1000) + `</rootfiles></container>`}, page))
	return list
}
