package parse

// Scanned pages of PDFs: finds the pages that are scans, and draws their images.

import (
	"errors"
	"fmt"
	"image"
	"math"
	"unicode"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/sluice-rag/sluice/schema"
)

const (
	scanDPI         = 300  // resolution at which a page is drawn, in dots per inch
	minScanDPI      = 100  // below this resolution no text can be recognised
	maxScanObjects  = 5000 // most objects of a page that are examined
	maxScanDepth    = 4    // most levels of nested forms that are examined
	minScanCover    = 0.8  // share of the page that an image covers if the page shows nothing else
	maxStampLetters = 60   // letters: a page number or a stamp on a scanned page has fewer
)

// pageInk describes what is drawn on a page.
type pageInk struct {
	objects  int
	visible  bool    // some of its text is visible
	covered  float64 // the share of the page that its largest image covers
	pixels   int     // of its largest image
	hasImage bool
}

// recognisePages recognises the pages that have no text of their own, and inserts their lines. It
// runs after the text was extracted, so that a failure while a page is drawn loses no text.
func recognisePages(d *document, instance pdfium.Pdfium, doc references.FPDF_DOCUMENT, lines []pdfLine) []pdfLine {
	extracted := make([][]pdfLine, d.out.Pages)
	for _, l := range lines {
		extracted[l.page-1] = append(extracted[l.page-1], l)
	}
	scans := make([][]pdfLine, d.out.Pages)
	var found []pdfLine
	skipped := 0
	for i, whole := 0, true; i < d.out.Pages && whole && d.withinTime(); i++ {
		read, err := recognisePDFPage(d, instance, doc, i, extracted[i])
		switch {
		case errors.Is(err, errNotRecognised):
			skipped++
		case err != nil:
			d.unscanned(i+1, err)
			if whole = usable(instance, doc); !whole && i+1 < d.out.Pages {
				d.warn(fmt.Sprintf("the pages after page %d were not checked for scans: drawing them took too much", i+1))
			}
		case lettersOf(read) > lettersOf(extracted[i]):
			found = append(found, read...)
			scans[i] = read
		}
	}
	if skipped > 0 && len(lines) > 0 {
		d.warn(fmt.Sprintf("%d of its pages are scans and were not recognised. %s", skipped, d.ocr.options.Reason))
	}
	if len(found) == 0 {
		return lines
	}
	settleSizes(found, bodySize(lines))
	var out []pdfLine
	for i := range scans {
		if n := len(scans[i]); n > 0 {
			out = append(out, found[:n]...)
			found = found[n:]
		} else {
			out = append(out, extracted[i]...)
		}
	}
	return out
}

// errNotRecognised means that a page is a scan and text recognition is off.
var errNotRecognised = errors.New("text recognition is off")

// recognisePDFPage recognises page i if it is a scan.
func recognisePDFPage(d *document, instance pdfium.Pdfium, doc references.FPDF_DOCUMENT, i int, extracted []pdfLine) ([]pdfLine, error) {
	letters := lettersOf(extracted)
	loaded, err := instance.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: doc, Index: i})
	if err != nil {
		return nil, nil // reported when its text was extracted
	}
	defer func() { _, _ = instance.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page}) }()
	page := requests.Page{ByReference: &loaded.Page}
	width, err := instance.FPDF_GetPageWidth(&requests.FPDF_GetPageWidth{Page: page})
	if err != nil {
		return nil, nil
	}
	height, err := instance.FPDF_GetPageHeight(&requests.FPDF_GetPageHeight{Page: page})
	if err != nil {
		return nil, nil
	}
	p := pdfScan{instance: instance, page: page, width: width.Width, height: height.Height}
	ink := p.ink()
	switch {
	case ink.objects == 0:
		return nil, nil
	case letters > 0 && (ink.covered < minScanCover || ink.visible && letters >= maxStampLetters):
		return nil, nil
	case !d.ocr.options.Enabled && !ink.hasImage:
		return nil, nil
	case !d.ocr.options.Enabled:
		return nil, errNotRecognised
	case ink.pixels > d.limits.OCRPixels:
		return nil, fail(schema.ReasonTooLarge, "an image on it has %d pixels; the limit is %d. Scan it with fewer, or raise SLUICE_PARSE_OCR_MEGAPIXELS", ink.pixels, d.limits.OCRPixels)
	}
	drawn, dpi, err := p.draw(d.limits.OCRPixels)
	if err != nil {
		return nil, err
	}
	toPage, err := p.pageTransform(drawn.Bounds().Dx(), drawn.Bounds().Dy())
	if err != nil {
		return nil, err
	}
	return d.scan(i+1, drawn, dpi, toPage)
}

// lettersOf counts letters and digits.
func lettersOf(lines []pdfLine) int {
	n := 0
	for _, l := range lines {
		for _, r := range l.text {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				n++
			}
		}
	}
	return n
}

// pdfScan is a page that may be a scan. Its size is in points, with the page's rotation applied.
type pdfScan struct {
	instance      pdfium.Pdfium
	page          requests.Page
	width, height float64
}

// ink examines what is drawn on the page. Objects that cannot be examined are ignored.
func (p pdfScan) ink() pageInk {
	var ink pageInk
	counted, err := p.instance.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: p.page})
	if err != nil {
		return ink
	}
	for i := range min(counted.Count, maxScanObjects) {
		got, err := p.instance.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: p.page, Index: i})
		if err != nil {
			continue
		}
		before := ink.hasImage
		ink.hasImage = false
		p.examine(got.PageObject, &ink, 0)
		if ink.hasImage {
			// An image in a form is counted as at most as large as the form.
			if b, err := p.instance.FPDFPageObj_GetBounds(&requests.FPDFPageObj_GetBounds{PageObject: got.PageObject}); err == nil {
				area := float64(b.Right-b.Left) * float64(b.Top-b.Bottom)
				ink.covered = max(ink.covered, area/max(p.width*p.height, 1))
			}
		}
		ink.hasImage = ink.hasImage || before
	}
	return ink
}

func (p pdfScan) examine(object references.FPDF_PAGEOBJECT, ink *pageInk, depth int) {
	ink.objects++
	kind, err := p.instance.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: object})
	if err != nil || ink.objects > maxScanObjects {
		return
	}
	switch kind.Type {
	case enums.FPDF_PAGEOBJ_TEXT:
		mode, err := p.instance.FPDFTextObj_GetTextRenderMode(&requests.FPDFTextObj_GetTextRenderMode{PageObject: object})
		if err != nil || mode.TextRenderMode != enums.FPDF_TEXTRENDERMODE_INVISIBLE && mode.TextRenderMode != enums.FPDF_TEXTRENDERMODE_CLIP {
			ink.visible = true
		}
	case enums.FPDF_PAGEOBJ_IMAGE:
		ink.hasImage = true
		size, err := p.instance.FPDFImageObj_GetImagePixelSize(&requests.FPDFImageObj_GetImagePixelSize{ImageObject: object})
		if err == nil {
			// Each is below 2^32; an integer product could overflow.
			pixels := float64(size.Width) * float64(size.Height)
			ink.pixels = max(ink.pixels, int(min(pixels, math.MaxInt32)))
		}
	case enums.FPDF_PAGEOBJ_FORM:
		counted, err := p.instance.FPDFFormObj_CountObjects(&requests.FPDFFormObj_CountObjects{PageObject: object})
		if err != nil || depth >= maxScanDepth {
			return
		}
		for i := range min(counted.Count, maxScanObjects) {
			got, err := p.instance.FPDFFormObj_GetObject(&requests.FPDFFormObj_GetObject{PageObject: object, Index: uint64(i)})
			if err == nil {
				p.examine(got.PageObject, ink, depth+1)
			}
		}
	}
}

// draw returns the page in grey, with up to most pixels, and its dots per inch.
func (p pdfScan) draw(maxPixels int) (*image.Gray, int, error) {
	inches := p.width * p.height / 72 / 72
	dpi := scanDPI
	if dots := math.Sqrt(float64(maxPixels) / max(inches, 1e-6)); dots < scanDPI {
		dpi = int(dots)
	}
	if dpi < minScanDPI {
		return nil, 0, fail(schema.ReasonTooLarge, "it is %.0f by %.0f inches large: with the %d dots per inch that reading needs it would have more than %d pixels", p.width/72, p.height/72, minScanDPI, maxPixels)
	}
	w, h := int(p.width*float64(dpi)/72), int(p.height*float64(dpi)/72)
	if w < 1 || h < 1 {
		return nil, 0, fail(schema.ReasonBroken, "it has no size")
	}
	bitmap, err := p.instance.FPDFBitmap_CreateEx(&requests.FPDFBitmap_CreateEx{Width: w, Height: h, Format: enums.FPDF_BITMAP_FORMAT_GRAY, Pointer: uint64(0)})
	if err != nil {
		return nil, 0, fmt.Errorf("draw the page: %w", err)
	}
	defer func() { _, _ = p.instance.FPDFBitmap_Destroy(&requests.FPDFBitmap_Destroy{Bitmap: bitmap.Bitmap}) }()
	if _, err := p.instance.FPDFBitmap_FillRect(&requests.FPDFBitmap_FillRect{Bitmap: bitmap.Bitmap, Width: w, Height: h, Color: 0xFFFFFFFF}); err != nil {
		return nil, 0, fmt.Errorf("draw the page: %w", err)
	}
	if _, err := p.instance.FPDF_RenderPageBitmap(&requests.FPDF_RenderPageBitmap{Bitmap: bitmap.Bitmap, Page: p.page, SizeX: w, SizeY: h,
		Flags: enums.FPDF_RENDER_FLAG_ANNOT | enums.FPDF_RENDER_FLAG_GRAYSCALE}); err != nil {
		return nil, 0, fmt.Errorf("draw the page: %w", err)
	}
	got, err := p.instance.FPDFBitmap_GetBuffer(&requests.FPDFBitmap_GetBuffer{Bitmap: bitmap.Bitmap})
	if err != nil {
		return nil, 0, fmt.Errorf("draw the page: %w", err)
	}
	if len(got.Buffer) < w*h || len(got.Buffer)%h != 0 {
		return nil, 0, fmt.Errorf("draw the page: %d bytes are not a picture of %d by %d pixels", len(got.Buffer), w, h)
	}
	stride := len(got.Buffer) / h
	out := image.NewGray(image.Rect(0, 0, w, h))
	for y := range h {
		copy(out.Pix[y*w:(y+1)*w], got.Buffer[y*stride:])
	}
	return out, dpi, nil
}

// pageTransform returns the map from pixels of the drawn page to the page's own coordinates, which
// are those before the page's rotation.
func (p pdfScan) pageTransform(w, h int) (affine, error) {
	toPage := func(x, y int) (float64, float64, error) {
		got, err := p.instance.FPDF_DeviceToPage(&requests.FPDF_DeviceToPage{Page: p.page, SizeX: w, SizeY: h, DeviceX: x, DeviceY: y})
		if err != nil {
			return 0, 0, fmt.Errorf("find the page's coordinates: %w", err)
		}
		return got.PageX, got.PageY, nil
	}
	x0, y0, err := toPage(0, 0)
	if err != nil {
		return affine{}, err
	}
	x1, y1, err := toPage(w, 0)
	if err != nil {
		return affine{}, err
	}
	x2, y2, err := toPage(0, h)
	if err != nil {
		return affine{}, err
	}
	fw, fh := float64(w), float64(h)
	return affine{(x1 - x0) / fw, (x2 - x0) / fh, x0, (y1 - y0) / fw, (y2 - y0) / fh, y0}, nil
}
