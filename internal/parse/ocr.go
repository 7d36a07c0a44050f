package parse

// Scanned pages, in the child: an image becomes words with boxes and confidences, and then lines
// like those of a PDF's text. tesseract itself runs elsewhere (ocr_process.go); this side turns the
// page upright, sends it, and reads the answer.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io"
	"slices"

	"github.com/sluice-rag/sluice/schema"
)

// Confidences are from 0 to 1, that is, tesseract's per cent divided by 100.
const (
	// A page whose mean word confidence is lower is named in a warning.
	minPageConfidence = 0.7
	// Below this mean confidence a page's orientation is determined.
	minUprightConfidence = 0.6
	// A word below minWordConfidence is noise if it has no letter or digit, or if the mean of its
	// line is below minLineConfidence.
	minWordConfidence = 0.3
	minLineConfidence = 0.4
	// If more than maxUnreadInk of a page's ink is in no word, the page is recognised once more, as
	// one block. The second result is used if confidentBytes returns more than minReadGain times as
	// much for it.
	maxUnreadInk = 0.1
	minReadGain  = 1.05
)

// ocrSession is text recognition for one file, with the pipes on which it is requested.
type ocrSession struct {
	options ocrOptions
	office  officeOptions // for files in it that need conversion
	in      *bufio.Reader
	out     io.Writer
	limits  Limits
	time    *timeBudget // the file's; it is stopped during recognition and conversion
	pages   int         // pages recognised in the file and in enclosed files
	warned  bool
}

// request sends an image and returns tesseract's output. It returns an *Error if the page is the
// cause.
func (o *ocrSession) request(r recogniseRequest, pixels []byte) ([]byte, error) {
	o.time.stop()
	defer o.time.start()
	if err := writeReply(o.out, reply{Recognise: &r}); err != nil {
		return nil, err
	}
	if err := writeFrame(o.out, pixels); err != nil {
		return nil, err
	}
	body, err := readFrame(o.in)
	if err != nil {
		return nil, fmt.Errorf("wait for recognised text: %w", err)
	}
	var reply recogniseReply
	if err := json.Unmarshal(body, &reply); err != nil {
		return nil, fmt.Errorf("decode recognised text: %w", err)
	}
	switch {
	case reply.Reason != nil:
		return nil, &Error{Reason: *reply.Reason}
	case reply.Failure != "":
		return nil, errors.New(reply.Failure)
	}
	return reply.Output, nil
}

// recognisedWord is a recognised word.
type recognisedWord struct {
	text       string
	box        image.Rectangle // in pixels of the upright image
	confidence float64
}

// recognisedPage is the result for a page.
type recognisedPage struct {
	lines   [][]recognisedWord // in reading order
	words   int
	mean    float64 // confidence
	rotated bool    // its words are rotated by 90 degrees; tesseract reads those, too
	upright affine  // from the upright image to the page's image
	width   int     // of the upright image
	height  int
}

// recognisePage recognises a page's image. Its error is an *Error if the page is the cause.
func (o *ocrSession) recognisePage(page *image.Gray, dpi int) (recognisedPage, error) {
	result, err := o.recogniseTurned(page, 0, dpi)
	if err != nil || result.mean >= minUprightConfidence && !result.rotated || !o.options.Orientation {
		return result, err
	}
	size := page.Bounds().Size()
	output, err := o.request(recogniseRequest{Width: size.X, Height: size.Y, DPI: dpi, Orientation: true}, page.Pix)
	if err != nil {
		return result, nil // tesseract does not know the orientation of a page with little text
	}
	quarters := orientationOf(output)
	if quarters == 0 {
		return result, nil
	}
	turned, err := o.recogniseTurned(page, quarters, dpi)
	if err != nil || turned.mean <= result.mean && !result.rotated {
		return result, nil
	}
	return turned, nil
}

// recogniseTurned recognises a page after turning it by quarters times 90 degrees, clockwise, and
// correcting its skew.
func (o *ocrSession) recogniseTurned(page *image.Gray, quarters, dpi int) (recognisedPage, error) {
	upright, back := rotateQuarters(page, quarters)
	if angle := skew(upright); angle != 0 {
		straight, more := rotate(upright, angle)
		upright, back = straight, back.after(more)
	}
	size := upright.Bounds().Size()
	request := recogniseRequest{Width: size.X, Height: size.Y, DPI: dpi}
	lines, err := o.requestWords(request, upright)
	if err != nil {
		return recognisedPage{}, err
	}
	if unread(upright, lines) > maxUnreadInk {
		// Cells of wide tables are missed unless the whole page is treated as one block. If this
		// fails, the first result stands.
		request.Block = true
		if again, err := o.requestWords(request, upright); err == nil && confidentBytes(again) > minReadGain*confidentBytes(lines) {
			lines = again
		}
	}
	out := recognisedPage{upright: back, width: size.X, height: size.Y, lines: lines}
	horizontal, vertical := 0, 0
	for _, line := range out.lines {
		for _, w := range line {
			out.mean += w.confidence
			out.words++
			switch {
			case len(w.text) < 4:
			case w.box.Dy() > w.box.Dx():
				vertical++
			default:
				horizontal++
			}
		}
	}
	out.rotated = vertical > horizontal
	if out.words > 0 {
		out.mean /= float64(out.words)
	}
	return out, nil
}

// requestWords recognises an image as requested. Noise is left out.
func (o *ocrSession) requestWords(request recogniseRequest, page *image.Gray) ([][]recognisedWord, error) {
	output, err := o.request(request, page.Pix)
	if err != nil {
		return nil, err
	}
	lines, err := wordsOf(output)
	return withoutNoise(lines), err
}

// confidentBytes returns the bytes of text in words with at least minUprightConfidence.
func confidentBytes(lines [][]recognisedWord) float64 {
	n := 0
	for _, line := range lines {
		for _, w := range line {
			if w.confidence >= minUprightConfidence {
				n += len(w.text)
			}
		}
	}
	return float64(n)
}

// scan recognises one page's image of a document and returns its lines. place maps the image's
// pixels to the page's own coordinates. A page that cannot be recognised is named in a warning; an
// error concerns the whole document.
func (d *document) scan(number int, page *image.Gray, dpi int, toPage affine) ([]pdfLine, error) {
	if blankPage(page) {
		return nil, nil
	}
	o := d.ocr
	if o.pages >= o.limits.OCRPages {
		return nil, fail(schema.ReasonTooLarge, "more than %d pages need text recognition; split the file, or raise SLUICE_PARSE_OCR_PAGES", o.limits.OCRPages)
	}
	o.pages++
	read, err := o.recognisePage(page, dpi)
	if err != nil {
		return nil, err
	}
	if o.options.Warning != "" && !o.warned {
		d.warn(o.options.Warning)
		o.warned = true
	}
	if read.words == 0 {
		return nil, nil
	}
	entry := schema.RecognisedPage{Page: number, Words: read.words, Confidence: read.mean}
	for _, line := range read.lines {
		entry.Lines = append(entry.Lines, meanOf(line))
	}
	d.out.Recognised = append(d.out.Recognised, entry)
	if read.mean < minPageConfidence {
		d.warn(fmt.Sprintf("page %d was hard to read: the mean confidence of its %d words is %.2f", number, read.words, read.mean))
	}
	return read.pdfLines(number, dpi, toPage), nil
}

// unscanned records a page that could not be recognised.
func (d *document) unscanned(number int, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = fail(schema.ReasonBroken, "text recognition failed").because(err)
	}
	if d.unread == nil {
		d.unread = e
	}
	d.warn(fmt.Sprintf("page %d was not recognised: %s", number, e.Reason.Message))
}

// noText returns the reason why a document with pages has no text.
func (d *document) noText() *Error {
	if d.unread != nil {
		return &Error{Reason: schema.Reason{Code: d.unread.Reason.Code,
			Message: "None of its pages has text that could be recognised: " + d.unread.Reason.Message + "."}, cause: d.unread.cause}
	}
	if !d.ocr.options.Enabled {
		return fail(schema.ReasonNoText, "None of its pages has text: it may be a scan. %s", d.ocr.options.Reason)
	}
	return fail(schema.ReasonEmpty, "None of its pages has text, nor was any recognised.")
}

func meanOf(line []recognisedWord) float64 {
	sum := 0.0
	for _, w := range line {
		sum += w.confidence
	}
	return sum / float64(max(len(line), 1))
}

// withoutNoise removes words that were recognised in dirt, rules and pictures.
func withoutNoise(lines [][]recognisedWord) [][]recognisedWord {
	var out [][]recognisedWord
	for _, line := range lines {
		mean := meanOf(line)
		words := slices.DeleteFunc(line, func(w recognisedWord) bool {
			return w.confidence < minWordConfidence && (!hasText(w.text) || mean < minLineConfidence)
		})
		if len(words) > 0 {
			out = append(out, words)
		}
	}
	return out
}

// blankPage reports whether a page has no ink.
func blankPage(page *image.Gray) bool {
	lightest, darkest := uint8(0), uint8(255)
	for _, p := range page.Pix {
		lightest, darkest = max(lightest, p), min(darkest, p)
	}
	return lightest-darkest < 40
}
