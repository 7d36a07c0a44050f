package parse

// Scanned files made for tests.

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

// leaf is a page of a PDF with an image, text, or both.
type leaf struct {
	scan          *image.Gray
	text          string // a content stream, over the image
	width, height float64
	rotate        int
	claimed       [2]int // the size that the image declares, if it is wrong
}

// leaves returns a PDF of the pages.
func leaves(pages ...leaf) []byte {
	var b bytes.Buffer
	var offsets []int
	object := func(dictionary string, stream []byte) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\n", len(offsets), dictionary)
		if stream != nil {
			fmt.Fprintf(&b, "stream\n%s\nendstream\n", stream)
		}
		b.WriteString("endobj\n")
	}
	b.WriteString("%PDF-1.5\n")
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 4+3*i))
	}
	object("<< /Type /Catalog /Pages 2 0 R >>", nil)
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages)), nil)
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", nil)
	for i, page := range pages {
		if page.scan == nil {
			page.scan = image.NewGray(image.Rect(0, 0, 1, 1))
		} else {
			if page.width == 0 {
				page.width = float64(page.scan.Bounds().Dx()) * 72 / scannedDPI
				page.height = float64(page.scan.Bounds().Dy()) * 72 / scannedDPI
			}
			page.text = fmt.Sprintf("q %.2f 0 0 %.2f 0 0 cm /I Do Q ", page.width, page.height) + page.text
		}
		if page.width == 0 {
			page.width, page.height = 612, 792
		}
		if page.claimed[0] == 0 {
			page.claimed = [2]int{page.scan.Bounds().Dx(), page.scan.Bounds().Dy()}
		}
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Rotate %d /MediaBox [0 0 %.2f %.2f] /Resources << /Font << /F1 3 0 R >> /XObject << /I %d 0 R >> >> /Contents %d 0 R >>",
			page.rotate, page.width, page.height, 6+3*i, 5+3*i), nil)
		object(fmt.Sprintf("<< /Length %d >>", len(page.text)), []byte(page.text))
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		_, err := z.Write(page.scan.Pix)
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			panic(err)
		}
		object(fmt.Sprintf("<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /FlateDecode /Length %d >>",
			page.claimed[0], page.claimed[1], packed.Len()), packed.Bytes())
	}
	at := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, at)
	return b.Bytes()
}

// letterOf returns the content of a page with the paragraphs, in 12 points.
func letterOf(paragraphs ...string) string {
	var b strings.Builder
	y := 720
	for _, p := range paragraphs {
		for line := range strings.SplitSeq(p, "\n") {
			fmt.Fprintf(&b, "BT /F1 12 Tf 72 %d Td (%s) Tj ET\n", y, line)
			y -= 15
		}
		y -= 15
	}
	return b.String()
}

// printedScan prints the first page of a PDF and scans it, skewed by degrees.
func printedScan(t *testing.T, content string, degrees float64) *image.Gray {
	t.Helper()
	scan, _ := openPaper(t, pdfFile([]string{content})).scan(t, 0, degrees)
	return scan
}

func pngFile(page image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, page); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func jpegFile(page image.Image) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, page, nil); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// tiffFile returns a TIFF with a directory for each page and uncompressed pixels.
func tiffFile(order tiffByteOrder, pages ...*image.Gray) []byte {
	out := []byte("II*\x00\x00\x00\x00\x00")
	if order == binary.BigEndian {
		out = []byte("MM\x00*\x00\x00\x00\x00")
	}
	next := 4 // position of the next directory's offset
	for _, page := range pages {
		pixels := uint32(len(out))
		out = append(out, page.Pix...)
		if len(out)%2 == 1 {
			out = append(out, 0)
		}
		order.PutUint32(out[next:], uint32(len(out)))
		w, h := uint32(page.Bounds().Dx()), uint32(page.Bounds().Dy())
		entries := [][2]uint32{{256, w}, {257, h}, {258, 8}, {259, 1}, {262, 1}, {273, pixels}, {277, 1}, {278, h}, {279, w * h}}
		directory := order.AppendUint16(nil, uint16(len(entries)))
		for _, e := range entries {
			const long = 4
			directory = order.AppendUint16(directory, uint16(e[0]))
			directory = order.AppendUint16(directory, long)
			directory = order.AppendUint32(directory, 1)
			directory = order.AppendUint32(directory, e[1])
		}
		out = append(out, directory...)
		next = len(out)
		out = append(out, 0, 0, 0, 0)
	}
	return out
}

type tiffByteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

func crc(data []byte) uint32 { return crc32.ChecksumIEEE(data) }
