package parse

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// central returns the offsets of the entries of an archive's central directory.
func central(data []byte) []int {
	var out []int
	for at := 0; ; {
		n := bytes.Index(data[at:], []byte("PK\x01\x02"))
		if n < 0 {
			return out
		}
		out = append(out, at+n)
		at += n + 4
	}
}

// edited returns a copy of data, changed by edit.
func edited(data []byte, edit func(b []byte)) []byte {
	b := bytes.Clone(data)
	edit(b)
	return b
}

func hostileArchives() []hostileFile {
	var list []hostileFile
	add := func(name string, data []byte) {
		list = append(list, hostileFile{"zip " + name, data})
	}
	le := binary.LittleEndian
	note := archive(nil, "a.txt", "A note.")
	two := archive(nil, "a.txt", "A note.", "b.txt", "Another note.")
	nested := func(depth int) []byte {
		b := note
		for range depth {
			b = archive(nil, "a.zip", string(b))
		}
		return b
	}
	add("in zip", nested(1))
	add("in zip in zip", nested(2))
	add("in 50 zips", nested(50))
	ten := make([]string, 0, 20)
	for i := range 10 {
		ten = append(ten, fmt.Sprint(i, ".zip"), string(archive(nil, "a.txt", strings.Repeat("a ", 3<<20))))
	}
	add("of ten that expand", archive(nil, ten...))
	// Like 42.zip: each entry is the same archive of many entries.
	layer := string(archive(nil, "a.txt", strings.Repeat("\x00", 9<<20)))
	for range 4 {
		var pairs []string
		for i := range 16 {
			pairs = append(pairs, fmt.Sprint(i, ".zip"), layer)
		}
		layer = string(archive(nil, pairs...))
	}
	add("that expands to petabytes", []byte(layer))
	add("bomb of one entry", bomb("a.txt", 200<<20))
	// Every entry of the central directory refers to the same data (like Fifield's bombs).
	overlapping := edited(two, func(b []byte) { le.PutUint32(b[central(b)[1]+42:], 0) })
	add("with overlapping entries", overlapping)
	add("with an entry behind its end", edited(note, func(b []byte) { le.PutUint32(b[central(b)[0]+42:], 1<<30) }))
	add("with an entry in its directory", edited(note, func(b []byte) { at := central(b)[0]; le.PutUint32(b[at+42:], uint32(at)) }))
	add("quine-like, an entry that is the archive", edited(note, func(b []byte) { le.PutUint32(b[central(b)[0]+20:], uint32(len(b))) }))
	add("whose size says less", edited(note, func(b []byte) { le.PutUint32(b[central(b)[0]+24:], 1) }))
	add("whose size says 4 GB", edited(note, func(b []byte) { le.PutUint32(b[central(b)[0]+24:], 1<<32-2) }))
	add("whose packed size says 4 GB", edited(note, func(b []byte) { le.PutUint32(b[central(b)[0]+20:], 1<<32-2) }))
	add("whose checksum lies", edited(note, func(b []byte) { le.PutUint32(b[central(b)[0]+16:], 7) }))
	add("of a method that is not", edited(note, func(b []byte) { le.PutUint16(b[central(b)[0]+10:], 77) }))
	add("whose method differs within", edited(note, func(b []byte) { le.PutUint16(b[8:], 0) }))
	add("with a name of 64 KB", archive(nil, strings.Repeat("n", 65_000)+".txt", "A note."))
	for name, path := range map[string]string{
		"upwards": "../../etc/passwd", "upwards within": "a/../../b.txt", "absolute": "/etc/passwd.txt", "of Windows": `C:\windows\a.txt`, "upwards of Windows": `..\..\a.txt`,
		"with a NUL": "a\x00.txt", "of nothing": "", "of a dot": ".", "of dots": "..", "with a line break": "a\nb.txt", "of a million folders": strings.Repeat("a/", 30_000) + "b.txt", "that is not UTF-8": "\xff\xfe.txt",
	} {
		add("with a path "+name, archive(nil, path, "A note."))
	}
	add("with a path twice", archive(nil, "a.txt", "A note.", "a.txt", "Another."))
	var many bytes.Buffer
	w := zip.NewWriter(&many)
	for i := range 100_000 {
		if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%d.txt", i), Method: zip.Store}); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	add("of 100,000 entries", many.Bytes())
	add("that says 65,535 entries", edited(note, func(b []byte) {
		at := bytes.LastIndex(b, []byte("PK\x05\x06"))
		le.PutUint16(b[at+10:], 65534)
		le.PutUint16(b[at+8:], 65534)
	}))
	add("whose directory is behind its end", edited(note, func(b []byte) { le.PutUint32(b[bytes.LastIndex(b, []byte("PK\x05\x06"))+16:], 1<<30) }))
	add("whose directory has 4 GB", edited(note, func(b []byte) { le.PutUint32(b[bytes.LastIndex(b, []byte("PK\x05\x06"))+12:], 1<<32-2) }))
	add("that is on another disk", edited(note, func(b []byte) { le.PutUint16(b[bytes.LastIndex(b, []byte("PK\x05\x06"))+4:], 9) }))
	add("without its end", note[:bytes.LastIndex(note, []byte("PK\x05\x06"))])
	add("of its end alone", note[bytes.LastIndex(note, []byte("PK\x05\x06")):])
	add("with a comment that is an archive", append(edited(note, func(b []byte) { le.PutUint16(b[len(b)-2:], uint16(len(two))) }), two...))
	add("behind another file", append([]byte("A text before it.\n"), note...))
	add("of a header alone", []byte("PK\x03\x04"))
	add("of headers", bytes.Repeat([]byte("PK\x03\x04"), 10_000))
	add("with an extra field in a circle", edited(archive(func(h *zip.FileHeader) { h.Extra = []byte{1, 0, 0xFF, 0xFF, 1, 0} }, "a.txt", "A note."), func([]byte) {}))
	add("of links", archive(func(h *zip.FileHeader) { h.SetMode(0o777 | 1<<27) }, "a.txt", "/etc/passwd"))
	add("of a password", locked(bytes.Clone(note)))
	add("of noise packed", edited(archive(nil, "a.txt", strings.Repeat("some words that pack well ", 100)), func(b []byte) { copy(b[40:], noise(60)) }))
	return list
}
