package e2e

// This file ingests files that cannot be read, and text files in several encodings.

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

func testHostile(t *testing.T, s *server) {
	folder := write(t, map[string]string{
		"good/cellar.txt":   "The cheese ripens for eleven months in the cellar of the old brewery.",
		"good/orchard.md":   "# Orchard\n\nThe apples are picked in the second week of October.\n",
		"good/roof.html":    "<html><head><title>Roof</title></head><body><main><h1>Roof</h1><p>The roof was covered with slate from Wales in 1911.</p></main></body></html>",
		"good/keys.csv":     "room,key\nlaboratory,brass key 17\nlibrary,iron key 4\n",
		"bad/empty.txt":     "",
		"bad/blank.txt":     " \n\t\n \n",
		"bad/binary.txt":    noise(64 << 10),
		"bad/encrypted.pdf": encryptedPDF(),
		"bad/broken.pdf":    "%PDF-1.7\nThis is no PDF.\n",
		"bad/broken.docx":   truncatedDOCX(t, s),
		"bad/bomb.docx":     bombDOCX(t),
		"bad/utf32.txt":     "\xff\xfe\x00\x00" + strings.Repeat("\xf0\xf1\xf2\xf3", 64),
		"bad/lines.jsonl":   "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 3}\n{\"a\": \n",
	})
	sparse(t, filepath.Join(folder, "bad", "huge.txt"), 200<<20)

	result := s.sluice(t, "ingest", folder, "-c", "hostile", "--wait")
	wanted := map[string]string{
		"bad/empty.txt":     schema.ReasonEmpty,
		"bad/blank.txt":     schema.ReasonEmpty,
		"bad/binary.txt":    schema.ReasonUnsupported,
		"bad/encrypted.pdf": schema.ReasonEncrypted,
		"bad/broken.pdf":    schema.ReasonBroken,
		"bad/broken.docx":   schema.ReasonBroken,
		"bad/bomb.docx":     schema.ReasonTooLarge,
		"bad/utf32.txt":     schema.ReasonEncoding,
		"bad/lines.jsonl":   schema.ReasonBroken,
		"bad/huge.txt":      schema.ReasonTooLarge,
	}
	for name := range wanted {
		result.fails(t, name)
	}
	all := documents(t, s, "hostile")
	for name, d := range all {
		code, bad := wanted[name]
		switch {
		case !bad && d.State != schema.StateReady:
			t.Errorf("%s is %s: %+v", name, d.State, d.Reason)
		case bad && (d.State != schema.StateFailed || d.Reason == nil || d.Reason.Code != code || len(d.Reason.Message) < 10):
			t.Errorf("%s is %s with %+v; want it failed with %s", name, d.State, d.Reason, code)
		case bad && (d.Live || d.Passages > 0):
			t.Errorf("%s failed and answers questions", name)
		}
	}
	if len(all) != len(wanted)+4 {
		t.Errorf("there are %d documents, of %d", len(all), len(wanted)+4)
	}
	for question, name := range map[string]string{
		"How long does the cheese ripen?":          "good/cellar.txt",
		"When are the apples picked?":              "good/orchard.md",
		"What was the roof covered with?":          "good/roof.html",
		"Which key opens the laboratory room?":     "good/keys.csv",
		"How many months does the cheese stay in?": "good/cellar.txt",
	} {
		if found := search(t, s, "hostile", question); len(found) == 0 || found[0].ExternalID != name {
			t.Errorf("%q finds %v, not %s", question, names(found), name)
		}
	}

	// A second run uploads nothing, and lists the failures again.
	again := s.sluice(t, "ingest", folder, "-c", "hostile", "--wait", "--json").fails(t)
	if r := into[ingested](t, again); r.Uploaded > 0 || r.Ready != 4 || r.Failed != len(wanted) || len(r.Failures) != len(wanted) {
		t.Errorf("the second time: %+v", r)
	}
	testRetry(t, s, folder)
}

// testRetry retries a document right after its failure, within the time in which JetStream ignores
// duplicate messages.
func testRetry(t *testing.T, s *server, folder string) {
	const name = "bad/encrypted.pdf"
	for attempt := 2; attempt <= 3; attempt++ {
		s.sluice(t, "documents", "retry", name, "-c", "hostile").ok(t)
		waittest.Until(t, func() string {
			d := documents(t, s, "hostile")[name]
			if d.Attempt != attempt || d.State != schema.StateFailed {
				return fmt.Sprintf("%s is %s at attempt %d, want it failed again at attempt %d", name, d.State, d.Attempt, attempt)
			}
			return ""
		})
	}
	// All failed documents are retried.
	failed := 0
	for _, d := range documents(t, s, "hostile") {
		if d.State == schema.StateFailed {
			failed++
		}
	}
	queued := into[struct{ Queued int }](t, s.sluice(t, "documents", "retry", "--failed", "-c", "hostile", "--json").ok(t)).Queued
	// A file that was too large to store cannot be retried.
	if queued == 0 || queued > failed {
		t.Errorf("%d documents are queued again, of %d that failed", queued, failed)
	}
	waittest.Until(t, func() string {
		if n := unfinished(counts(t, s, "hostile")); n > 0 {
			return fmt.Sprintf("%d documents are unfinished", n)
		}
		return ""
	})
	// A repaired file becomes ready.
	put(t, folder, name, "The password of the archive was changed after the audit in Lindale.")
	s.sluice(t, "ingest", filepath.Join(folder, "bad", "encrypted.pdf"), "-c", "hostile", "--prefix", "bad/", "--wait").ok(t)
	if found := search(t, s, "hostile", "When was the password of the archive changed?"); len(found) == 0 || found[0].ExternalID != name {
		t.Errorf("the mended file is not found: %v", names(found))
	}
}

func testEncodings(t *testing.T, s *server) {
	const sentence = "The café “Zum Löwen” in Görlitz charges €7 for a piece of crème brûlée – no más."
	filler := strings.Repeat("Das Frühstück gibt es täglich von sieben bis elf Uhr für alle Gäste. ", 5)
	latin, err := charmap.Windows1252.NewEncoder().String(sentence + " " + filler)
	if err != nil {
		t.Fatal(err)
	}
	folder := write(t, map[string]string{
		"utf16-little.txt": "\xff\xfe" + utf16Text(sentence, binary.LittleEndian),
		"utf16-big.txt":    "\xfe\xff" + utf16Text(sentence, binary.BigEndian),
		"utf16-bare.txt":   utf16Text(sentence, binary.LittleEndian),
		"utf8-mark.txt":    "\xef\xbb\xbf" + sentence,
		"windows-1252.txt": latin,
	})
	s.sluice(t, "ingest", folder, "-c", "encodings", "--wait").ok(t)
	got := map[string]bool{}
	for _, p := range search(t, s, "encodings", "What does the café charge for crème brûlée?", "-k", "50") {
		if strings.Contains(collapse(p.Text), sentence) {
			got[p.ExternalID] = true
		}
	}
	for _, name := range walk(t, folder) {
		if name := filepath.Base(name); !got[name] {
			t.Errorf("%s is not found as %q", name, sentence)
		}
	}
}

func utf16Text(text string, order binary.AppendByteOrder) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

func noise(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return string(out)
}

// sparse creates a file that has a size but takes no space on the disk.
func sparse(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// encryptedPDF returns a PDF that cannot be opened: no password matches its O and U entries.
func encryptedPDF() string {
	var b strings.Builder
	var offsets []int
	object := func(text string) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(offsets), text)
	}
	b.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Kids [3 0 R] /Count 1 >>")
	object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R >>")
	object("<< /Length 8 >>\nstream\n\x13\x7f\x02\x99\xa1\x5c\x31\x08\nendstream")
	object("<< /Filter /Standard /V 1 /R 2 /Length 40 /P -4 /O <" + strings.Repeat("5a", 32) + "> /U <" + strings.Repeat("a5", 32) + "> >>")
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, at := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R /Encrypt 5 0 R /ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>] >>\nstartxref\n%d\n%%%%EOF\n",
		len(offsets)+1, start)
	return b.String()
}

func truncatedDOCX(t *testing.T, s *server) string {
	t.Helper()
	whole, err := os.ReadFile(filepath.Join(s.repository, "examples", "documents", "contracts", "mutual-nda-ashgrove-controls.docx"))
	if err != nil {
		t.Fatal(err)
	}
	return string(whole[:len(whole)/2])
}

// bombDOCX returns a Word document of a few hundred kilobytes with 700 MB of text.
func bombDOCX(t *testing.T) string {
	t.Helper()
	return zippedDOCX(t, slices.Repeat([]string{strings.Repeat("bomb ", 1<<20/5)}, 700)...)
}

// zippedDOCX returns a Word document with one paragraph. Its text is written in parts.
func zippedDOCX(t *testing.T, text ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) })
	file := func(name string, parts ...string) {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if _, err := io.WriteString(w, part); err != nil {
				t.Fatal(err)
			}
		}
	}
	file("[Content_Types].xml", `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`)
	file("_rels/.rels", `<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`)
	parts := append([]string{`<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>`}, text...)
	file("word/document.xml", append(parts, `</w:t></w:r></w:p></w:body></w:document>`)...)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
