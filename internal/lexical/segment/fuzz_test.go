package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/google/uuid"
)

// fuzzDocuments returns documents that fill pages with every kind of list.
func fuzzDocuments() (docs []VersionText) {
	for i := range 40 {
		doc := VersionText{Entry: nth(i), Version: nth(1000 + i), Title: []string{"title", fmt.Sprint("t", i)}}
		if i%3 == 0 {
			doc.Labels = []string{"red", "green"}
		}
		for j := range 3 {
			doc.Sections = append(doc.Sections, [][]string{{"common", "common", fmt.Sprint("rare", i*j)}, {"common", fmt.Sprint("some", j)}, nil})
		}
		docs = append(docs, doc)
	}
	return docs
}

func fuzzSegment(f *testing.F) (Built, *Header) {
	built, err := tinyLayout.Build(uuid.UUID{1}, fuzzDocuments())
	if err != nil {
		f.Fatal(err)
	}
	s, _, err := Open(built.ID, built.Header, func(n int) []byte { return built.Pages[n].Data })
	if err != nil {
		f.Fatal(err)
	}
	return built, s
}

// fixChecksum gives data a correct checksum, so that the decoder reads arbitrary bytes.
func fixChecksum(data []byte) []byte {
	if len(data) < 4 {
		return appendChecksum(data)
	}
	return binary.LittleEndian.AppendUint32(bytes.Clone(data[:len(data)-4]), crc32.Checksum(data[:len(data)-4], castagnoli))
}

// expectErrorUnlessWritten fails if bytes that were not written are read without an error.
func expectErrorUnlessWritten(t *testing.T, data []byte, written [][]byte, err error) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%v is not ErrCorrupt", err)
		}
		return
	}
	for _, w := range written {
		if bytes.Equal(w, data) {
			return
		}
	}
	// Other bytes may have a valid checksum by chance, but it must be valid.
	if n := len(data) - 4; n < 0 || crc32.Checksum(data[:n], castagnoli) != binary.LittleEndian.Uint32(data[n:]) {
		t.Fatal("bytes with a wrong checksum were read")
	}
}

func FuzzOpenSegment(f *testing.F) {
	built, _ := fuzzSegment(f)
	f.Add(built.Header)
	f.Add(built.Header[:len(built.Header)/2])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, header []byte) {
		_, err := OpenHeader(uuid.UUID{1}, header)
		expectErrorUnlessWritten(t, header, [][]byte{built.Header}, err)
		s, err := OpenHeader(uuid.UUID{1}, fixChecksum(header))
		if err != nil {
			return
		}
		s.EachPage([]string{"", OpenTerm, "common", "\xff"}, func(n int) {
			if n < s.directoryPages || n >= s.PageCount() {
				t.Fatalf("page %d of %d", n, s.PageCount())
			}
		})
	})
}

func FuzzDecodePage(f *testing.F) {
	built, s := fuzzSegment(f)
	var written [][]byte
	for _, p := range built.Pages[s.directoryPages:] {
		written = append(written, p.Data)
		f.Add(p.Data)
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := DecodePage(data)
		expectErrorUnlessWritten(t, data, written, err)
		page, err := DecodePage(fixChecksum(data))
		if err != nil {
			return
		}
		if page.Bytes() > 100*len(data)+1000 {
			t.Fatalf("%d bytes became %d", len(data), page.Bytes())
		}
		var short List
		var block Postings
		for _, term := range []string{"common", "rare1", "zzz", OpenTerm, "\xff"} {
			page.Find(term, TermKey(term), &short)
		}
		var l List
		for at := page.reader(); !at.atEnd(); {
			term, ok := at.next(&l)
			if !ok {
				t.Fatal("a page that was decoded does not parse")
			}
			page.Find(string(term), TermKey(term), &short)
			for i := range l.Blocks {
				b := &l.Blocks[i]
				if !l.Read(b, &block) {
					continue
				}
				for j, slot := range block.Slots[:block.N] {
					if slot < b.First || slot > b.Last || j > 0 && slot <= block.Slots[j-1] {
						t.Fatalf("slot %d of a block from %d to %d", slot, b.First, b.Last)
					}
				}
			}
		}
	})
}

func FuzzOpenDirectory(f *testing.F) {
	built, s := fuzzSegment(f)
	first := built.Pages[0].Data
	f.Add(first, s.Entries)
	f.Add([]byte(nil), 0)
	f.Fuzz(func(t *testing.T, data []byte, entries int) {
		pages := [][]byte{data}
		for _, p := range built.Pages[1:s.directoryPages] {
			pages = append(pages, p.Data)
		}
		_, err := OpenDirectory(s, pages)
		expectErrorUnlessWritten(t, data, [][]byte{first}, err)
		pages[0] = fixChecksum(data)
		if _, err := OpenDirectory(s, pages); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if d, ok := decodeDirectory(data, max(0, entries)); ok && d.Bytes() > 200*len(data)+1000 {
			t.Fatalf("%d bytes became %d", len(data), d.Bytes())
		}
	})
}
