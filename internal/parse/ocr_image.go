package parse

// Images as documents: each image is a page; a TIFF may have several.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/tiff"

	"github.com/sluice-rag/sluice/schema"
)

const (
	imageInches = 11.5       // assumed length of the longer side of scanned paper, in inches
	imageHuge   = 16_000_000 // pixels: a larger image is read at half its size
)

// pageImage is an image in a file that is not decoded yet.
type pageImage struct {
	config func() (image.Config, error)
	decode func() (image.Image, error)
}

func parseImage(d *document, kind format, data []byte) error {
	pages, err := imagesOf(kind, data, d.limits.Pages)
	if err != nil {
		return err
	}
	d.out.Pages = len(pages)
	var lines []pdfLine
	for i, p := range pages {
		if !d.withinTime() {
			return d.err
		}
		read, err := d.scanImage(i+1, p)
		switch {
		case errors.Is(err, errNotRecognised):
			return d.noText()
		case err != nil && len(pages) == 1:
			var e *Error
			if !errors.As(err, &e) {
				return err
			}
			return &Error{Reason: schema.Reason{Code: e.Reason.Code, Message: "The image was not read: " + e.Reason.Message + "."}, cause: e.cause}
		case err != nil:
			d.unscanned(i+1, err)
		}
		lines = append(lines, read...)
	}
	settleSizes(lines, 0)
	layout(d, lines, nil)
	return d.err
}

// scanImage recognises one image. It checks the image's size before it decodes it.
func (d *document) scanImage(number int, p pageImage) ([]pdfLine, error) {
	config, err := p.config()
	if err != nil {
		return nil, badImage(err)
	}
	if config.Width < 1 || config.Height < 1 {
		return nil, fail(schema.ReasonBroken, "it has no pixels")
	}
	if config.Width > d.limits.OCRPixels/config.Height {
		return nil, fail(schema.ReasonTooLarge, "it has %d by %d pixels; the limit is %d in all. "+
			"Scan it with fewer, or raise SLUICE_PARSE_OCR_MEGAPIXELS", config.Width, config.Height, d.limits.OCRPixels)
	}
	if !d.ocr.options.Enabled {
		return nil, errNotRecognised
	}
	decoded, err := p.decode()
	if err != nil {
		return nil, badImage(err)
	}
	page := grey(decoded)
	scale := 1
	if len(page.Pix) > imageHuge {
		page, scale = halved(page), 2
	}
	// Boxes are in pixels of the image, from the lower left.
	dpi := min(max(int(float64(max(page.Bounds().Dx(), page.Bounds().Dy()))/imageInches), 70), 600)
	return d.scan(number, page, dpi, affine{float64(scale), 0, 0, 0, -float64(scale), float64(config.Height)})
}

func badImage(err error) error {
	var unsupported tiff.UnsupportedError
	var more png.UnsupportedError
	var other jpeg.UnsupportedError
	if errors.As(err, &more) && strings.Contains(err.Error(), "dimension overflow") {
		return fail(schema.ReasonTooLarge, "it has more pixels than can be counted")
	}
	if errors.As(err, &unsupported) || errors.As(err, &more) || errors.As(err, &other) {
		return fail(schema.ReasonUnsupported, "its encoding is not known (%v). Save it as PNG", err)
	}
	return fail(schema.ReasonBroken, "it is damaged. Save it again").because(err)
}

// imagesOf returns the images of a file, up to the number most.
func imagesOf(kind format, data []byte, most int) ([]pageImage, error) {
	one := func(config func(io.Reader) (image.Config, error), decode func(io.Reader) (image.Image, error)) []pageImage {
		return []pageImage{{
			func() (image.Config, error) { return config(bytes.NewReader(data)) },
			func() (image.Image, error) { return decode(bytes.NewReader(data)) },
		}}
	}
	switch kind {
	case formatPNG:
		return one(png.DecodeConfig, png.Decode), nil
	case formatJPEG:
		return one(jpeg.DecodeConfig, jpeg.Decode), nil
	}
	offsets, err := tiffPages(data, most)
	if err != nil {
		return nil, err
	}
	var out []pageImage
	for _, offset := range offsets {
		out = append(out, pageImage{
			func() (image.Config, error) { return tiff.DecodeConfig(tiffPage(data, offset)) },
			func() (image.Image, error) { return tiff.Decode(tiffPage(data, offset)) },
		})
	}
	return out, nil
}

// tiffPages follows the chain of a TIFF's directories, one for each image, and returns their
// offsets. Images that are marked as reduced versions of others are left out.
func tiffPages(data []byte, most int) ([]uint32, error) {
	damaged := func(why string) error {
		return fail(schema.ReasonBroken, "The TIFF is damaged. Save it again.").because(errors.New(why))
	}
	order := tiffOrder(data)
	if len(data) < 8 {
		return nil, damaged("no header")
	}
	var out []uint32
	seen := make(map[uint32]bool)
	for at := order.Uint32(data[4:]); at != 0; {
		if seen[at] || uint64(at)+2 > uint64(len(data)) {
			return nil, damaged(fmt.Sprintf("a directory at %d", at))
		}
		if len(seen) >= 2*most {
			return nil, fail(schema.ReasonTooLarge, "The TIFF has more than %d pages. Split it, or raise the limit.", most)
		}
		seen[at] = true
		entries := uint64(order.Uint16(data[at:]))
		end := uint64(at) + 2 + 12*entries
		if end+4 > uint64(len(data)) {
			return nil, damaged(fmt.Sprintf("the directory at %d is cut off", at))
		}
		reduced := false
		for i := range entries {
			entry := data[uint64(at)+2+12*i:]
			const newSubfileType, reducedImage = 254, 1
			if order.Uint16(entry) == newSubfileType && order.Uint32(entry[8:])&reducedImage != 0 {
				reduced = true
			}
		}
		if !reduced {
			out = append(out, at)
		}
		at = order.Uint32(data[end:])
	}
	if len(out) > most {
		return nil, fail(schema.ReasonTooLarge, "The TIFF has %d pages; the limit is %d. Split it, or raise the limit.", len(out), most)
	}
	if len(out) == 0 {
		return nil, damaged("no directory")
	}
	return out, nil
}

func tiffOrder(data []byte) binary.ByteOrder {
	if bytes.HasPrefix(data, []byte("MM")) {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// tiffPage returns a view of the file in which this directory comes first, since the decoder reads
// only the first one.
func tiffPage(data []byte, directory uint32) *tiffView {
	v := &tiffView{data: data}
	copy(v.head[:], data)
	tiffOrder(data).PutUint32(v.head[4:], directory)
	return v
}

// tiffView is a file with a replaced header.
type tiffView struct {
	head [8]byte
	data []byte
}

// ReadAt implements io.ReaderAt.
func (v *tiffView) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(v.data)) {
		return 0, io.EOF
	}
	n := copy(p, v.data[off:])
	if off < int64(len(v.head)) {
		copy(p[:n], v.head[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Read always fails. The decoder requires an io.Reader but uses ReadAt.
func (v *tiffView) Read([]byte) (int, error) { return 0, errors.New("this is read with ReadAt") }

// grey returns an image's lightness, with transparent parts white.
func grey(in image.Image) *image.Gray {
	b := in.Bounds()
	if g, ok := in.(*image.Gray); ok && g.Stride == b.Dx() && b.Min == (image.Point{}) {
		return g
	}
	out := image.NewGray(image.Rect(0, 0, b.Dx(), b.Dy()))
	draw.Draw(out, out.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(out, out.Bounds(), in, b.Min, draw.Over)
	return out
}

// halved returns the image at half its size.
func halved(in *image.Gray) *image.Gray {
	w, h := in.Bounds().Dx()/2, in.Bounds().Dy()/2
	out := image.NewGray(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			at := 2*y*in.Stride + 2*x
			sum := int(in.Pix[at]) + int(in.Pix[at+1]) + int(in.Pix[at+in.Stride]) + int(in.Pix[at+in.Stride+1])
			out.Pix[y*w+x] = uint8(sum / 4)
		}
	}
	return out
}
