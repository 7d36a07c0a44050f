package parse

import (
	"bytes"
	"encoding/binary"
	"image"
)

// tiffEntry is an entry of a TIFF's directory.
type tiffEntry struct {
	tag, kind    uint16
	count, value uint32
}

// tiffOf returns a TIFF of directories, followed by data. next returns the offset that directory i
// gives for its successor.
func tiffOf(order binary.AppendByteOrder, next func(i int, begins []uint32) uint32, data []byte, directories ...[]tiffEntry) []byte {
	b := []byte("II*\x00")
	if order.String() == "BigEndian" {
		b = []byte("MM\x00*")
	}
	begins, at := []uint32{}, uint32(8)
	for _, d := range directories {
		begins = append(begins, at)
		at += uint32(2 + 12*len(d) + 4)
	}
	b = order.AppendUint32(b, 8)
	for i, d := range directories {
		b = order.AppendUint16(b, uint16(len(d)))
		for _, e := range d {
			b = order.AppendUint16(order.AppendUint16(b, e.tag), e.kind)
			b = order.AppendUint32(b, e.count)
			if e.kind == 3 && e.count == 1 && order.String() == "BigEndian" {
				e.value <<= 16
			}
			b = order.AppendUint32(b, e.value)
		}
		b = order.AppendUint32(b, next(i, begins))
	}
	return append(b, data...)
}

// picture returns a directory of an image of width by height pixels.
func picture(width, height, compression, strip, bytes uint32) []tiffEntry {
	return []tiffEntry{{256, 4, 1, width}, {257, 4, 1, height}, {258, 3, 1, 8}, {259, 3, 1, compression}, {262, 3, 1, 1}, {273, 4, 1, strip}, {277, 3, 1, 1}, {278, 4, 1, height}, {279, 4, 1, bytes}}
}

func hostileImages() []hostileFile {
	var list []hostileFile
	add := func(name string, data []byte) {
		list = append(list, hostileFile{"image " + name, data})
	}
	last := func(int, []uint32) uint32 { return 0 }
	chain := func(i int, begins []uint32) uint32 {
		if i+1 < len(begins) {
			return begins[i+1]
		}
		return 0
	}
	le, be := binary.LittleEndian, binary.BigEndian
	small := pngFile(image.NewGray(image.Rect(0, 0, 40, 40)))
	photo := jpegFile(image.NewGray(image.Rect(0, 0, 40, 40)))
	add("png 100,000 by 100,000", pngClaiming(100_000, 100_000))
	add("png of 2^31 pixels across", pngClaiming(1<<31-1, 1))
	add("png of 2^32 pixels", pngClaiming(1<<32-1, 1<<32-1))
	add("png of no pixels", pngClaiming(0, 0))
	add("png of its size and no more", pngClaiming(100, 100))
	add("png cut off", small[:len(small)-30])
	add("png without its end", small[:len(small)-12])
	add("png whose checksum lies", bytes.Replace(small, []byte("IHDR"), []byte("IHDS"), 1))
	add("png with a chunk of 2 GB", append(bytes.Clone(small[:33]), "\x7F\xFF\xFF\xFFzTXtabc"...))
	add("png of palette colours without a palette", func() []byte { b := bytes.Clone(small); b[25] = 3; return b }())
	add("png of depth 255", func() []byte { b := bytes.Clone(small); b[24] = 255; return b }())
	sized := func(h, w uint16) []byte {
		b := bytes.Clone(photo)
		at := bytes.Index(b, []byte("\xFF\xC0"))
		be.PutUint16(b[at+5:], h)
		be.PutUint16(b[at+7:], w)
		return b
	}
	add("jpeg 65,535 by 65,535", sized(65535, 65535))
	add("jpeg of no pixels", sized(0, 0))
	add("jpeg larger than its data", sized(1900, 1900))
	add("jpeg cut off", photo[:len(photo)/2])
	add("jpeg of a header", photo[:20])
	add("jpeg of 200,000 empty markers", append([]byte("\xFF\xD8"), append(bytes.Repeat([]byte("\xFF\xFE\x00\x02"), 200_000), photo[2:]...)...))
	add("jpeg of markers without an end", append([]byte("\xFF\xD8\xFF"), bytes.Repeat([]byte("\xFF"), 1<<20)...))
	add("jpeg of two pictures", append(bytes.Clone(photo), photo...))
	add("jpeg with tables of noise", append(append([]byte("\xFF\xD8\xFF\xC4\xFF\xFF"), noise(65533)...), photo[2:]...))
	add("tiff 100,000 by 100,000", tiffOf(le, last, nil, picture(100_000, 100_000, 1, 8, 8)))
	add("tiff of 2^32 pixels across", tiffOf(be, last, nil, picture(1<<32-1, 1<<32-1, 1, 8, 8)))
	add("tiff of no pixels", tiffOf(le, last, nil, picture(0, 0, 1, 8, 8)))
	add("tiff whose strip is behind its end", tiffOf(le, last, nil, picture(100, 100, 1, 1<<31, 10_000)))
	add("tiff whose strip has 4 GB", tiffOf(le, last, nil, picture(100, 100, 1, 8, 1<<32-1)))
	add("tiff whose next is itself", tiffOf(le, func(i int, b []uint32) uint32 { return b[i] }, make([]byte, 100), picture(10, 10, 1, 8, 100)))
	add("tiff of two in a circle", tiffOf(be, func(i int, b []uint32) uint32 { return b[1-i] }, make([]byte, 100), picture(10, 10, 1, 8, 100), picture(10, 10, 1, 8, 100)))
	many := make([][]tiffEntry, 1000)
	for i := range many {
		many[i] = picture(10, 10, 1, 8, 100)
	}
	add("tiff of 1,000 pages", tiffOf(le, chain, make([]byte, 100), many...))
	add("tiff of 150 pages of 4 million pixels", tiffOf(le, chain, make([]byte, 100), func() [][]tiffEntry {
		out := make([][]tiffEntry, 150)
		for i := range out {
			out[i] = picture(2000, 2000, 1, 8, 100)
		}
		return out
	}()...))
	add("tiff whose directory is behind its end", append([]byte("II*\x00"), 0xFF, 0xFF, 0xFF, 0x7F))
	add("tiff whose directory has 65,535 entries", append([]byte("II*\x00\x08\x00\x00\x00"), 0xFF, 0xFF))
	add("tiff of Deflate of noise", tiffOf(le, last, noise(5000), picture(1000, 1000, 8, 122, 5000)))
	add("tiff of LZW of noise", tiffOf(le, last, noise(5000), picture(1000, 1000, 5, 122, 5000)))
	add("tiff of fax of noise", tiffOf(le, last, noise(5000), append(picture(1000, 1000, 4, 122, 5000)[:2], tiffEntry{258, 3, 1, 1}, tiffEntry{259, 3, 1, 4}, tiffEntry{262, 3, 1, 0}, tiffEntry{273, 4, 1, 122}, tiffEntry{278, 4, 1, 1000}, tiffEntry{279, 4, 1, 5000})))
	add("tiff of a compression that is not", tiffOf(le, last, nil, picture(10, 10, 60000, 8, 8)))
	add("tiff with 2^32 strips", tiffOf(le, last, nil, append(picture(10, 10, 1, 8, 8), tiffEntry{273, 4, 1<<32 - 1, 8})))
	add("tiff of tiles of no size", tiffOf(le, last, nil, append(picture(10, 10, 1, 8, 8), tiffEntry{322, 4, 1, 0}, tiffEntry{323, 4, 1, 0}, tiffEntry{324, 4, 1, 8}, tiffEntry{325, 4, 1, 8})))
	add("tiff of numbers of no kind", tiffOf(le, last, nil, []tiffEntry{{256, 99, 1, 10}, {257, 0, 1 << 31, 10}}))
	add("tiff with 2^32 bits a pixel", tiffOf(le, last, nil, append(picture(10, 10, 1, 8, 8), tiffEntry{258, 4, 1, 1<<32 - 1})))
	add("tiff that is big", []byte("II\x2B\x00\x08\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00"))
	add("in a page of a PDF", scannedClaim(60_000, 60_000))
	add("of nothing but a name", []byte("\x89PNG\r\n\x1a\n"))
	return list
}

// scannedClaim returns a PDF of a scan whose JPEG declares width by height pixels.
func scannedClaim(width, height int) []byte {
	photo := jpegFile(image.NewGray(image.Rect(0, 0, 40, 40)))
	at := bytes.Index(photo, []byte("\xFF\xC0"))
	binary.BigEndian.PutUint16(photo[at+5:], uint16(height))
	binary.BigEndian.PutUint16(photo[at+7:], uint16(width))
	return pdfPage(letterBox+" /Resources << /XObject << /X 6 0 R >> >>", pdfStream("", "612 0 0 792 0 0 cm /X Do"), helvetica,
		pdfStream("/Type /XObject /Subtype /Image /Width 60000 /Height 60000 /BitsPerComponent 8 /ColorSpace /DeviceGray /Filter /DCTDecode", string(photo)))
}
