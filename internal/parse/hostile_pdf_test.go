package parse

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
)

// hello is the content of a page with one line of text.
const hello = "BT /F1 11 Tf 72 720 Td (Hello there.) Tj ET"

// pdfOf returns a PDF of objects, numbered from 1, with a correct table and trailer; the first is
// the catalogue.
func pdfOf(objects ...string) []byte {
	return pdfWith("", objects...)
}

func pdfWith(trailer string, objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.5\n")
	var offsets []int
	for i, o := range objects {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	at := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, at)
	return b.Bytes()
}

func pdfStream(entries, content string) string {
	return fmt.Sprintf("<< /Length %d %s >>\nstream\n%s\nendstream", len(content), entries, content)
}

// flated compresses with zlib.
func flated(s string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

const (
	catalog   = "<< /Type /Catalog /Pages 2 0 R >>"
	onePageOf = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
	helvetica = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
)

// pdfPage returns a PDF of one page with these entries, content and font.
func pdfPage(page, content, font string, more ...string) []byte {
	return pdfOf(append([]string{catalog, onePageOf,
		"<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R " + page + " >>", content, font}, more...)...)
}

const letterBox = "/MediaBox [0 0 612 792]"

func hostilePDFs() []hostileFile {
	plain := pdfPage(letterBox, pdfStream("", hello), helvetica)
	list := []hostileFile{}
	add := func(name string, data []byte) {
		list = append(list, hostileFile{"pdf " + name, data})
	}
	// Sizes of pages.
	for name, box := range map[string]string{
		"1e9": "[0 0 1000000000 1000000000]", "nan": "[0 0 nan nan]", "negative": "[0 0 -612 -792]", "zero": "[0 0 0 0]", "inverted": "[612 792 0 0]",
		"1e38": "[0 0 1e38 1e38]", "digits": "[0 0 " + strings.Repeat("9", 400) + " 792]", "two": "[0 0]", "none": "[]", "names": "[/a /b /c /d]", "deep": strings.Repeat("[", 400) + strings.Repeat("]", 400),
		"tiny": "[0 0 0.0000001 0.0000001]", "far": "[2000000000 2000000000 2000000612 2000000792]", "itself": "3 0 R",
	} {
		add("page "+name, pdfPage("/MediaBox "+box, pdfStream("", hello), helvetica))
	}
	add("user unit", pdfPage(letterBox+" /UserUnit 1e30", pdfStream("", hello), helvetica))
	add("rotated by a billion", pdfPage(letterBox+" /Rotate 1000000007", pdfStream("", hello), helvetica))
	add("crop box outside", pdfPage(letterBox+" /CropBox [-9e9 -9e9 -8e9 -8e9]", pdfStream("", hello), helvetica))

	// Trees of pages.
	deep := []string{"<< /Type /Catalog /Pages 2 0 R >>"}
	for i := range 3000 {
		deep = append(deep, fmt.Sprintf("<< /Type /Pages /Kids [%d 0 R] /Count 1 >>", i+3))
	}
	deep = append(deep, "<< /Type /Page /MediaBox [0 0 612 792] >>")
	add("tree 3000 deep", pdfOf(deep...))
	add("tree in a circle", pdfOf(catalog, "<< /Type /Pages /Kids [2 0 R] /Count 1 >>"))
	add("tree of two in a circle", pdfOf(catalog, "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Pages /Kids [2 0 R] /Count 1 >>"))
	add("tree of a billion", pdfOf(catalog, "<< /Type /Pages /Kids [] /Count 1000000000 >>"))
	add("tree of minus one", pdfOf(catalog, "<< /Type /Pages /Kids [] /Count -1 >>"))
	add("one page a hundred thousand times", pdfOf(catalog, "<< /Type /Pages /Kids ["+strings.Repeat("3 0 R ", 100_000)+"] /Count 100000 >>", "<< /Type /Page /Parent 2 0 R "+letterBox+" >>"))
	wide := []string{catalog}
	for i := range 9 { // 10^9 pages if all were counted
		wide = append(wide, "<< /Type /Pages /Kids ["+strings.Repeat(fmt.Sprintf("%d 0 R ", i+3), 10)+"] /Count 1000000000 >>")
	}
	add("tree that fans out", pdfOf(append(wide, "<< /Type /Page "+letterBox+" >>")...))
	add("catalogue is its pages", pdfOf("<< /Type /Catalog /Pages 1 0 R >>"))
	add("no pages", pdfOf("<< /Type /Catalog >>"))
	add("no catalogue", pdfWith("", "null"))

	// Objects that refer to themselves.
	add("content is itself", pdfPage(letterBox, "4 0 R", helvetica))
	add("contents in a circle", pdfPage(letterBox, "[4 0 R 4 0 R]", helvetica))
	add("length is itself", pdfPage(letterBox, "<< /Length 4 0 R >>\nstream\n"+hello+"\nendstream", helvetica))
	add("length is huge", pdfPage(letterBox, "<< /Length 9999999999999 >>\nstream\n"+hello+"\nendstream", helvetica))
	add("length is negative", pdfPage(letterBox, "<< /Length -5 >>\nstream\n"+hello+"\nendstream", helvetica))
	add("form in itself", pdfPage(letterBox+" /Resources << /XObject << /X 6 0 R >> >>", pdfStream("", "/X Do"), helvetica,
		pdfStream("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>", "/X Do")))
	forms := []string{}
	for i := range 14 { // 2^14 drawings
		forms = append(forms, pdfStream(fmt.Sprintf("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X %d 0 R >> >>", i+7), "/X Do /X Do"))
	}
	add("forms that double", pdfOf(append([]string{catalog, onePageOf, "<< /Type /Page /Parent 2 0 R " + letterBox + " /Resources << /XObject << /X 6 0 R >> >> /Contents 4 0 R >>",
		pdfStream("", "/X Do"), "null"}, append(forms, "null")...)...))
	add("arrays 100,000 deep", pdfPage(letterBox+" /A "+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000), pdfStream("", hello), helvetica))
	add("dictionaries 100,000 deep", pdfPage(letterBox+" /A "+strings.Repeat("<< /A ", 100_000), pdfStream("", hello), helvetica))
	add("parent in a circle", pdfOf(catalog, "<< /Type /Pages /Parent 3 0 R /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 3 0 R /Contents 4 0 R >>", pdfStream("", hello)))

	// Streams.
	add("flate bomb", pdfPage(letterBox, pdfStream("/Filter /FlateDecode", flated(strings.Repeat(" ", 40<<20))), helvetica))
	add("flate of flate", pdfPage(letterBox, pdfStream("/Filter [/FlateDecode /FlateDecode]", flated(flated(strings.Repeat(" ", 40<<20)))), helvetica))
	add("a thousand filters", pdfPage(letterBox, pdfStream("/Filter ["+strings.Repeat("/ASCIIHexDecode ", 1000)+"]", hello), helvetica))
	add("filter that is not", pdfPage(letterBox, pdfStream("/Filter /Nothing", hello), helvetica))
	add("flate of noise", pdfPage(letterBox, pdfStream("/Filter /FlateDecode", string(noise(5000))), helvetica))
	add("predictor of a billion columns", pdfPage(letterBox, pdfStream("/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 1000000000 /Colors 32 /BitsPerComponent 16 >>", flated(hello)), helvetica))
	add("LZW of noise", pdfPage(letterBox, pdfStream("/Filter /LZWDecode", string(noise(5000))), helvetica))
	add("run lengths of noise", pdfPage(letterBox, pdfStream("/Filter /RunLengthDecode", string(noise(5000))), helvetica))
	add("states that are never left", pdfPage(letterBox, pdfStream("", strings.Repeat("q ", 500_000)+hello), helvetica))
	add("operands without operators", pdfPage(letterBox, pdfStream("", strings.Repeat("1 ", 500_000)+hello), helvetica))
	add("text that never ends", pdfPage(letterBox, pdfStream("", "BT /F1 11 Tf (Hello"+strings.Repeat("(", 100_000)), helvetica))
	add("letters of size 1e30", pdfPage(letterBox, pdfStream("", "BT /F1 1e30 Tf 72 720 Td (Hello there.) Tj ET"), helvetica))
	add("matrix of nothing", pdfPage(letterBox, pdfStream("", "0 0 0 0 0 0 cm "+hello), helvetica))
	add("inline image of a billion", pdfPage(letterBox, pdfStream("", "BI /W 1000000000 /H 1000000000 /BPC 8 /CS /RGB ID abc EI "+hello), helvetica))
	add("image of a billion", pdfPage(letterBox+" /Resources << /XObject << /X 6 0 R >> >>", pdfStream("", "/X Do"), helvetica,
		pdfStream("/Type /XObject /Subtype /Image /Width 100000 /Height 100000 /BitsPerComponent 8 /ColorSpace /DeviceRGB", "abc")))
	add("dashes of nothing", pdfPage(letterBox, pdfStream("", "[0 0] 0 d 0 0 m 600 700 l S [1e-9 1e-9] 0 d 0 0 m 1e9 1e9 l S "+hello), helvetica))
	add("50,000 rectangles", pdfPage(letterBox, pdfStream("/Filter /FlateDecode", flated(strings.Repeat("1 1 9 9 re f\n", 50_000)+hello)), helvetica))
	add("20,000 letters, one by one", pdfPage(letterBox, pdfStream("/Filter /FlateDecode", flated("BT /F1 11 Tf 72 720 Td "+strings.Repeat("(a) Tj 0.1 0 Td ", 20_000)+"ET")), helvetica))

	// Tables of objects.
	swap := func(old, new string) []byte { return bytes.Replace(plain, []byte(old), []byte(new), 1) }
	add("no table", plain[:bytes.LastIndex(plain, []byte("xref\n0"))])
	add("table is elsewhere", swap("startxref\n", "startxref\n9"))
	add("table is before the file", swap("startxref\n", "startxref\n-"))
	add("table before in a circle", pdfWith("/Prev 15", catalog, onePageOf, "<< /Type /Page /Parent 2 0 R "+letterBox+" >>"))
	self := pdfWith("/Prev @@@@@@", catalog, onePageOf, "<< /Type /Page /Parent 2 0 R "+letterBox+" /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>", pdfStream("", hello), helvetica)
	add("table is its own before", bytes.Replace(self, []byte("@@@@@@"), fmt.Appendf(nil, "%06d", bytes.LastIndex(self, []byte("xref\n0"))), 1))
	add("offsets are wrong", bytes.ReplaceAll(plain, []byte(" 00000 n"), []byte(" 00001 n")))
	add("offsets are all one", []byte(strings.ReplaceAll(string(plain), "00000000", "00000009")))
	add("a table of four billion", swap("xref\n0 6", "xref\n0 4294967295"))
	add("a table from minus one", swap("xref\n0 6", "xref\n-1 6"))
	add("size of nothing", swap("/Size 6", "/Size 0"))
	add("size of a billion", swap("/Size 6", "/Size 999999999"))
	add("no root", swap("/Root 1 0 R", ""))
	add("root is nowhere", swap("/Root 1 0 R", "/Root 999 0 R"))
	add("two headers", append([]byte("%PDF-1.7\n%PDF-1.4\n"), plain...))
	add("nothing behind its header", []byte("%PDF-1.7\nstartxref\n0\n%%EOF"))
	// Streams of objects and tables that are streams.
	objStream := func(n, first int, body string) string {
		return pdfStream(fmt.Sprintf("/Type /ObjStm /N %d /First %d", n, first), body)
	}
	xrefStream := func(rows string, entries string, objects ...string) []byte {
		var b bytes.Buffer
		b.WriteString("%PDF-1.5\n")
		for i, o := range objects {
			fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
		}
		at := b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\nstartxref\n%d\n%%%%EOF", len(objects)+1, pdfStream("/Type /XRef /Root 1 0 R "+entries, rows), at)
		return b.Bytes()
	}
	add("object stream in itself", xrefStream("\x02\x00\x01\x00\x02\x00\x01\x00", "/Size 2 /W [1 2 1]", objStream(1, 4, "1 0 "+catalog)))
	add("object stream of a billion", xrefStream("\x00\x00\x00\x00\x02\x00\x01\x00", "/Size 2 /W [1 2 1]", objStream(1_000_000_000, 4, "1 0 "+catalog)))
	add("object stream from behind its end", xrefStream("\x00\x00\x00\x00\x02\x00\x01\x00", "/Size 2 /W [1 2 1]", objStream(1, 1<<30, "1 0 "+catalog)))
	add("object stream that extends itself", xrefStream("\x00\x00\x00\x00\x02\x00\x01\x00", "/Size 2 /W [1 2 1]", pdfStream("/Type /ObjStm /N 1 /First 4 /Extends 1 0 R", "1 0 "+catalog)))
	add("table of wide columns", xrefStream("\x01\x00\x09\x00", "/Size 2 /W [1000000000 1000000000 1000000000]", catalog))
	add("table of negative columns", xrefStream("\x01\x00\x09\x00", "/Size 2 /W [-1 2 -1]", catalog))
	add("table with an index of a billion", xrefStream("\x01\x00\x09\x00", "/Size 2 /W [1 2 1] /Index [0 1000000000]", catalog))
	add("encrypted by nothing", pdfWith("/Encrypt << /Filter /Nothing /V 9 >>", catalog, onePageOf, "<< /Type /Page "+letterBox+" >>"))
	add("encrypted by itself", pdfWith("/Encrypt 2 0 R", catalog, "2 0 R"))
	add("outlines in a circle", pdfOf("<< /Type /Catalog /Pages 2 0 R /Outlines 4 0 R >>", onePageOf, "<< /Type /Page /Parent 2 0 R "+letterBox+" /Contents 5 0 R /Resources << /Font << /F1 6 0 R >> >> >>",
		"<< /First 4 0 R /Last 4 0 R /Next 4 0 R /Parent 4 0 R /Title (a) >>", pdfStream("", hello), helvetica))
	add("a script", pdfOf("<< /Type /Catalog /Pages 2 0 R /OpenAction << /S /JavaScript /JS (while (true) {}) >> >>", onePageOf, "<< /Type /Page /Parent 2 0 R "+letterBox+" /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>", pdfStream("", hello), helvetica))
	return list
}

// hostileFonts returns PDFs with wrong fonts.
func hostileFonts() []hostileFile {
	var list []hostileFile
	add := func(name, font, content string, more ...string) {
		list = append(list, hostileFile{"font " + name, pdfPage(letterBox, pdfStream("", content), font, more...)})
	}
	trueType := "<< /Type /Font /Subtype /TrueType /BaseFont /Odd /FirstChar 0 /LastChar 255 /FontDescriptor << /Type /FontDescriptor /FontName /Odd /Flags 4 /FontFile2 6 0 R >> >>"
	composite := func(cmap string) string {
		return "<< /Type /Font /Subtype /Type0 /BaseFont /Odd /Encoding /Identity-H /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Odd /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] " + cmap + " >>"
	}
	glyphs := "\x00\x01\x00\x00\x00\x02\x00\x20\x00\x01\x00\x00" + "maxp\x00\x00\x00\x00\x00\x00\x00\x2C\x00\x00\x00\x06" + "glyf\x00\x00\x00\x00\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF" + "\x00\x01\x00\x00\xFF\xFF"
	add("of noise", trueType, hello, pdfStream("", string(noise(20_000))))
	add("of nothing", trueType, hello, pdfStream("", ""))
	add("with 65,535 glyphs that are not there", trueType, hello, pdfStream("", glyphs))
	add("with 65,535 tables", trueType, hello, pdfStream("", "\x00\x01\x00\x00\xFF\xFF\x00\x00\x00\x00\x00\x00"+strings.Repeat("glyf\x00\x00\x00\x00\x00\x00\x00\x00\xFF\xFF\xFF\xFF", 1000)))
	add("collection in itself", trueType, hello, pdfStream("", "ttcf\x00\x01\x00\x00\x00\x00\xFF\xFF\x00\x00\x00\x00"))
	add("type 1 of noise", strings.Replace(strings.Replace(trueType, "TrueType", "Type1", 1), "FontFile2", "FontFile", 1), hello, pdfStream("/Length1 99999999 /Length2 99999999 /Length3 99999999", string(noise(20_000))))
	add("CFF of noise", strings.Replace(strings.Replace(trueType, "TrueType", "Type1", 1), "FontFile2", "FontFile3", 1), hello, pdfStream("/Subtype /Type1C", "\x01\x00\x04\x04"+string(noise(20_000))))
	add("flate bomb", trueType, hello, pdfStream("/Filter /FlateDecode", flated(strings.Repeat("\x00", 40<<20))))
	add("is itself", "5 0 R", hello)
	add("is a number", "7", hello)
	add("whose descendant it is", "<< /Type /Font /Subtype /Type0 /BaseFont /Odd /Encoding /Identity-H /DescendantFonts [5 0 R] >>", hello)
	add("with a first letter behind its last", strings.Replace(trueType, "/FirstChar 0 /LastChar 255", "/FirstChar 255 /LastChar -255 /Widths [1e30 -1e30]", 1), hello, pdfStream("", "x"))
	add("with widths of a billion letters", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /FirstChar 0 /LastChar 1000000000 /Widths [500] >>", hello)
	add("with a map of a million letters", composite("/ToUnicode 6 0 R"), "BT /F1 11 Tf 72 720 Td <00010002> Tj ET",
		pdfStream("/Filter /FlateDecode", flated("begincmap\n1 begincodespacerange <0000> <FFFF> endcodespacerange\n"+strings.Repeat("100 beginbfrange\n"+strings.Repeat("<0000> <FFFF> <0041>\n", 100)+"endbfrange\n", 200))))
	add("with a map from behind", composite("/ToUnicode 6 0 R"), "BT /F1 11 Tf 72 720 Td <00010002> Tj ET",
		pdfStream("", "begincmap\n1 beginbfrange\n<FFFF> <0000> <0041>\nendbfrange\n1 beginbfrange <00000000> <FFFFFFFF> <00> endbfrange"))
	add("with a map to very long text", composite("/ToUnicode 6 0 R"), "BT /F1 11 Tf 72 720 Td <00010001> Tj ET",
		pdfStream("", "begincmap\n1 beginbfchar\n<0001> <"+strings.Repeat("0041", 10_000)+">\nendbfchar\nendcmap"))
	add("with a map that uses itself", composite("/ToUnicode 6 0 R"), "BT /F1 11 Tf 72 720 Td <00010002> Tj ET", pdfStream("/UseCMap 6 0 R", "begincmap endcmap"))
	add("whose encoding is itself", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding 5 0 R >>", hello)
	add("with differences from minus one", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Differences [-1 /A /B 1000000000 /C] >> >>", hello)
	add("type 3 that draws itself", "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 9 9] /FontMatrix [1 0 0 1 0 0] /FirstChar 72 /LastChar 72 /Widths [9] /Encoding << /Differences [72 /H] >> /CharProcs << /H 6 0 R >> /Resources << /Font << /F1 5 0 R >> >> >>",
		hello, pdfStream("", "9 0 d0 BT /F1 9 Tf (H) Tj ET"))
	add("matrix of nothing", "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 0 0] /FontMatrix [0 0 0 0 0 0] /FirstChar 72 /LastChar 72 /Widths [9] /Encoding << /Differences [72 /H] >> /CharProcs << /H 6 0 R >> >>", hello, pdfStream("", "9 0 d0"))
	return list
}
