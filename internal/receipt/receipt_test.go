package receipt_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/parse"
	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// cited are the files that receipts quote.
var cited = []string{"manuals/kt-90-quick-guide.pdf", "it/runbook-erp-restore.md", "tables/price-list-2025-07.csv"}

func signerOf(t *testing.T, seeds ...byte) *receipt.Signer {
	t.Helper()
	var lines strings.Builder
	lines.WriteString("# keys\n")
	for _, s := range seeds {
		lines.WriteString(base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(s)), 32))) + "\n")
	}
	signer, err := receipt.ParseSigner(lines.String())
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func parseFile(ctx context.Context, f receipt.CitedFile, data []byte) (schema.Parsed, error) {
	return parse.Parse(ctx, f.Name, f.MediaType, data, parse.Limits{})
}

// answered returns a receipt of an answer that quotes a PDF, a Markdown and a CSV file, and the
// files' bytes by version.
func answered(t *testing.T) (receipt.Receipt, map[uuid.UUID][]byte) {
	t.Helper()
	out := receipt.Receipt{Question: "What is \"said\" <here> & there?", Answer: "All of it.\nÄ\u2028", Supported: true, QuestionID: uuid.New(), Software: "test",
		AnsweredAt: receipt.Time(time.Unix(1e9, 0)),
		Plan:       receipt.AnsweringPlan{Name: "sluice", SHA256: strings.Repeat("0", 64)}, Pack: receipt.AnsweringPack{Name: "pack", Version: "1", SHA256: strings.Repeat("1", 64)}}
	files := map[uuid.UUID][]byte{}
	for _, name := range cited {
		data, err := os.ReadFile(filepath.Join("../../examples/documents", name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		f := receipt.CitedFile{Name: name, Language: "en", Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
		parsed, err := parseFile(t.Context(), f, data)
		if err != nil {
			t.Fatal(err)
		}
		f.MediaType = parsed.MediaType
		sections := text.Sections(parsed, text.SectionTokens)
		s := sections[len(sections)-1]
		start := strings.LastIndexByte(s.Text[:len(s.Text)-20], ' ') + 1
		boxes, err := text.Boxes(s.Layout, s.Text, start, len(s.Text))
		if err != nil {
			t.Fatal(err)
		}
		c := receipt.CitedQuote{Document: name, DocumentID: uuid.New(), Version: uuid.New(), File: f, Section: s.Ordinal, Start: start, End: len(s.Text),
			Quote: s.Text[start:], Page: s.PageAt(start), Boxes: receipt.Boxes(boxes)}
		if pdf := strings.HasSuffix(name, ".pdf"); pdf != (len(c.Boxes) > 0) || pdf != (c.Page > 0) {
			t.Fatalf("%s has page %d and %d boxes", name, c.Page, len(c.Boxes))
		}
		out.Citations = append(out.Citations, c)
		files[c.Version] = data
	}
	return out, files
}

func signed(t *testing.T, s *receipt.Signer, r receipt.Receipt) []byte {
	t.Helper()
	data, err := s.Sign(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func prove(t *testing.T, r receipt.Receipt, files map[uuid.UUID][]byte) []receipt.Proof {
	t.Helper()
	proofs, err := r.Prove(t.Context(), receipt.Sources{Parse: parseFile, Bytes: func(_ context.Context, c receipt.CitedQuote) ([]byte, error) {
		if data, ok := files[c.Version]; ok {
			return data, nil
		}
		return nil, errors.New("it is not stored any more")
	}})
	if err != nil {
		t.Fatal(err)
	}
	return proofs
}

// mutate changes, inserts or removes one byte.
func mutate(r *rand.Rand, data []byte) []byte {
	at, b := r.IntN(len(data)), byte(r.Uint32())
	switch r.IntN(3) {
	case 0:
		out := slices.Clone(data)
		for b == data[at] {
			b = byte(r.Uint32())
		}
		out[at] = b
		return out
	case 1:
		return slices.Insert(slices.Clone(data), r.IntN(len(data)+1), b)
	}
	return slices.Delete(slices.Clone(data), at, at+1)
}

const mutations = 10_000

func TestAnAnswerIsProved(t *testing.T) {
	said, files := answered(t)
	signer := signerOf(t, 'a')
	r, err := receipt.Open(signed(t, signer, said), signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prove(t, r, files) {
		if !p.Proved() || p.Problem != "" {
			t.Errorf("%s is not proved: %s", p.Document, p.Problem)
		}
	}
}

func TestNoChangeOfAReceiptPasses(t *testing.T) {
	said, _ := answered(t)
	signer := signerOf(t, 'a')
	data := signed(t, signer, said)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range mutations {
		changed := mutate(random, data)
		if _, err := receipt.Open(changed, signer.Public()); err == nil {
			t.Fatalf("mutation %d is accepted: %s", i, changed)
		}
	}
	// Changes that a JSON parser ignores.
	for name, change := range map[string]func(string) string{
		"white space":     func(s string) string { return strings.Replace(s, `":`, `": `, 1) },
		"no line's end":   func(s string) string { return strings.TrimSuffix(s, "\n") },
		"two line's ends": func(s string) string { return s + "\n" },
		"an escape":       func(s string) string { return strings.Replace(s, "<here>", "\\u003chere>", 1) },
		"a capital":       func(s string) string { return strings.Replace(s, `"answer"`, `"Answer"`, 1) },
		"a member twice": func(s string) string {
			return strings.Replace(s, `"supported":true`, `"supported":true,"supported":true`, 1)
		},
		"an unknown member": func(s string) string { return strings.Replace(s, `"uncited"`, `"more":1,"uncited"`, 1) },
		"a number":          func(s string) string { return strings.Replace(s, `"section":`, `"section":0e0,"section":`, 1) },
		"another document":  func(s string) string { return s + s },
		"nothing":           func(string) string { return "" },
	} {
		changed := change(string(data))
		if changed == string(data) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := receipt.Open([]byte(changed), signer.Public()); err == nil {
			t.Errorf("%s: is accepted", name)
		}
	}
}

func TestNoChangeOfAKeyPasses(t *testing.T) {
	said, _ := answered(t)
	signer := signerOf(t, 'a')
	data := signed(t, signer, said)
	file := []byte(signer.Public()[0].String() + "\n")
	random := rand.New(rand.NewPCG(3, 4))
	opens := func(file []byte) bool {
		keys, err := receipt.ParsePublic(string(file))
		if err != nil {
			return false
		}
		_, err = receipt.Open(data, keys)
		return err == nil
	}
	if !opens(file) {
		t.Fatal("the key does not open its receipt")
	}
	for i := range mutations {
		if changed := mutate(random, file); opens(changed) {
			t.Fatalf("mutation %d is accepted: %q", i, changed)
		}
	}
}

func TestNoChangeOfAFilePasses(t *testing.T) {
	said, files := answered(t)
	random := rand.New(rand.NewPCG(5, 6))
	for i := range mutations {
		c := said.Citations[i%len(said.Citations)]
		r := said
		r.Citations = []receipt.CitedQuote{c}
		proofs, err := r.Prove(t.Context(), receipt.Sources{
			Bytes: func(context.Context, receipt.CitedQuote) ([]byte, error) {
				return mutate(random, files[c.Version]), nil
			},
			Parse: func(context.Context, receipt.CitedFile, []byte) (schema.Parsed, error) {
				t.Error("a file that was changed is parsed")
				return schema.Parsed{}, errors.New("changed")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if p := proofs[0]; p.FileProved || p.TextProved || p.PlaceProved || !strings.Contains(p.Problem, "was changed") {
			t.Fatalf("mutation %d of %s: %+v", i, c.Document, p)
		}
	}
}

// TestWhatIsNotSoIsNotProved: a signature does not prove what the bytes do not say.
func TestWhatIsNotSoIsNotProved(t *testing.T) {
	said, files := answered(t)
	for name, of := range map[string]struct {
		change  func(*receipt.CitedQuote)
		text    bool
		problem string
	}{
		"another section": {func(c *receipt.CitedQuote) { c.Section = 9999 }, false, "not at bytes"},
		"other bytes":     {func(c *receipt.CitedQuote) { c.Start, c.End = c.Start-1, c.End-1 }, false, "not at bytes"},
		"other words":     {func(c *receipt.CitedQuote) { c.Quote = strings.Repeat("x", len(c.Quote)) }, false, "not in the file's text"},
		"another page":    {func(c *receipt.CitedQuote) { c.Page++ }, true, "page"},
		"another box": {func(c *receipt.CitedQuote) {
			c.Boxes = append(slices.Clone(c.Boxes), receipt.Box{Page: 1, Right: 1, Top: 1})
		}, true, "other boxes"},
		"another size":    {func(c *receipt.CitedQuote) { c.File.Bytes++ }, false, "was changed"},
		"another version": {func(c *receipt.CitedQuote) { c.Version = uuid.New() }, false, "not stored any more"},
	} {
		for i := range said.Citations {
			r := said
			r.Citations = slices.Clone(said.Citations)
			of.change(&r.Citations[i])
			signer := signerOf(t, 'a')
			opened, err := receipt.Open(signed(t, signer, r), signer.Public())
			if err != nil {
				t.Fatal(name, err)
			}
			for j, p := range prove(t, opened, files) {
				if j != i {
					if !p.Proved() {
						t.Errorf("%s of citation %d: citation %d is not proved: %s", name, i, j, p.Problem)
					}
					continue
				}
				if p.Proved() || p.TextProved != of.text || !strings.Contains(p.Problem, of.problem) {
					t.Errorf("%s of %s: %+v", name, p.Document, p)
				}
			}
		}
	}
}

func TestWhatNoReceiptSaysIsNotSigned(t *testing.T) {
	said, _ := answered(t)
	for name, change := range map[string]func(*receipt.Receipt){
		"no citations":    func(r *receipt.Receipt) { r.Citations = nil },
		"no boxes":        func(r *receipt.Receipt) { r.Citations[1].Boxes = nil },
		"no time":         func(r *receipt.Receipt) { r.AnsweredAt = "" },
		"no UTF-8":        func(r *receipt.Receipt) { r.Answer = "\xff" },
		"a quote's bytes": func(r *receipt.Receipt) { r.Citations[0].End++ },
		"no hash":         func(r *receipt.Receipt) { r.Citations[0].File.SHA256 = "00" },
		"a section":       func(r *receipt.Receipt) { r.Citations[0].Section = -1 },
	} {
		r := said
		r.Citations = slices.Clone(said.Citations)
		change(&r)
		if data, err := signerOf(t, 'a').Sign(r); err == nil {
			t.Errorf("%s: is signed: %s", name, data)
		}
	}
}

// TestKeysAreRotated: receipts of an earlier key are verified by later signers, and those of an
// unknown key are refused.
func TestKeysAreRotated(t *testing.T) {
	said, _ := answered(t)
	before, after, other := signerOf(t, 'a'), signerOf(t, 'b', 'a'), signerOf(t, 'c')
	for _, s := range []*receipt.Signer{before, after} {
		if _, err := receipt.Open(signed(t, s, said), after.Public()); err != nil {
			t.Error(err)
		}
	}
	if _, err := receipt.Open(signed(t, after, said), before.Public()); err == nil || !strings.Contains(err.Error(), after.Public()[0].ID()) {
		t.Errorf("a key that is not trusted: %v", err)
	}
	if _, err := receipt.Open(signed(t, other, said), after.Public()); err == nil {
		t.Error("a receipt of another installation is accepted")
	}
}

func TestKeyFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "receipt.key")
	if err := receipt.MakeKey(file); err != nil {
		t.Fatal(err)
	}
	made, err := receipt.ReadSigner("SLUICE_RECEIPT_KEY", file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if err := receipt.MakeKey(file); err != nil {
		t.Fatal(err)
	}
	if again, err := receipt.ReadSigner("SLUICE_RECEIPT_KEY", file); err != nil || again.Public()[0].ID() != made.Public()[0].ID() {
		t.Errorf("another key was made: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	if none, err := receipt.ReadSigner("SLUICE_RECEIPT_KEY", ""); none != nil || err != nil {
		t.Errorf("without a file: %v, %v", none, err)
	}
	for _, bad := range []string{"", "# none\n", "c2hvcnQ=\n", "no base64\n"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		var field *schema.FieldError
		if _, err := receipt.ReadSigner("SLUICE_RECEIPT_KEY", file); !errors.As(err, &field) || field.Field != "SLUICE_RECEIPT_KEY" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestMembersAreInOrder: implementations in other languages sort the members.
func TestMembersAreInOrder(t *testing.T) {
	for _, v := range []any{receipt.Receipt{}, receipt.AnsweringPack{}, receipt.AnsweringPlan{}, receipt.CitedQuote{}, receipt.CitedFile{}, receipt.Box{}} {
		var names []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			names = append(names, f.Tag.Get("json"))
		}
		if !slices.IsSorted(names) {
			t.Errorf("%T has its members in the order %v", v, names)
		}
	}
}
