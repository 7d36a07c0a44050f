package parse

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/text"
)

// fuzz parses the fuzzer's inputs under small limits. Parse must return clean blocks or a reason,
// and the blocks must form sections. wrap turns the fuzzed bytes into a file.
func fuzz(f *testing.F, name string, wrap func([]byte) []byte, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	limits := Limits{Bytes: 1 << 20, Pages: 50, TextBytes: 1 << 20, Rows: 1000, ExpandedBytes: 16 << 20, Time: 10 * time.Second}
	f.Fuzz(func(t *testing.T, data []byte) {
		if wrap != nil {
			data = wrap(data)
		}
		p, err := Parse(t.Context(), name, "", data, limits)
		var e *Error
		switch {
		case errors.As(err, &e):
			if e.Reason.Code == "" || e.Reason.Message == "" || strings.Contains(err.Error(), "panic:") {
				t.Fatalf("reason %+v: %v", e.Reason, err)
			}
			if !utf8.ValidString(e.Reason.Message) {
				t.Fatalf("the message is not text: %q", e.Reason.Message)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		if len(p.Blocks) == 0 {
			t.Fatal("no blocks and no reason")
		}
		check(t, p)
		for _, s := range text.Sections(p, 100) {
			if s.Tokens > 101 || s.Tokens == 0 && strings.TrimSpace(s.Text) == "" {
				t.Fatalf("a section of %d tokens: %q", s.Tokens, s.Text)
			}
		}
	})
}

func FuzzPlain(f *testing.F) {
	fuzz(f, "", nil, "Title\n=====\n\nText that goes\non.\n\n- a\n- b\n", "a\x00b\xff\xfe", "\xff\xfea\x00b\x00", "a\fb", "Gr\xf6\xdfe und H\xf6he", "1. x\n  y\n2. z")
}

func FuzzMarkdown(f *testing.F) {
	fuzz(f, "a.md", nil, "---\ntitle: x\n---\n# H\n\n- a\n  1. b\n\n     c\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\ncode\n```\n\n> q\n\nx[^1]\n\n[^1]: note\n\nterm\n: def\n\n<p>h</p>\n{% x %}")
}

func FuzzHTML(f *testing.F) {
	fuzz(f, "a.html", nil, "<!DOCTYPE html><title>t</title><body><nav>n</nav><h1>h</h1><p>a<br>b</p><table><tr><th>a<th>b<tr><td>1<td>2</table><ul><li>x<ul><li>y</ul></ul><pre>a\n b</pre>",
		"<html><meta charset=iso-8859-1><body><div>\xe4<div>b</div></div>", "<html><table><tr><td><h1>x</h1><td><ul><li>1</table>")
}

func FuzzCSV(f *testing.F) {
	fuzz(f, "a.csv", nil, "a,b\n1,2\n", "a;b\n\"x\ny\";2\n", "a\tb\n\t\n", "1,2\n3,4\n", "a,b\n1\n1,2,3\n\"")
}

func FuzzJSONL(f *testing.F) {
	fuzz(f, "a.jsonl", nil, `{"title":"t","text":"x\ny","a":{"b":[1,2,{"c":null}]},"d":true}`+"\n"+`[1,"a"]`, "[{\"a\":1}]", "{\n\"a\":1\n}")
}

func FuzzDOCX(f *testing.F) {
	fuzz(f, "a.docx", func(body []byte) []byte {
		return docx(map[string]string{
			"word/document.xml":  document1(string(body)),
			"word/numbering.xml": `<w:numbering ` + namespaces + `><w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:numFmt w:val="lowerRoman"/><w:lvlText w:val="%1.%2"/></w:lvl></w:abstractNum><w:num w:numId="5"><w:abstractNumId w:val="1"/></w:num></w:numbering>`,
			"word/footnotes.xml": `<w:footnotes ` + namespaces + `><w:footnote w:id="2"><w:p><w:r><w:t>n</w:t><w:footnoteReference w:id="2"/></w:r></w:p></w:footnote></w:footnotes>`,
		})
	}, `<w:p><w:pPr><w:outlineLvl w:val="0"/><w:numPr><w:ilvl w:val="0"/><w:numId w:val="5"/></w:numPr></w:pPr><w:r><w:t>a</w:t><w:tab/><w:footnoteReference w:id="2"/></w:r></w:p>`,
		`<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="3"/></w:tcPr><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:sym w:char="00B0"/></w:r></w:p></w:tc></w:tr></w:tbl>`)
}

func FuzzZIP(f *testing.F) {
	fuzz(f, "a.docx", nil, string(docx(map[string]string{"word/document.xml": document1("<w:p><w:r><w:t>Text</w:t></w:r></w:p>")})), string(lyingBomb()[:1000]))
}

func FuzzPDF(f *testing.F) {
	// Compiling pdfium takes longer than the fuzzer waits for an input.
	if _, err := pdfiumInstance(); err != nil {
		f.Fatal(err)
	}
	fuzz(f, "a.pdf", nil, string(pdfFile([]string{"BT /F1 11 Tf 72 720 Td (Some text, and-) Tj 0 -14 Td (more) Tj ET", "BT /F1 20 Tf 72 720 Td (1. Title) Tj 200 0 Td (9) Tj ET"})), string(encryptedPDF()))
}

// BenchmarkParse parses each format's seed file and reports documents/s.
func BenchmarkParse(b *testing.B) {
	prose := strings.Repeat("The pumps were sold in many countries, and the revenue rose by three per cent. ", 12)
	page := "BT /F1 11 Tf 72 720 Td 14 TL " + strings.Repeat("(The pumps were sold in many countries, and the revenue rose.) Tj T* ", 45) + "ET"
	files := map[string][]byte{
		"plain.txt":  []byte(strings.Repeat(prose+"\n\n", 8)),
		"page.html":  []byte("<!doctype html><title>t</title><body><nav>a</nav><h1>t</h1>" + strings.Repeat("<p>"+prose+"</p>", 8)),
		"table.csv":  []byte("id,name,price,stock\n" + strings.Repeat("KD-40,Dosing pump,612.00,yes\n", 250)),
		"rows.jsonl": []byte(strings.Repeat(`{"id":1,"title":"Pump","text":"`+prose+"\"}\n", 8)),
		"text.docx":  docx(map[string]string{"word/document.xml": document1(strings.Repeat("<w:p><w:r><w:t>"+prose+"</w:t></w:r></w:p>", 8))}),
		"pages.pdf":  pdfFile([]string{page, page, page}),
	}
	for _, real := range []string{"nats-docs/nats-concepts/jetstream/streams.md", "pdf/MCDONALDS_2023Q1_EARNINGS.pdf"} {
		if data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "datasets", real)); err == nil {
			files[filepath.Base(real)] = data
		}
	}
	for name, data := range files {
		b.Run(name, func(b *testing.B) {
			if _, err := Parse(b.Context(), name, "", data, Limits{}); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := Parse(b.Context(), name, "", data, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "documents/s")
		})
	}
}
