package parse

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// archive returns a ZIP file with the pairs of path and content, in order. change may alter an
// entry's header.
func archive(change func(h *zip.FileHeader), pairs ...string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i+1 < len(pairs); i += 2 {
		h := &zip.FileHeader{Name: pairs[i], Method: zip.Deflate}
		if change != nil {
			change(h)
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(f, pairs[i+1])
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

// locked marks the last entry of an archive as encrypted.
func locked(data []byte) []byte {
	at := bytes.LastIndex(data, []byte("PK\x01\x02"))
	data[at+8] |= zipEncrypted
	return data
}

func TestArchive(t *testing.T) {
	inner := string(archive(nil, "notes.md", "# Notes\n\nOf the *meeting*."))
	p := parsed(t, "no name", string(archive(nil,
		"z/last.txt", "It comes first.",
		"a/", "",
		"a/table.csv", "id,name\n1,Pump\n",
		"__MACOSX/a/._table.csv", "no", ".git/config", "no",
		"report.docx", string(docx(map[string]string{"word/document.xml": document1("<w:p><w:pPr><w:outlineLvl w:val=\"0\"/></w:pPr><w:r><w:t>Report</w:t></w:r></w:p><w:p><w:r><w:t>Text.</w:t></w:r></w:p>")})),
		"old/inner.zip", inner,
		"ppt/slides.txt", "A folder of that name is no presentation.",
		"photo.bin", string(noise(900)))))
	expect(t, p,
		"heading1: z/last.txt", "paragraph: It comes first.",
		"heading1: a/table.csv", "table: id | name\n1 | Pump",
		"heading1: report.docx", "heading2: Report", "paragraph: Text.",
		"heading1: old/inner.zip", "heading2: notes.md", "heading3: Notes", "paragraph: Of the meeting.",
		"heading1: ppt/slides.txt", "paragraph: A folder of that name is no presentation.",
	)
	if p.MediaType != "application/zip" || len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], `Entry "photo.bin" was not read: `) {
		t.Errorf("media type %q, warnings %q", p.MediaType, p.Warnings)
	}

	mixed := parsed(t, "a.zip", string(locked(archive(nil, `folder\a.txt`, "Text.", "secret.txt", "x"))))
	expect(t, mixed, "heading1: folder/a.txt", "paragraph: Text.")
	if len(mixed.Warnings) != 1 || !strings.Contains(mixed.Warnings[0], `"secret.txt"`) || !strings.Contains(mixed.Warnings[0], "encrypted") {
		t.Errorf("warnings %q", mixed.Warnings)
	}

	expect(t, parsed(t, "a.zip", string(archive(nil, "Gr\x94\xe1e.txt", "Text."))), "heading1: Größe.txt", "paragraph: Text.")

	// The first entries that are not read are named, and the others counted.
	many := []string{"a.txt", "Text."}
	for i := range 40 {
		many = append(many, fmt.Sprintf("%d.bin", i), string(noise(900)))
	}
	warnings := parsed(t, "a.zip", string(archive(nil, many...))).Warnings
	if len(warnings) != namedEntries+1 || warnings[namedEntries] != "25 more entries were not read." {
		t.Errorf("warnings %q", warnings)
	}
}

func TestRefusedArchives(t *testing.T) {
	text := string(archive(nil, "a.txt", "text"))
	three := string(archive(nil, "two.zip", string(archive(nil, "one.zip", text))))
	link := archive(func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }, "link", "/etc/passwd")
	method := archive(nil, "a.txt", "text")
	for _, at := range []int{8, bytes.LastIndex(method, []byte("PK\x01\x02")) + 10} {
		method[at] = 9 // Deflate64
	}
	big := strings.Repeat("x", 5000)
	spaces := strings.Repeat(" ", 900_000)
	var bombs []string
	for i := range 8 {
		bombs = append(bombs, fmt.Sprintf("%d.zip", i), string(archive(nil, "a.txt", spaces)))
	}
	for _, tt := range []struct {
		name   string
		data   []byte
		limits Limits
		want   string
		says   []string
	}{
		{"parent.zip", archive(nil, "a/../../etc/passwd", "x"), Limits{}, schema.ReasonBroken, []string{`"a/../../etc/passwd"`, "out of the archive"}},
		{"windows.zip", archive(nil, `..\a.txt`, "x"), Limits{}, schema.ReasonBroken, []string{"out of the archive"}},
		{"absolute.zip", archive(nil, "/etc/passwd", "x"), Limits{}, schema.ReasonBroken, []string{`"/etc/passwd"`}},
		{"drive.zip", archive(nil, `C:\a.txt`, "x"), Limits{}, schema.ReasonBroken, []string{"out of the archive"}},
		{"nul.zip", archive(nil, "a\x00.txt", "x"), Limits{}, schema.ReasonBroken, []string{`a\x00.txt`}},
		{"twice.zip", archive(nil, "a.txt", "x", "./a.txt", "y"), Limits{}, schema.ReasonBroken, []string{`"a.txt" twice`}},
		{"mixed.zip", archive(nil, `a/..\..\b.txt`, "x"), Limits{}, schema.ReasonBroken, []string{"out of the archive"}},
		{"same.zip", archive(nil, "b/a.txt", "x", "b//a.txt", "y"), Limits{}, schema.ReasonBroken, []string{`"b/a.txt" twice`}},
		{"link.zip", link, Limits{}, schema.ReasonUnsupported, []string{`"link"`}},
		{"method.zip", method, Limits{}, schema.ReasonUnsupported, []string{`"a.txt"`, "method (9)"}},
		{"locked.zip", locked(archive(nil, "a.txt", "x")), Limits{}, schema.ReasonEncrypted, []string{`"a.txt"`}},
		{"deep.zip", archive(nil, "three.zip", three), Limits{}, schema.ReasonTooLarge, []string{`Entry "three.zip": Entry "two.zip": Archives are nested more than 2 deep`}},
		{"entries.zip", archive(nil, "a.txt", "x", "b.txt", "y", "c.txt", "z"), Limits{Entries: 2}, schema.ReasonTooLarge, []string{"3 entries"}},
		{"together.zip", archive(nil, "a.zip", text, "b.zip", text, "c.zip", text), Limits{Entries: 5}, schema.ReasonTooLarge, []string{`Entry "c.zip"`, "5 entries together"}},
		{"size.zip", archive(nil, "big.txt", big), Limits{Bytes: 4000}, schema.ReasonTooLarge, []string{`"big.txt"`}},
		{"expanded.zip", archive(nil, "a.txt", "x", "big.txt", big), Limits{ExpandedBytes: 4000}, schema.ReasonTooLarge, []string{`"big.txt"`}},
		{"bombs.zip", archive(nil, bombs...), Limits{ExpandedBytes: 4 << 20}, schema.ReasonTooLarge, []string{`Entry "4.zip"`, "together"}},
		{"bomb.zip", bomb("a.txt", 64<<20), Limits{}, schema.ReasonTooLarge, []string{"zip bomb"}},
		{"text.zip", archive(nil, "a.txt", strings.Repeat("word ", 600), "b.txt", strings.Repeat("word ", 600)), Limits{TextBytes: 4000}, schema.ReasonTooLarge, []string{`"b.txt"`}},
		{"pages.zip", archive(nil, "show.odp", string(odf("presentation", "", "<draw:page/><draw:page/>"))), Limits{Pages: 1}, schema.ReasonTooLarge, []string{`Entry "show.odp"`, "slides"}},
		{"damaged.zip", damage(archive(nil, "a.txt", strings.Repeat("some text ", 50)+string(noise(90)))), Limits{}, schema.ReasonBroken, nil},
		{"name.zip", damage(archive(nil, "\x8b\x8b.txt", strings.Repeat("some text ", 50)+string(noise(90)))), Limits{}, schema.ReasonBroken, []string{`"ïï.txt"`}},
		{"hidden.zip", archive(nil, ".a", "x"), Limits{}, schema.ReasonEmpty, nil},
		{"none.zip", archive(nil), Limits{}, schema.ReasonEmpty, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := refused(t, tt.name, tt.data, tt.limits)
			if tt.want != "" && r.Code != tt.want {
				t.Errorf("reason %+v, want %s", r, tt.want)
			}
			for _, s := range tt.says {
				if !strings.Contains(r.Message, s) {
					t.Errorf("%q does not say %q", r.Message, s)
				}
			}
		})
	}
}

func TestOpenArchive(t *testing.T) {
	data := archive(nil, "b.txt", "text", "a/c.txt", "more", ".hidden", "x")
	files, err := OpenArchive(bytes.NewReader(data), int64(len(data)), Limits{ExpandedBytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 3 { // each time with new limits
		for _, f := range files {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f.Path+": "+string(b))
		}
	}
	if !slices.Equal(got[:2], []string{"b.txt: text", "a/c.txt: more"}) || len(got) != 6 {
		t.Errorf("got %q", got)
	}
	document := book(nil, "<p>x</p>")
	if files, err := OpenArchive(bytes.NewReader(document), int64(len(document)), Limits{}); files != nil || err != nil {
		t.Errorf("a book gave %v, %v", files, err)
	}
	// The declared size is enforced.
	lying := archive(nil, "a.txt", strings.Repeat("text ", 1000))
	at := bytes.LastIndex(lying, []byte("PK\x01\x02"))
	copy(lying[at+24:], []byte{10, 0, 0, 0})
	files, err = OpenArchive(bytes.NewReader(lying), int64(len(lying)), Limits{})
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	r, err := files[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err == nil {
		t.Errorf("%d bytes of 10 were read", len(b))
	}
}

func FuzzArchive(f *testing.F) {
	fuzz(f, "a.zip", nil, string(archive(nil, "a/b.txt", "text", "c.csv", "a,b\n1,2\n")), string(archive(nil, "a.zip", string(archive(nil, "b.txt", "x")))), string(locked(archive(nil, "..", "x"))))
}

func FuzzEntryPath(f *testing.F) {
	for _, s := range []string{"a/b", `..\a`, "/a", "C:a", "a/./b", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := entryPath(name)
		if err == nil && !fs.ValidPath(p) {
			t.Errorf("%q became %q", name, p)
		}
	})
}
