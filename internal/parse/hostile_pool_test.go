package parse

// Hostile files, through a pool with limits: each ends with a named reason or a correct result, no
// child dies or panics, and the next file is parsed. The files are made in the other
// hostile_*_test.go files.

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// hostileFile is a hostile file. Its expected result is in hostileOutcomes.
type hostileFile struct {
	name string
	data []byte
}

// hostileLimits are small, so that files over them are small, too.
var hostileLimits = Limits{
	Bytes: 32 << 20, Pages: 200, TextBytes: 4 << 20, Entries: 2000, ExpandedBytes: 64 << 20, Rows: 100_000, LineBytes: 1 << 20, Time: 20 * time.Second,
	OCRPages: 20, OCRPixels: 4_000_000, OCRTime: 20 * time.Second,
}

// hostileMemory is a parser's memory limit in bytes. No file may reach it.
const hostileMemory = 768 << 20

var hostileReasons = []string{schema.ReasonEmpty, schema.ReasonEncrypted, schema.ReasonBroken, schema.ReasonUnsupported, schema.ReasonEncoding,
	schema.ReasonTooLarge, schema.ReasonNoText}

func TestHostileFilesThroughAPool(t *testing.T) {
	var all []hostileFile
	for _, list := range [][]hostileFile{hostilePDFs(), hostileFonts(), hostileImages(), hostileArchives(), hostileXML(), hostileOffice(), hostileCompound(), hostileMail(), hostileTexts()} {
		all = append(all, list...)
	}
	if len(all) < 200 {
		t.Errorf("only %d files", len(all))
	}
	names := map[string]bool{}
	for _, f := range all {
		if names[f.name] {
			t.Errorf("two files are called %s", f.name)
		}
		names[f.name] = true
	}
	p := pool(t, func(o *PoolOptions) {
		o.Workers, o.Limits, o.MemoryLimit, o.NoOCR, o.NoOffice = 2, hostileLimits, hostileMemory, true, true
	})
	work := make(chan hostileFile)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for f := range work {
				t.Run(f.name, func(t *testing.T) { hostile(t, p, f) })
			}
		})
	}
	for _, f := range all {
		work <- f
	}
	close(work)
	wg.Wait()
}

// TestHostileImagesAreRecognised decodes and recognises the images that are within the limits.
func TestHostileImagesAreRecognised(t *testing.T) {
	needsTesseract(t)
	p := pool(t, func(o *PoolOptions) { o.Workers, o.Limits, o.MemoryLimit = 1, hostileLimits, hostileMemory })
	for _, f := range hostileImages() {
		t.Run(f.name, func(t *testing.T) {
			_, err := p.Parse(t.Context(), f.name, "", f.data)
			var e *Error
			if err == nil || !errors.As(err, &e) || strings.Contains(err.Error(), "panic") || strings.Contains(err.Error(), "Parsing needed more than") {
				t.Errorf("it ends with %v", err) // no image has text
			} else if !slices.Contains(hostileReasons, e.Reason.Code) {
				t.Errorf("its reason is %+v", e.Reason)
			}
			const next = "The next file is read."
			if after, err := p.Parse(t.Context(), "next.txt", "", []byte(next)); err != nil || len(after.Blocks) != 1 {
				t.Errorf("the next file gives %v, %v", show(after), err)
			}
		})
	}
}

// hostile parses a hostile file, and then another file.
func hostile(t *testing.T, p *Pool, f hostileFile) {
	t.Helper()
	want, known := hostileOutcomes[f.name]
	if !known {
		t.Error("hostileOutcomes does not say what becomes of it")
	}
	got, err := p.Parse(t.Context(), f.name, "", f.data)
	var e *Error
	switch {
	case err == nil:
		check(t, got)
		if read := outcomeOf(got); read != want {
			t.Errorf("it is read as %q, want %q", read, want)
		}
	case !errors.As(err, &e):
		t.Errorf("it ends without a reason: %v", err)
	case strings.Contains(err.Error(), "panic"), strings.Contains(err.Error(), "Parsing needed more than"):
		t.Errorf("its parser fails: %v", err)
	case !slices.Contains(hostileReasons, e.Reason.Code) || e.Reason.Message == "":
		t.Errorf("its reason is %+v", e.Reason)
	case e.Reason.Code != want:
		t.Errorf("it is refused: %q, want %q: %.300v", e.Reason.Code, want, err)
	}
	const next = "The next file is read."
	if after, err := p.Parse(t.Context(), "next.txt", "", []byte(next)); err != nil || len(after.Blocks) != 1 || after.Blocks[0].Text != next {
		t.Errorf("the next file gives %v, %v", show(after), err)
	}
}

// outcomeOf returns the beginnings of the first blocks.
func outcomeOf(p schema.Parsed) string {
	var out []string
	for _, b := range p.Blocks[:min(len(p.Blocks), 3)] {
		runes := []rune(b.Text)
		out = append(out, string(runes[:min(len(runes), 30)]))
	}
	return strings.Join(out, " / ")
}
