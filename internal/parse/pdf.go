package parse

// PDF, parsed by pdfium compiled to WebAssembly: this file gets lines with their position and size
// from it, pdflayout.go turns them into blocks. pdfium runs inside wazero's sandbox without a file
// system, and each document has its own instance, so damage by one file is gone with its instance.

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/klippa-app/go-pdfium"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/structs"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/sluice-rag/sluice/schema"
	"github.com/tetratelabs/wazero"
)

// pdfMemoryPages bounds one document's memory inside the sandbox: 16,384 pages
// of 64 kB are 1 GB.
const pdfMemoryPages = 16 << 10

// pdfiumRuntime compiles pdfium once per process, on the first PDF: 1.5 s, or
// 0.1 s from a cache directory.
var pdfiumRuntime struct {
	once     sync.Once
	cacheDir string
	pool     pdfium.Pool
	err      error
}

// preparePDF compiles pdfium unless this process has done so. Creating an instance returns its
// error.
func preparePDF() {
	r := &pdfiumRuntime
	r.once.Do(func() {
		r.pool, r.err = openPDF(r.cacheDir)
		if r.err != nil && r.cacheDir != "" {
			// A parser may read the cache but not write it. It compiles for itself what is not
			// cached.
			r.pool, r.err = openPDF("")
		}
	})
}

// openPDF loads pdfium from the cache, or compiles it and fills the cache. Without a cache it
// always compiles.
func openPDF(cacheDir string) (pdfium.Pool, error) {
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(pdfMemoryPages)
	if cacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(cacheDir)
		if err != nil {
			return nil, fmt.Errorf("opening the compilation cache %s: %w", cacheDir, err)
		}
		config = config.WithCompilationCache(cache)
	}
	return webassembly.Init(webassembly.Config{
		MaxIdle: 1, MaxTotal: 64, FSConfig: wazero.NewFSConfig(), RuntimeConfig: config,
		Stdout: io.Discard, Stderr: io.Discard,
	})
}

func pdfiumInstance() (pdfium.Pdfium, error) {
	preparePDF()
	r := &pdfiumRuntime
	if r.err != nil {
		return nil, fmt.Errorf("starting pdfium: %w", r.err)
	}
	instance, err := r.pool.GetInstance(time.Minute)
	if err != nil {
		return nil, fmt.Errorf("starting pdfium: %w", err)
	}
	return instance, nil
}

// pdfLine is one line of a page. Lengths are in points from the lower left.
type pdfLine struct {
	text         string
	words        []pdfWord
	left, right  float64
	bottom       float64
	size         float64 // height of the font
	bold         bool
	cells        int // more than one if the line has wide gaps
	page         int
	top, pageTop float64
}

// pdfWord is a word of a line and its position. cell is set for the first word of a cell, except
// the first one of the line.
type pdfWord struct {
	text                     string
	left, bottom, right, top float32
	cell                     bool
	placed                   *schema.Box // position on the page, if the page was turned for recognition
}

func (w pdfWord) box(page int) schema.Box {
	if w.placed != nil {
		return *w.placed
	}
	return schema.Box{Page: page, Left: float64(w.left), Bottom: float64(w.bottom), Right: float64(w.right), Top: float64(w.top)}
}

func parsePDF(d *document, data []byte) error {
	instance, err := pdfiumInstance()
	if err != nil {
		return err
	}
	defer func() { _ = instance.Close() }() // Kill does not return it to the pool, which is exhausted after 64

	opened, err := instance.OpenDocument(&requests.OpenDocument{File: &data})
	if err != nil {
		return openError(err)
	}
	counted, err := instance.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		return damagedPDF(err)
	}
	if counted.PageCount > d.limits.Pages {
		return fail(schema.ReasonTooLarge, "The PDF has %d pages; the limit is %d. Split it, or raise the limit.", counted.PageCount, d.limits.Pages)
	}
	d.out.Pages = counted.PageCount
	if title, err := instance.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: opened.Document, Tag: "Title"}); err == nil {
		d.out.Title = pdfTitle(title.Value)
	}

	var lines []pdfLine
	rules := make(map[int]pdfRuling)
	size, broken := 0, 0
	for i := range counted.PageCount {
		if !d.withinTime() {
			return d.err
		}
		page, ruled, err := pageLines(instance, opened.Document, i)
		if err != nil {
			if !usable(instance, opened.Document) {
				return damagedPDF(err)
			}
			broken++
			d.warn(fmt.Sprintf("page %d could not be read", i+1))
			continue
		}
		for _, l := range page {
			size += len(l.text)
		}
		if size > 2*d.limits.TextBytes {
			return fail(schema.ReasonTooLarge, "The PDF has more than %s of text. Split it, or raise the limit.", schema.FormatBytes(int64(d.limits.TextBytes)))
		}
		lines = append(lines, page...)
		rules[i+1] = ruled
	}
	if broken > 0 && broken == counted.PageCount {
		return damagedPDF(errors.New("no page could be read"))
	}
	lines = recognisePages(d, instance, opened.Document, lines)
	layout(d, lines, rules)
	return d.err
}

func openError(err error) error {
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword), errors.Is(err, pdfiumerrors.ErrSecurity):
		return fail(schema.ReasonEncrypted, "The PDF is encrypted. Remove its password and send it again.").because(err)
	}
	return damagedPDF(err)
}

func damagedPDF(err error) *Error {
	return fail(schema.ReasonBroken, "The PDF is damaged. Open it in a PDF reader, save it again and send that.").because(err)
}

// usable reports whether the sandbox survived a failed page.
func usable(instance pdfium.Pdfium, doc references.FPDF_DOCUMENT) bool {
	_, err := instance.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc})
	return err == nil
}

// pdfTitle returns a document's title, or "" if it only names the file or the program.
func pdfTitle(s string) string {
	s = squeeze(s)
	lower := strings.ToLower(s)
	for _, suffix := range []string{".doc", ".docx", ".pdf", ".indd", ".qxd", ".xls", ".xlsx", ".ppt", ".pptx", ".htm", ".html", ".txt", ".tex", ".dvi"} {
		if strings.HasSuffix(lower, suffix) {
			return ""
		}
	}
	if strings.IndexFunc(s, unicode.IsLetter) < 0 || strings.HasPrefix(lower, "microsoft word") || lower == "untitled" || lower == "document" {
		return ""
	}
	return s
}

// pageLines returns the lines of page i in reading order and, if some look like rows of a table,
// the rules of the page.
func pageLines(instance pdfium.Pdfium, doc references.FPDF_DOCUMENT, i int) ([]pdfLine, pdfRuling, error) {
	loaded, err := instance.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: doc, Index: i})
	if err != nil {
		return nil, pdfRuling{}, err
	}
	defer func() { _, _ = instance.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page}) }()
	page := requests.Page{ByReference: &loaded.Page}
	height := 792.0
	if h, err := instance.FPDF_GetPageHeight(&requests.FPDF_GetPageHeight{Page: page}); err == nil {
		height = h.Height
	}
	opened, err := instance.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return nil, pdfRuling{}, err
	}
	t := textPage{instance: instance, page: opened.TextPage}
	defer func() { _, _ = instance.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: t.page}) }()
	chars, err := t.chars()
	if err != nil {
		return nil, pdfRuling{}, err
	}
	var lines []pdfLine
	start, rows := 0, 0
	for at := 0; at <= len(chars); at++ {
		if at < len(chars) && chars[at] != '\n' && chars[at] != '\r' {
			continue
		}
		for _, line := range t.lines(chars, start, at) {
			line.page, line.pageTop = i+1, height
			lines = append(lines, line)
			if line.cells > 1 || number(line.text) || line.gapped() {
				rows++
			}
		}
		start = at + 1
	}
	if rows < 2 {
		return lines, pdfRuling{}, nil
	}
	return lines, pageRules(instance, page), nil
}

// textPage reads the characters of one page.
type textPage struct {
	instance pdfium.Pdfium
	page     references.FPDF_TEXTPAGE
}

// chars returns the page's characters, so that chars[i] is pdfium's character i. 0 stands for a
// character without Unicode.
func (t textPage) chars() ([]rune, error) {
	counted, err := t.instance.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: t.page})
	if err != nil || counted.Count <= 0 {
		return nil, err
	}
	got, err := t.instance.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: t.page, Count: counted.Count})
	if err == nil {
		// pdfium's text sometimes omits characters; then it cannot be used.
		runes := []rune(got.Text)
		if n := len(utf16.Encode(runes)); n == counted.Count && len(runes) == n {
			return runes, nil
		}
	}
	out := make([]rune, counted.Count)
	for i := range out {
		c, err := t.instance.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: t.page, Index: i})
		if err != nil {
			return nil, err
		}
		out[i] = rune(c.Unicode)
	}
	return out, nil
}

// lines returns the characters [start, end) as one or more lines.
func (t textPage) lines(chars []rune, start, end int) []pdfLine {
	for start < end && blank(chars[start]) {
		start++
	}
	for end > start && blank(chars[end-1]) {
		end--
	}
	if start == end {
		return nil
	}
	line := pdfLine{cells: 1}
	mid := solid(chars, start, end)
	var w wordMaker
	for i := start; i < end; i++ {
		r := chars[i]
		switch {
		case r == 0:
			continue
		case blank(r):
			w.flush(&line)
			continue
		case r == '\u0002', r == '\uFFFE':
			// pdfium's mark for a hyphen at the end of a line; the rest of the word may follow.
			if i > start && i+1 < end && unicode.IsLower(chars[i-1]) && unicode.IsLower(chars[i+1]) {
				continue
			}
			r = '-'
		}
		box, err := t.box(i)
		if err != nil {
			box = structs.FPDF_FS_RECTF{}
		}
		w.add(r, box)
		if i == mid || i < mid && line.size == 0 {
			// A superscript or a bullet at the beginning has another size.
			line.size = float64(box.Top - box.Bottom)
		}
	}
	w.flush(&line)
	if len(line.words) == 0 {
		return nil
	}
	line.bold = t.bold(start) && t.bold(end-1)
	return line.splitAtBreaks()
}

// splitAtBreaks returns l as lines: one, unless pdfium joined several.
func (l pdfLine) splitAtBreaks() []pdfLine {
	var out []pdfLine
	for from := 0; from < len(l.words); {
		to := from + 1
		for to < len(l.words) && !l.words[to].startsLineBelow(l.words[to-1]) {
			to++
		}
		part := l
		part.words = l.words[from:to:to]
		first, last := part.words[0], part.words[len(part.words)-1]
		part.left, part.right = float64(first.left), float64(last.right)
		part.bottom, part.top = float64(first.bottom), float64(first.top)
		part.cut()
		out = append(out, part)
		from = to
	}
	return out
}

// startsLineBelow reports whether w begins a line below the one that ends with o. pdfium takes a
// dash at the end of a line, as in rows of tables, for a hyphen, and joins the lines.
func (w pdfWord) startsLineBelow(o pdfWord) bool {
	return w.top < o.bottom+0.3*(o.top-o.bottom) && w.left < o.left
}

// wordMaker collects the characters of a word.
type wordMaker struct {
	b   strings.Builder
	box structs.FPDF_FS_RECTF
}

func (w *wordMaker) add(r rune, box structs.FPDF_FS_RECTF) {
	if w.b.Len() == 0 {
		w.box = box
	} else {
		w.box.Left, w.box.Right = min(w.box.Left, box.Left), max(w.box.Right, box.Right)
		w.box.Bottom, w.box.Top = min(w.box.Bottom, box.Bottom), max(w.box.Top, box.Top)
	}
	w.b.WriteRune(r)
}

func (w *wordMaker) flush(line *pdfLine) {
	if s := squeeze(w.b.String()); s != "" {
		line.words = append(line.words, pdfWord{text: s, left: w.box.Left, bottom: w.box.Bottom, right: w.box.Right, top: w.box.Top})
	}
	w.b.Reset()
}

// itemMark matches the marker of a list item, such as (iii).
var itemMark = regexp.MustCompile(`^\(?[A-Za-z0-9]{1,5}[.)]$`)

// cut finds the cells of a line, which are separated by wide gaps, and sets its text.
func (l *pdfLine) cut() {
	for i := range l.words {
		w := &l.words[i]
		w.cell = i > 0 && l.size > 0 && float64(w.left-l.words[i-1].right) > 1.3*l.size
		if w.cell {
			l.cells++
		}
	}
	if l.cells == 2 && l.words[1].cell && (bullet.MatchString(l.words[0].text) || len(l.words[0].text) < 4 || itemMark.MatchString(l.words[0].text)) {
		// A bullet or number separated from its text.
		l.words[1].cell, l.cells = false, 1
	}
	var b strings.Builder
	for i, w := range l.words {
		switch {
		case w.cell:
			b.WriteString(" | ")
		case i > 0:
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	l.text = b.String()
}

// gapped reports whether some words are separated by more than a space.
func (l *pdfLine) gapped() bool {
	for i := 1; i < len(l.words); i++ {
		if float64(l.words[i].left-l.words[i-1].right) > maxRunGap*l.size {
			return true
		}
	}
	return false
}

func (t textPage) box(i int) (structs.FPDF_FS_RECTF, error) {
	got, err := t.instance.FPDFText_GetLooseCharBox(&requests.FPDFText_GetLooseCharBox{TextPage: t.page, Index: i})
	if err != nil {
		return structs.FPDF_FS_RECTF{}, err
	}
	return got.Rect, nil
}

// solid returns the index of a character that is not blank, near the middle of [start, end).
func solid(chars []rune, start, end int) int {
	for i := start + (end-start)/2; i < end; i++ {
		if !blank(chars[i]) {
			return i
		}
	}
	return start
}

func blank(r rune) bool { return r == 0 || r == ' ' || r == '\t' || r == '\u00a0' }

// bold reports whether the font of character i is bold.
func (t textPage) bold(i int) bool {
	font, err := t.instance.FPDFText_GetFontInfo(&requests.FPDFText_GetFontInfo{TextPage: t.page, Index: i})
	if err != nil {
		return false
	}
	name := strings.ToLower(font.FontName)
	return strings.Contains(name, "bold") || strings.Contains(name, "black") || strings.Contains(name, "heavy") || font.Flags&(1<<18) != 0
}
