package parse

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

const (
	scanned1 = "The pumps were inspected in March by the maintenance team.\nAll seals were replaced and the pressure was tested twice."
	scanned2 = "Deliveries to the northern warehouse begin on Monday.\nEach pallet carries at most forty boxes of spare parts."
)

func joined(p schema.Parsed) string {
	var all []string
	for _, b := range p.Blocks {
		all = append(all, strings.Join(strings.Fields(b.Text), " "))
	}
	return strings.Join(all, "\n")
}

// sentences replaces the line breaks of text from a page by spaces.
func sentences(s string) string { return strings.ReplaceAll(s, "\n", " ") }

func readScan(t *testing.T, p *Pool, f NamedFile) schema.Parsed {
	t.Helper()
	got, err := p.ParseFile(t.Context(), f)
	if err != nil {
		t.Fatalf("reading %s: %v", f.Name, err)
	}
	check(t, got)
	return got
}

func holds(t *testing.T, p schema.Parsed, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(joined(p), sentences(want)) {
			t.Errorf("%q is not in\n%s", sentences(want), joined(p))
		}
	}
}

// TestScansAreReadPageByPage checks that pages with text keep it, and the others are recognised.
func TestScansAreReadPageByPage(t *testing.T) {
	needsTesseract(t)
	p := pool(t, nil)
	hidden := "BT 3 Tr /F1 12 Tf 72 720 Td (What a scanner once made out of it.) Tj ET"
	got := readScan(t, p, NamedFile{Name: "mixed.pdf", Data: leaves(
		leaf{text: letterOf("This page was written.")},
		leaf{scan: printedScan(t, letterOf(scanned1), 1.5)},
		leaf{},
		leaf{scan: printedScan(t, letterOf(scanned2), -0.7), text: hidden},
		leaf{scan: printedScan(t, letterOf("A logo"), 0), width: 100, height: 130, text: letterOf("It has a picture.")},
	)})
	if got.Pages != 5 {
		t.Errorf("%d pages", got.Pages)
	}
	pages := make(map[string]int)
	for _, b := range got.Blocks {
		pages[strings.Join(strings.Fields(b.Text), " ")] = b.Page
	}
	for want, page := range map[string]int{"This page was written.": 1, sentences(scanned1): 2, sentences(scanned2): 4} {
		if pages[want] != page {
			t.Errorf("%q is on page %d, want %d: %v", want, pages[want], page, pages)
		}
	}
	if strings.Contains(joined(got), "What a scanner once made") {
		t.Errorf("hidden text is read: %s", joined(got))
	}
	if len(got.Recognised) < 2 || got.Recognised[0].Page != 2 || got.Recognised[0].Confidence < 0.85 || len(got.Recognised[0].Lines) != 2 || got.Recognised[0].Words != 20 {
		t.Errorf("recognised: %+v", got.Recognised)
	}
	if len(got.Warnings) > 0 {
		t.Errorf("warnings: %q", got.Warnings)
	}
}

// TestBoxesOfRecognisedWordsAreThoseOfThePage checks that boxes do not depend on skew, rotation and
// resolution.
func TestBoxesOfRecognisedWordsAreThoseOfThePage(t *testing.T) {
	needsTesseract(t)
	p := pool(t, nil)
	const height = 792.0
	content := letterOf(scanned1, scanned2)
	want := openPaper(t, pdfFile([]string{content})).lines(t, 0)
	for _, degrees := range []float64{0, 2} {
		scan, back := openPaper(t, pdfFile([]string{content})).scan(t, 0, degrees)
		sideways, more := rotateQuarters(scan, 3)
		for name, file := range map[string]struct {
			data  []byte
			scan  *image.Gray
			back  affine
			scale float64 // points per unit of its boxes
		}{
			"upright.pdf": {scannedPDF(scan), scan, back, 72.0 / scannedDPI},
			// It is shown upright, but is rotated in its own coordinates.
			"rotated.pdf": {leaves(leaf{scan: sideways, rotate: 90}), sideways, back.after(more), 72.0 / scannedDPI},
			"scan.png":    {pngFile(scan), scan, back, 1},
		} {
			t.Run(fmt.Sprintf("%s, %g degrees", name, degrees), func(t *testing.T) {
				got := readScan(t, p, NamedFile{Name: name, Data: file.data})
				places := make(map[string][2]float64)
				for _, b := range got.Blocks {
					runs, err := text.DecodeLayout(b.Layout)
					if err != nil {
						t.Fatal(err)
					}
					ink := []rune(strings.Join(strings.Fields(b.Text), ""))
					for _, r := range runs {
						x, y := file.back.apply((r.Box.Left+r.Box.Right)/2/file.scale, float64(file.scan.Bounds().Dy())-(r.Box.Bottom+r.Box.Top)/2/file.scale)
						places[string(ink[:r.Chars])] = [2]float64{x * 72 / scannedDPI, height - y*72/scannedDPI}
						ink = ink[r.Chars:]
					}
				}
				for _, l := range want {
					for _, w := range l.words {
						at, ok := places[w.text]
						if !ok || strings.Contains(" The the and were was of ", " "+w.text+" ") {
							continue
						}
						x, y := float64(w.left+w.right)/2, float64(w.bottom+w.top)/2
						if math.Abs(at[0]-x) > 3 || math.Abs(at[1]-y) > 3 {
							t.Errorf("%s is at %.1f, %.1f, was printed at %.1f, %.1f", w.text, at[0], at[1], x, y)
						}
					}
				}
				if len(places) < 25 {
					t.Errorf("only %d words: %v", len(places), places)
				}
			})
		}
	}
}

func TestImagesAreDocuments(t *testing.T) {
	needsTesseract(t)
	p := pool(t, nil)
	one, two := printedScan(t, letterOf(scanned1), 0.8), printedScan(t, letterOf(scanned2), -1.2)
	upside, _ := rotateQuarters(one, 2)
	left, _ := rotateQuarters(two, 1)
	for _, c := range []struct {
		name, media string
		data        []byte
		wants       []string
	}{
		{"a.png", "image/png", pngFile(one), []string{scanned1}},
		{"a.jpg", "image/jpeg", jpegFile(two), []string{scanned2}},
		{"no name", "image/tiff", tiffFile(binary.LittleEndian, one, two), []string{scanned1, scanned2}},
		{"a.tif", "image/tiff", tiffFile(binary.BigEndian, two), []string{scanned2}},
		{"upside-down.png", "image/png", pngFile(upside), []string{scanned1}},
		{"left.png", "image/png", pngFile(left), []string{scanned2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := readScan(t, p, NamedFile{Name: c.name, Data: c.data})
			holds(t, got, c.wants...)
			if got.MediaType != c.media || got.Pages != len(c.wants) || len(got.Recognised) != len(c.wants) {
				t.Errorf("%s, %d pages, recognised %+v", got.MediaType, got.Pages, got.Recognised)
			}
			if last := got.Blocks[len(got.Blocks)-1]; last.Page != len(c.wants) {
				t.Errorf("the last block is on page %d", last.Page)
			}
		})
	}
}

func TestScansInAnEMailAreRead(t *testing.T) {
	needsTesseract(t)
	mail := "From: a@example.org\r\nTo: b@example.org\r\nSubject: Report\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n" +
		"--x\r\nContent-Type: text/plain\r\n\r\nSee the report.\r\n--x\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=report.pdf\r\n" +
		"Content-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString(scannedPDF(printedScan(t, letterOf(scanned1), 0))) + "\r\n--x--\r\n"
	holds(t, readScan(t, pool(t, nil), NamedFile{Name: "a.eml", Data: []byte(mail)}), "See the report.", scanned1)
}

// TestScansAreReadInTheCollectionsLanguage also checks that a warning names the package of missing
// data.
func TestScansAreReadInTheCollectionsLanguage(t *testing.T) {
	needsTesseract(t)
	p := pool(t, nil)
	// \374 and so on are umlauts of the font's encoding.
	scan := scannedPDF(printedScan(t, strings.ReplaceAll(letterOf("Die Pr\\374fung der K\\374hlanlage f\\374r das B\\374ro ist n\\366tig.\nDie Gr\\366\\337e der R\\344ume wurde \\374berpr\\374ft."), "/F1 12 Tf", "/F1 12 Tf"), 0.5))
	german := readScan(t, p, NamedFile{Name: "a.pdf", Language: "de-AT", Data: scan})
	if s := joined(german); strings.Count(s, "ü")+strings.Count(s, "ö")+strings.Count(s, "ä")+strings.Count(s, "ß") < 6 || len(german.Warnings) > 0 {
		t.Errorf("read in German: %q, %q", s, german.Warnings)
	}
	french := readScan(t, p, NamedFile{Name: "a.pdf", Language: "fr", Data: scan})
	if len(french.Warnings) != 1 || !strings.Contains(french.Warnings[0], "tesseract-ocr-fra") || !strings.Contains(french.Warnings[0], "English") {
		t.Errorf("read in French: %q", french.Warnings)
	}
}

func TestDataOfLanguages(t *testing.T) {
	for tag, want := range map[string]string{"en": "eng", "de-AT": "deu", "pt_BR": "por", "zh-Hant-HK": "chi_tra", "zh-CN": "chi_sim", "zh-TW": "chi_tra", "tlh": "", "": "", "sr-Latn": "srp_latn"} {
		if got := dataOf(tag); got != want {
			t.Errorf("%q gives %q, want %q", tag, got, want)
		}
	}
	if got := debianPackage("chi_tra"); got != "tesseract-ocr-chi-tra" {
		t.Errorf("got %q", got)
	}
}

// TestNoTextErrorNamesTheRecognitionSetting checks that a scan fails with the reason no_text and
// the remedy if recognition did not run, and that a blank page fails with the reason empty if it
// ran.
func TestNoTextErrorNamesTheRecognitionSetting(t *testing.T) {
	needsTesseract(t)
	scan := printedScan(t, letterOf(scanned1), 0)
	empty := image.NewGray(scan.Bounds())
	for i := range empty.Pix {
		empty.Pix[i] = 255
	}
	off := pool(t, func(o *PoolOptions) { o.NoOCR = true })
	for _, c := range []struct {
		name         string
		pool         *Pool
		data         []byte
		code, remedy string
	}{
		{"off, PDF", off, scannedPDF(scan), schema.ReasonNoText, "SLUICE_PARSE_OCR"},
		{"off, image", off, pngFile(scan), schema.ReasonNoText, "SLUICE_PARSE_OCR"},
		{"on, an empty PDF", pool(t, nil), scannedPDF(empty), schema.ReasonEmpty, "recognised"},
		{"on, an empty image", pool(t, nil), pngFile(empty), schema.ReasonEmpty, "recognised"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.pool.Parse(t.Context(), "a", "", c.data)
			if r := reasonOf(t, err); r.Code != c.code || !strings.Contains(r.Message, c.remedy) {
				t.Errorf("reason %+v", r)
			}
		})
	}
	// A document that also has text keeps it and gets a warning about the scans.
	got := readScan(t, off, NamedFile{Name: "mixed.pdf", Data: leaves(leaf{text: letterOf("Written.")}, leaf{scan: scan}, leaf{scan: scan})})
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "2 of its pages are scans") || !strings.Contains(got.Warnings[0], "SLUICE_PARSE_OCR") {
		t.Errorf("warnings: %q", got.Warnings)
	}
	t.Setenv("PATH", t.TempDir())
	_, err := pool(t, nil).Parse(t.Context(), "a.pdf", "", scannedPDF(scan))
	if r := reasonOf(t, err); r.Code != schema.ReasonNoText || !strings.Contains(r.Message, "install the package tesseract-ocr") {
		t.Errorf("not installed: %+v", r)
	}
}

// pngClaiming returns a PNG whose header declares width by height pixels.
func pngClaiming(width, height uint32) []byte {
	data := pngFile(image.NewGray(image.Rect(0, 0, 8, 8)))
	const header = 8 + 4 + 4
	binary.BigEndian.PutUint32(data[header:], width)
	binary.BigEndian.PutUint32(data[header+4:], height)
	binary.BigEndian.PutUint32(data[header+13:], crc(data[header-4:header+13]))
	return data
}

// TestScansThatCostTooMuchAreRefused checks the reason of each, alone and together with a page that
// can be recognised.
func TestScansThatCostTooMuchAreRefused(t *testing.T) {
	needsTesseract(t)
	p := pool(t, nil)
	small := printedScan(t, letterOf("A"), 0)
	endless := make([]*image.Gray, 3)
	for i := range endless {
		endless[i] = image.NewGray(image.Rect(0, 0, 4, 4))
	}
	looped := tiffFile(binary.LittleEndian, endless...)
	copy(looped[len(looped)-4:], looped[4:8])
	for _, c := range []struct {
		name   string
		data   []byte
		code   string
		reason string
	}{
		{"pixels.png", pngClaiming(60_000, 60_000), schema.ReasonTooLarge, "60000 by 60000 pixels"},
		{"wide.png", pngClaiming(1<<31-1, 1<<31-1), schema.ReasonTooLarge, "pixels"},
		{"page.pdf", leaves(leaf{scan: small, width: 14_400, height: 14_400}), schema.ReasonTooLarge, "200 by 200 inches"},
		{"image.pdf", leaves(leaf{scan: small, claimed: [2]int{60_000, 60_000}}), schema.ReasonTooLarge, "pixels"},
		{"cut.png", pngFile(small)[:2000], schema.ReasonBroken, "damaged"},
		{"cut.jpg", jpegFile(small)[:200], schema.ReasonBroken, "damaged"},
		{"cut.tif", tiffFile(binary.LittleEndian, small)[:2000], schema.ReasonBroken, "damaged"},
		{"loop.tif", looped, schema.ReasonBroken, "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := p.Parse(t.Context(), c.name, "", c.data)
			if r := reasonOf(t, err); r.Code != c.code || !strings.Contains(r.Message, c.reason) {
				t.Errorf("reason %+v", r)
			}
		})
	}
	got := readScan(t, p, NamedFile{Name: "a.pdf", Data: leaves(
		leaf{text: letterOf("Written.")}, leaf{scan: small, width: 14_400, height: 14_400}, leaf{scan: printedScan(t, letterOf(scanned2), 0)})})
	holds(t, got, "Written.", scanned2)
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "page 2 was not recognised: it is 200 by 200 inches") {
		t.Errorf("warnings: %q", got.Warnings)
	}
	few := pool(t, func(o *PoolOptions) { o.Limits.OCRPages = 1 })
	page := printedScan(t, letterOf(scanned1), 0)
	got = readScan(t, few, NamedFile{Name: "a.pdf", Data: scannedPDF(page, page)})
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "page 2") || !strings.Contains(got.Warnings[0], "SLUICE_PARSE_OCR_PAGES") {
		t.Errorf("warnings: %q", got.Warnings)
	}
}

// slowPage returns a page full of small text, which takes tesseract seconds.
func slowPage(t *testing.T) *image.Gray {
	t.Helper()
	var b strings.Builder
	for y := 20; y < 780; y += 6 {
		fmt.Fprintf(&b, "BT /F1 5 Tf 20 %d Td (%s) Tj ET\n", y, strings.Repeat(fmt.Sprintf("word%dlist ", y), 20))
	}
	return printedScan(t, b.String(), 0)
}

func TestRecognitionEndsAtItsLimit(t *testing.T) {
	needsTesseract(t)
	p := pool(t, func(o *PoolOptions) { o.Workers, o.Limits.OCRTime = 1, time.Second })
	slow := slowPage(t)
	_, err := p.Parse(t.Context(), "slow.pdf", "", scannedPDF(slow))
	if r := reasonOf(t, err); r.Code != schema.ReasonTimeout || !strings.Contains(r.Message, "SLUICE_PARSE_OCR_TIME") {
		t.Errorf("reason %+v", r)
	}
	got := readScan(t, p, NamedFile{Name: "a.pdf", Data: leaves(leaf{text: letterOf("Written.")}, leaf{scan: slow})})
	holds(t, got, "Written.")
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "page 2 was not recognised: its text was not recognised in 1s") {
		t.Errorf("warnings: %q", got.Warnings)
	}
}

// TestRecognitionIsNoTimeOfTheFile checks that waiting for recognition may take longer than the
// file's own time limit.
func TestRecognitionIsNoTimeOfTheFile(t *testing.T) {
	const limit = 3 * time.Second
	asked, ask := io.Pipe()
	answered, answer := io.Pipe()
	served := make(chan error, 1)
	go func() {
		in := bufio.NewReader(asked)
		rep, err := readReply(in)
		if err == nil {
			_, err = readFrame(in)
		}
		if err == nil && rep.Recognise == nil {
			err = fmt.Errorf("got %+v", rep)
		}
		<-time.After(limit + time.Second) //house:clock longer than the file may take
		if err == nil {
			err = writeJSON(answer, recogniseReply{Output: []byte("5\t1\t1\t1\t1\t1\t10\t10\t90\t20\t96\tLate\n")})
		}
		served <- err
	}()
	page := image.NewGray(image.Rect(0, 0, 200, 300))
	page.Pix[1] = 255
	got, err := parseFile(t.Context(), "a.png", "", pngFile(page), Limits{Time: limit}, &ocrSession{options: ocrOptions{Enabled: true}, in: bufio.NewReader(answered), out: ask})
	if err != nil || joined(got) != "Late" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestSkewIsFound(t *testing.T) {
	page := printedScan(t, letterOf(scanned1, scanned2, scanned1, scanned2), 0)
	for _, degrees := range []float64{-6, -2, -0.5, 0, 0.3, 1.1, 4.5} {
		turned, back := rotate(page, degrees)
		if got := skew(turned); math.Abs(got+degrees) > 0.15 {
			t.Errorf("turned by %g, found %g", degrees, -got)
		}
		// The centres map to each other.
		x, y := back.apply(float64(turned.Bounds().Dx())/2, float64(turned.Bounds().Dy())/2)
		if math.Abs(x-float64(page.Bounds().Dx())/2) > 1e-6 || math.Abs(y-float64(page.Bounds().Dy())/2) > 1e-6 {
			t.Errorf("the middle is at %g, %g", x, y)
		}
	}
	for quarters := range 4 {
		turned, back := rotateQuarters(page, quarters)
		for _, at := range []image.Point{{300, 300}, {301, 500}, {700, 411}} {
			x, y := back.apply(float64(at.X)+0.5, float64(at.Y)+0.5)
			if turned.GrayAt(at.X, at.Y) != page.GrayAt(int(x), int(y)) {
				t.Errorf("%d quarters: %v is not %g, %g", quarters, at, x, y)
			}
		}
	}
}

func TestNoiseIsLeftOut(t *testing.T) {
	const head = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
	row := func(line int, confidence float64, s string) string {
		return fmt.Sprintf("5\t1\t1\t1\t%d\t1\t10\t%d\t40\t12\t%g\t%s\n", line, 20*line, confidence, s)
	}
	lines, err := wordsOf([]byte(head + "4\t1\t1\t1\t1\t0\t10\t10\t40\t12\t-1\t\n" +
		row(1, 96, "sure") + row(1, 20, "doubtful") + row(1, 12, "~|") + row(2, 21, "dirt") + row(2, 35, "on") + row(3, 90, " ")))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range withoutNoise(lines) {
		for _, w := range line {
			got = append(got, fmt.Sprintf("%s %.2f", w.text, w.confidence))
		}
		got = append(got, "/")
	}
	if s := strings.Join(got, " "); s != "sure 0.96 doubtful 0.20 / on 0.35 /" {
		t.Errorf("got %q", s)
	}
	for _, bad := range []string{"5\t1\t1\t1\t1\t1\t-4\t0\t1\t1\t90\tx\n", "5\t1\t1\t1\t1\t1\t1\t0\t1\t1\tsure\tx\n"} {
		if _, err := wordsOf([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestPagesThatAreHardToReadAreNamed checks the warning about low confidence.
func TestPagesThatAreHardToReadAreNamed(t *testing.T) {
	needsTesseract(t)
	// Like a fax, at a quarter of the resolution.
	page := halved(halved(printedScan(t, strings.ReplaceAll(letterOf(scanned1, scanned2), "12 Tf", "8 Tf"), 0)))
	got, err := pool(t, nil).Parse(t.Context(), "a.pdf", "", leaves(leaf{scan: page, width: 612, height: 792}))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "page 1 was hard to read") {
		t.Errorf("warnings: %q, recognised %+v", got.Warnings, got.Recognised)
	}
}
