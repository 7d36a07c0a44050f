package ingestworker

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/sluice-rag/sluice/schema"
)

// renderLines returns a PNG of lines of text, like a scan with 200 dots per inch.
func renderLines(t *testing.T, lines ...string) []byte {
	t.Helper()
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: 12, DPI: 200})
	if err != nil {
		t.Fatal(err)
	}
	page := image.NewGray(image.Rect(0, 0, 1654, 1000))
	draw.Draw(page, page.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	for i, line := range lines {
		d := font.Drawer{Dst: page, Src: image.NewUniform(color.Black), Face: face, Dot: fixed.P(150, 200+50*i)}
		d.DrawString(line)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, page); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestScansAreReadInTheirCollectionsLanguage: from the upload to the sections, with the warning
// that names what is not installed.
func TestScansAreReadInTheirCollectionsLanguage(t *testing.T) {
	if _, err := exec.LookPath("tesseract"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("tesseract is missing: tools/setup tesseract installs it")
		}
		t.Skip("tesseract is missing, so that scans are not tested: tools/setup tesseract installs it")
	}
	w := newWorld(t)
	c, err := w.store.CreateCollection(w.context(), w.principal, schema.NewCollection{Name: "French", Language: "fr"})
	w.ok(err)
	w.collection = c.ID
	parser, err := parsers(w.settings)
	w.ok(err)
	w.ok(parser.Start(w.context()))
	t.Cleanup(func() { w.ok(parser.Stop(context.Background())) })
	w.parser = parser
	w.upload("scan.png", string(renderLines(t, "The pumps were inspected in March.", "All seals were replaced, and the pressure was tested.")))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	if n := w.count(`SELECT count(*) FROM sections WHERE body LIKE '%pumps were inspected in March%'`); n != 1 {
		t.Errorf("%d sections have its text", n)
	}
	if n := w.count(`SELECT count(*) FROM versions WHERE array_to_string(warnings, ' ') LIKE '%language (fr) install the package tesseract-ocr-fra%'`); n != 1 {
		t.Errorf("%d versions have the warning", n)
	}
	if d := w.document("scan.png"); !strings.HasPrefix(d.MediaType, "image/png") {
		t.Errorf("it is %s", d.MediaType)
	}
}
