// Package parse turns files into blocks of text: plain text, Markdown, HTML, PDF with page numbers,
// scanned pages and images, DOCX, XLSX, PPTX, ODT, ODS, ODP, EPUB, RTF, e-mails and mailboxes with
// their attachments, CSV, JSON Lines, and archives of such files. The format is detected from the
// content; the name only decides between formats that have no signature.
//
// Files are not trusted. Parse enforces Limits and does not panic itself, but a parser can still
// hang or use too much memory: Pool runs it in child processes that can be killed.
package parse

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// Limits bounds what one file may cost. A zero field means its default.
type Limits struct {
	Bytes         int64         `json:"bytes"`          // of the file; 100 MB
	Pages         int           `json:"pages"`          // of a PDF, or slides; 5,000
	TextBytes     int           `json:"text_bytes"`     // of the extracted text; 20 MB
	Nesting       int           `json:"nesting"`        // of elements, lists, quotes and JSON values; 200
	Entries       int           `json:"entries"`        // of all zip containers in a file, parts of an e-mail, or messages of a mailbox; 10,000
	ExpandedBytes int64         `json:"expanded_bytes"` // contents of all containers in a file; 500 MB
	Expansion     int           `json:"expansion"`      // ratio of contents to container, checked from 10 MB of contents on; 200
	Rows          int           `json:"rows"`           // of a CSV file, a workbook, a table, or lines of a JSON Lines file; 1,000,000
	Cells         int           `json:"cells"`          // in a row; 2,000
	LineBytes     int           `json:"line_bytes"`     // of a CSV cell or a JSON Lines line; 8 MB
	Time          time.Duration `json:"time"`           // of the processor; elapsed time may be ten times as long; 60 s; restarts after each recognised page
	OCRPages      int           `json:"ocr_pages"`      // that are recognised per document; 500
	OCRPixels     int           `json:"ocr_pixels"`     // of a page's image; 40,000,000
	OCRTime       time.Duration `json:"ocr_time"`       // of the processor, per recognised page; 60 s
}

// DefaultLimits returns the defaults.
func DefaultLimits() Limits {
	return Limits{
		Bytes:         100 << 20,
		Pages:         5000,
		TextBytes:     20 << 20,
		Nesting:       200,
		Entries:       10_000,
		ExpandedBytes: 500 << 20,
		Expansion:     200,
		Rows:          1_000_000,
		Cells:         2000,
		LineBytes:     8 << 20,
		Time:          time.Minute,
		OCRPages:      500,
		OCRPixels:     40_000_000,
		OCRTime:       time.Minute,
	}
}

// withDefaults replaces zero fields by their defaults.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	or(&l.Bytes, d.Bytes)
	or(&l.Pages, d.Pages)
	or(&l.TextBytes, d.TextBytes)
	or(&l.Nesting, d.Nesting)
	or(&l.Entries, d.Entries)
	or(&l.ExpandedBytes, d.ExpandedBytes)
	or(&l.Expansion, d.Expansion)
	or(&l.Rows, d.Rows)
	or(&l.Cells, d.Cells)
	or(&l.LineBytes, d.LineBytes)
	or(&l.Time, d.Time)
	or(&l.OCRPages, d.OCRPages)
	or(&l.OCRPixels, d.OCRPixels)
	or(&l.OCRTime, d.OCRTime)
	return l
}

func or[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Validate returns an error that names the first limit out of range.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"bytes", l.Bytes}, {"pages", int64(l.Pages)}, {"text_bytes", int64(l.TextBytes)}, {"nesting", int64(l.Nesting)},
		{"entries", int64(l.Entries)}, {"expanded_bytes", l.ExpandedBytes}, {"expansion", int64(l.Expansion)},
		{"rows", int64(l.Rows)}, {"cells", int64(l.Cells)}, {"line_bytes", int64(l.LineBytes)}, {"time", int64(l.Time)},
		{"ocr_pages", int64(l.OCRPages)}, {"ocr_pixels", int64(l.OCRPixels)}, {"ocr_time", int64(l.OCRTime)},
	} {
		if f.value < 0 {
			return fmt.Errorf("parse limits: %s is %d: it must not be negative", f.name, f.value)
		}
	}
	return nil
}

// Error reports that a file could not be parsed, and why. It is final: parsing the same file again
// fails again.
type Error struct {
	Reason schema.Reason
	cause  error
}

// Error returns the reason's code and message.
func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Reason.Code, e.Reason.Message, e.cause)
	}
	return e.Reason.Code + ": " + e.Reason.Message
}

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// fail returns an *Error. It cleans the message, since names from the file may not be valid text.
func fail(code, format string, args ...any) *Error {
	return &Error{Reason: schema.Reason{Code: code, Message: text.Clean(fmt.Sprintf(format, args...))}}
}

// because sets the cause of e.
func (e *Error) because(cause error) *Error {
	e.cause = cause
	return e
}

// Parse parses one file. name is its path or URL and mediaHint the media type that its sender gave;
// both may be empty and neither is trusted. If the file cannot be parsed, the error is an *Error;
// any other error is ctx's.
//
// Parse checks ctx only between pages and rows, and does not recognise scanned pages. Use a Pool to
// parse files that are not trusted.
func Parse(ctx context.Context, name, mediaHint string, data []byte, limits Limits) (schema.Parsed, error) {
	return parseFile(ctx, name, mediaHint, data, limits, &ocrSession{options: ocrOptions{Reason: ocrIsOff}})
}

// parseFile is Parse with text recognition as ocr says.
func parseFile(ctx context.Context, name, mediaHint string, data []byte, limits Limits, ocr *ocrSession) (parsed schema.Parsed, err error) {
	limits = limits.withDefaults()
	if err := limits.Validate(); err != nil {
		return schema.Parsed{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ocr.time, ocr.limits = &timeBudget{limit: limits.Time, onExceeded: func(e *Error) { cancel(e) }}, limits
	ocr.time.start()
	defer ocr.time.stop()
	defer func() {
		if p := recover(); p != nil {
			err = fail(schema.ReasonBroken, "The file is damaged in a way its reader could not handle.").
				because(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
		if err != nil {
			parsed = schema.Parsed{}
		}
	}()
	return parse(ctx, name, mediaHint, data, limits, ocr, enclosure{sum: &containers{}})
}

func parse(ctx context.Context, name, mediaHint string, data []byte, limits Limits, ocr *ocrSession, in enclosure) (schema.Parsed, error) {
	if int64(len(data)) > limits.Bytes {
		return schema.Parsed{}, tooLarge(int64(len(data)), limits)
	}
	if err := in.enter(data, limits); err != nil {
		return schema.Parsed{}, err
	}
	file, err := detect(name, mediaHint, data, limits)
	if err != nil {
		return schema.Parsed{}, err
	}
	d := &document{ctx: ctx, limits: limits, ocr: ocr, in: in}
	d.out.MediaType = mediaTypes[file.format]
	d.out.Warnings = file.warnings
	switch file.format {
	case formatPDF:
		err = parsePDF(d, data)
	case formatPNG, formatJPEG, formatTIFF:
		err = parseImage(d, file.format, data)
	case formatDOCX:
		err = parseDOCX(d, data)
	case formatXLSX:
		err = parseXLSX(d, data)
	case formatPPTX:
		err = parsePPTX(d, data)
	case formatODT, formatODS, formatODP:
		err = parseODF(d, file.format, data)
	case formatEPUB:
		err = parseEPUB(d, data)
	case formatZIP:
		err = parseArchive(d, data)
	case formatMSG:
		err = parseMSG(d, data)
	case formatMBOX:
		err = parseMBOX(d, data)
	case formatEML:
		err = parseEML(d, data)
	case formatRTF:
		err = parseRTF(d, data)
	case formatDOC, formatXLS, formatPPT:
		err = parseOld(d, file.format, data)
	case formatHTML:
		err = parseHTML(d, file.text)
	case formatMarkdown:
		if err = d.fits(file.text); err == nil {
			err = parseMarkdown(d, file.text)
		}
	case formatCSV:
		err = parseCSV(d, file.text, file.delimiter)
	case formatJSONL:
		err = parseJSONL(d, file.text)
	default:
		if err = d.fits(file.text); err == nil {
			err = parsePlain(d, file.text)
		}
	}
	if err == nil {
		err = d.err
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			if cause := context.Cause(ctx); cause != nil {
				return schema.Parsed{}, cause
			}
		}
		return schema.Parsed{}, err
	}
	if len(d.out.Blocks) == 0 {
		switch file.format {
		case formatPDF, formatPNG, formatJPEG, formatTIFF:
			if d.out.Pages > 0 {
				return schema.Parsed{}, d.noText()
			}
		}
		return schema.Parsed{}, fail(schema.ReasonEmpty, "The file has no text in it.")
	}
	return d.out, nil
}

func tooLarge(size int64, limits Limits) *Error {
	return fail(schema.ReasonTooLarge, "The file has %s; the limit is %s. Split it, or raise the limit.", schema.FormatBytes(size), schema.FormatBytes(limits.Bytes))
}
