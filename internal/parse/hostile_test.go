package parse

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// noise returns n bytes that look random.
func noise(n int) []byte {
	var out []byte
	for i := 0; len(out) < n; i++ {
		sum := sha256.Sum256(fmt.Append(nil, i))
		out = append(out, sum[:]...)
	}
	return out[:n]
}

func bomb(name string, size int) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create(name)
	if err != nil {
		panic(err)
	}
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for range size >> 20 {
		if _, err := f.Write(chunk); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// lyingBomb returns a bomb that declares a small size.
func lyingBomb() []byte {
	data := bomb("word/document.xml", 64<<20)
	at := bytes.LastIndex(data, []byte("PK\x01\x02"))
	copy(data[at+24:], []byte{0, 16, 0, 0})
	return data
}

func TestRefusedFiles(t *testing.T) {
	pdf := pdfFile([]string{"BT /F1 11 Tf 72 720 Td (Some text.) Tj ET"})
	wordy := docx(map[string]string{"word/document.xml": document1("<w:p><w:r><w:t>Text</w:t></w:r></w:p>")})
	many := make([]string, 30)
	for _, tt := range []struct {
		name   string
		data   []byte
		limits Limits
		want   string
	}{
		{"empty", nil, Limits{}, schema.ReasonEmpty},
		{"blank.txt", []byte(" \n\t\r\n"), Limits{}, schema.ReasonEmpty},
		{"mark only", []byte("\xEF\xBB\xBF"), Limits{}, schema.ReasonEmpty},
		{"mark only 16", []byte("\xFF\xFE"), Limits{}, schema.ReasonEmpty},
		{"nul", make([]byte, 1000), Limits{}, schema.ReasonEmpty},
		{"blank.html", []byte("<html><body><p> </p></body></html>"), Limits{}, schema.ReasonEmpty},
		{"blank.docx", docx(map[string]string{"word/document.xml": document1("<w:p/>")}), Limits{}, schema.ReasonEmpty},
		{"random.txt", noise(5000), Limits{}, schema.ReasonUnsupported},
		{"image.txt", append([]byte("\x89PNG\r\n\x1a\n"), noise(500)...), Limits{}, schema.ReasonBroken},
		{"photo.md", append([]byte("\xFF\xD8\xFF\xE0"), noise(500)...), Limits{}, schema.ReasonBroken},
		{"a.txt", append([]byte("\x1f\x8b\x08"), noise(500)...), Limits{}, schema.ReasonUnsupported},
		{"a.doc", oleFile("WordDocument"), Limits{}, schema.ReasonUnsupported},
		{"a.xlsb", docx(map[string]string{"xl/workbook.bin": "x"}), Limits{}, schema.ReasonUnsupported},
		{"a.jar", docx(map[string]string{"META-INF/MANIFEST.MF": "text"}), Limits{}, schema.ReasonUnsupported},
		{"locked.docx", oleFile("EncryptedPackage"), Limits{}, schema.ReasonEncrypted},
		{"locked.pdf", encryptedPDF(), Limits{}, schema.ReasonEncrypted},
		{"cut.pdf", pdf[:200], Limits{}, schema.ReasonBroken},
		{"fake.pdf", []byte("%PDF-1.7\nnothing of a PDF"), Limits{}, schema.ReasonBroken},
		{"noise.pdf", append([]byte("%PDF-1.7\n"), noise(5000)...), Limits{}, schema.ReasonBroken},
		{"cut.docx", wordy[:len(wordy)-40], Limits{}, schema.ReasonBroken},
		{"bad.docx", docx(map[string]string{"word/document.xml": "<w:document><w:body>"}), Limits{}, schema.ReasonBroken},
		{"body.docx", docx(map[string]string{"word/document.xml": "<a/>"}), Limits{}, schema.ReasonBroken},
		{"damaged.docx", damage(wordy), Limits{}, schema.ReasonBroken},
		{"bad.jsonl", []byte("{\"a\": 1}\nnot json\n"), Limits{}, schema.ReasonBroken},
		{"html.jsonl", []byte("not json at all"), Limits{}, schema.ReasonBroken},
		{"scan.pdf", pdfFile([]string{"", "0 0 100 100 re f"}), Limits{}, schema.ReasonNoText},
		{"big.txt", []byte(strings.Repeat("word ", 1000)), Limits{Bytes: 4999}, schema.ReasonTooLarge},
		{"text.txt", []byte(strings.Repeat("word ", 1000)), Limits{TextBytes: 4000}, schema.ReasonTooLarge},
		{"pages.pdf", pdfFile(many), Limits{Pages: 29}, schema.ReasonTooLarge},
		{"bomb.docx", bomb("word/document.xml", 600<<20), Limits{}, schema.ReasonTooLarge},
		{"ratio.docx", bomb("word/media/image.bmp", 64<<20), Limits{}, schema.ReasonTooLarge},
		{"lying.docx", lyingBomb(), Limits{}, ""},
		{"entries.docx", docx(map[string]string{"word/document.xml": "", "a": "", "b": ""}), Limits{Entries: 2}, schema.ReasonTooLarge},
		{"deep.html", []byte("<html><body>" + strings.Repeat("<div>", 100_000) + "x"), Limits{}, schema.ReasonTooLarge},
		{"deep200.html", []byte("<html><body>" + strings.Repeat("<div>", 300) + "x"), Limits{}, schema.ReasonTooLarge},
		{"deep.docx", docx(map[string]string{"word/document.xml": document1(strings.Repeat("<w:p>", 10_000))}), Limits{}, schema.ReasonTooLarge},
		{"deep.jsonl", []byte(`{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}"), Limits{}, schema.ReasonTooLarge},
		{"deep.md", []byte(strings.Repeat(">", 10_000) + " x"), Limits{}, schema.ReasonTooLarge},
		{"cells.csv", []byte(strings.Repeat("a,", 3000) + "\n1,2\n"), Limits{}, schema.ReasonTooLarge},
		{"rows.csv", []byte(strings.Repeat("a,b\n", 100)), Limits{Rows: 50}, schema.ReasonTooLarge},
		{"quote.csv", []byte("a,b\n\"" + strings.Repeat("never closed\n", 1000)), Limits{LineBytes: 5000}, schema.ReasonTooLarge},
		{"line.jsonl", []byte(`{"a":"` + strings.Repeat("x", 1000) + `"}`), Limits{LineBytes: 500}, schema.ReasonTooLarge},
		{"paths.jsonl", pathBomb(), Limits{}, schema.ReasonTooLarge},
		{"utf16.txt", append([]byte("\xFF\xFE"), noise(4000)...), Limits{}, schema.ReasonEncoding},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r schema.Reason
			work := waittest.Work(t, func() { r = refused(t, tt.name, tt.data, tt.limits) })
			if tt.want != "" && r.Code != tt.want {
				t.Errorf("reason %+v, want %s", r, tt.want)
			}
			if work > 15*time.Second {
				t.Errorf("took %v of processor time", work)
			}
		})
	}
}

// damage returns a copy with changed bytes inside the compressed part.
func damage(data []byte) []byte {
	out := bytes.Clone(data)
	for i := 60; i < 100; i++ {
		out[i] ^= 0x5A
	}
	return out
}

// pathBomb returns JSON with a long key over many small values.
func pathBomb() []byte {
	return []byte(`{"` + strings.Repeat("k", 1<<20) + `":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, 100_000), ",") + "}}")
}

// TestHostileTextEnds parses text that takes a careless parser long.
func TestHostileTextEnds(t *testing.T) {
	for name, unit := range map[string]string{
		"brackets.md": "[", "stars.md": "*a ", "emphasis.md": "**a*_", "links.md": "[a](", "backticks.md": "`a``", "quotes.md": "> a\n>> b\n",
		"lists.md": "- a\n  ", "tables.md": "|a|b|\n|-|-|\n", "html.md": "<a href='", "entities.md": "&#x41;", "refs.md": "[a]: b\n",
		"notes.md": "[^1]", "dashes.txt": "-a-\n", "hyphens.txt": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-\n",
		"tags.html": "<b><i><p>", "attrs.html": "<p a=1 b='", "tables.html": "<table><tr><td>", "comments.html": "<!-- -", "formatting.html": "<a><b><font>x",
		"quotes.csv": "\"a\"\"b,", "commas.csv": ",\n", "numbers.jsonl": "1\n",
	} {
		t.Run(name, func(t *testing.T) {
			prefix := ""
			if strings.HasSuffix(name, ".html") {
				prefix = "<!doctype html><body>"
			}
			size := 128 << 10
			if strings.HasSuffix(name, ".md") {
				size = 32 << 10 // goldmark's time for "[a](" grows with the square of the size
			}
			data := []byte(prefix + strings.Repeat(unit, size/len(unit)))
			var err error
			work := waittest.Work(t, func() { _, err = Parse(t.Context(), name, "", data, Limits{}) })
			if work > 20*time.Second {
				t.Errorf("%d kB of %q took %v of processor time (%v)", size>>10, unit, work, err)
			} else if work > time.Second {
				t.Logf("%d kB of %q took %v of processor time (%v)", size>>10, unit, work, err)
			}
		})
	}
}

func TestEncodings(t *testing.T) {
	const german = "Die Größe der Rücklaufpumpe beträgt höchstens zwölf Zentimeter. Für die Überprüfung ist der „Prüfer“ zuständig – die Gebühr beträgt 5 €.\n"
	const french = "L’été dernier, la société a livré des pièces détachées à Besançon. Où sont passés les élèves ? Ça dépend.\n"
	const polish = "Zażółć gęślą jaźń. Spółka sprzedała większość udziałów, a zarząd został odwołany przez właścicieli. Święta były długie.\n"
	const russian = "Насосы были проданы во многих странах, и выручка выросла на три процента. Совет директоров утвердил дивиденды.\n"
	const greek = "Οι αντλίες πωλήθηκαν σε πολλές χώρες και τα έσοδα αυξήθηκαν κατά τρία τοις εκατό φέτος.\n"
	const english = "The café’s owner said: “We don’t know – yet.”\n"
	const japaneseText = "ポンプは多くの国で販売され、収益は三パーセント増加しました。取締役会は配当を承認しました。\n"
	const chinese = "水泵销往许多国家，收入增长了百分之三。董事会批准了股息。\n"
	in := func(e encoding.Encoding, s string) []byte {
		b, err := e.NewEncoder().Bytes([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"utf-8", []byte(german), german},
		{"utf-8 with mark", []byte("\xEF\xBB\xBF" + german), german},
		{"utf-16le with mark", append([]byte("\xFF\xFE"), toUTF16(german, false)...), german},
		{"utf-16be with mark", append([]byte("\xFE\xFF"), toUTF16(german, true)...), german},
		{"utf-16le", toUTF16(german, false), german},
		{"utf-16be", toUTF16(russian+"OK 5", true), russian + "OK 5"},
		{"utf-16le chinese", toUTF16(strings.Repeat(chinese+" ", 3), false), strings.Repeat(chinese+" ", 3)},
		{"windows-1252 german", in(charmap.Windows1252, german), german},
		{"windows-1252 french", in(charmap.Windows1252, french), french},
		{"windows-1252 english", in(charmap.Windows1252, english), english},
		{"iso-8859-1", in(charmap.ISO8859_1, "Die Größe der Rücklaufpumpe ist höher.\n"), "Die Größe der Rücklaufpumpe ist höher.\n"},
		{"iso-8859-2", in(charmap.ISO8859_2, polish), polish},
		{"windows-1250", in(charmap.Windows1250, polish), polish},
		{"windows-1251", in(charmap.Windows1251, russian), russian},
		{"koi8-r", in(charmap.KOI8R, russian), russian},
		{"windows-1253", in(charmap.Windows1253, greek), greek},
		{"shift-jis", in(japanese.ShiftJIS, japaneseText), japaneseText},
		{"gb18030", in(simplifiedchinese.GB18030, strings.Repeat(chinese, 2)), strings.Repeat(chinese, 2)},
		{"damaged utf-8", []byte(strings.Repeat(german, 5) + "\xC3"), strings.Repeat(german, 5)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := decode(tt.data, hint{})
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	// A page declares its charset.
	page := in(charmap.Windows1250, `<html><head><meta charset="windows-1250"></head><body><p>Zażółć gęślą jaźń</p></body></html>`)
	expect(t, parsed(t, "a.html", string(page)), "paragraph: Zażółć gęślą jaźń")
}
