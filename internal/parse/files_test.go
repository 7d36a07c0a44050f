package parse

// Files made for tests.

import (
	"archive/zip"
	"bytes"
	"crypto/md5"
	"crypto/rc4"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
)

const namespaces = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"`

// document1 wraps a body in a document.
func document1(body string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><w:document ` + namespaces + `><w:body>` + body + `</w:body></w:document>`
}

// docx returns a zip container of the parts.
func docx(parts map[string]string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, s := range parts {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(s))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// pdfFile returns a PDF with one page per content stream.
func pdfFile(pages []string) []byte {
	return pdfObjects(pages, "", func(_ int, s string) string { return s })
}

// pdfObjects writes the objects of a PDF. encrypt is applied to the streams, and trailer is added
// to the trailer.
func pdfObjects(pages []string, trailer string, encrypt func(object int, s string) string, extra ...string) []byte {
	var kids []string
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"}
	for _, content := range pages {
		n := len(objects) + 1
		kids = append(kids, fmt.Sprintf("%d 0 R", n))
		objects = append(objects,
			fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", n+1))
		content = encrypt(n+1, content)
		objects = append(objects, fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages))
	objects = append(objects, extra...)
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	var offsets []int
	for i, o := range objects {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	at := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, at)
	return b.Bytes()
}

// encryptedPDF returns a PDF that needs a user password (40-bit RC4, revision 2
// of the standard security handler).
func encryptedPDF() []byte {
	pad := []byte("\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A")
	padded := func(s string) []byte { return append([]byte(s), pad...)[:32] }
	cipher := func(key, data []byte) []byte {
		c, err := rc4.NewCipher(key)
		if err != nil {
			panic(err)
		}
		out := make([]byte, len(data))
		c.XORKeyStream(out, data)
		return out
	}
	ownerKey := md5.Sum(padded("owner"))
	owner := cipher(ownerKey[:5], padded("secret"))
	id := []byte("0123456789abcdef")
	permissions := int32(-4)
	var p [4]byte
	binary.LittleEndian.PutUint32(p[:], uint32(permissions))
	h := md5.New()
	h.Write(padded("secret"))
	h.Write(owner)
	h.Write(p[:])
	h.Write(id)
	key := h.Sum(nil)[:5]
	user := cipher(key, pad)
	trailer := fmt.Sprintf("/ID [<%x> <%x>] /Encrypt << /Filter /Standard /V 1 /R 2 /O <%x> /U <%x> /P %d >>", id, id, owner, user, permissions)
	return pdfObjects([]string{"BT /F1 11 Tf 72 720 Td (Secret text.) Tj ET"}, trailer, func(object int, s string) string {
		k := md5.Sum(append(append([]byte{}, key...), byte(object), byte(object>>8), byte(object>>16), 0, 0))
		return string(cipher(k[:10], []byte(s)))
	})
}

// oleFile returns the beginning of a compound file with the name of a stream.
func oleFile(stream string) []byte {
	out := append([]byte{}, magicOLE...)
	out = append(out, make([]byte, 1016)...)
	return append(out, toUTF16(stream, false)...)
}

func toUTF16(s string, big bool) []byte {
	var out []byte
	for _, u := range utf16.Encode([]rune(s)) {
		if big {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}
