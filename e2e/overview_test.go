package e2e

// This file checks the output of `sluice overview` for several folders.

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// overview has the fields of `sluice overview --json` that are tested here.
type overview struct {
	Documents int
	Types     []struct {
		MediaType string `json:"media_type"`
		Name      string
		Documents int
		Bytes     int64
	}
	Titles     []struct{ Document, Title string }
	Unreadable int
	Questions  []struct {
		Question, Answer string
		Citations        []schema.Citation
	}
}

// testOverview needs the collection of testExamples.
func testOverview(t *testing.T, s *server) {
	t.Run("Examples", func(t *testing.T) {
		o := overviewOf(t, s, "examples")
		if o.Documents != len(documents(t, s, "examples")) || len(o.Types) < 5 || len(o.Titles) != 10 || len(o.Questions) != 3 {
			t.Errorf("%+v", o)
		}
		checkQuestions(t, o)
	})
	t.Run("MixedTypes", func(t *testing.T) {
		folder := t.TempDir()
		for _, name := range []string{"sites/visitor-guide-stannick.txt", "handbook/01-working-hours.md", "contracts/terms-of-sale.html",
			"reports/safety-report-2024.pdf", "minutes/operations-meeting-2025-09-11.docx"} {
			copyFile(t, filepath.Join(s.repository, "examples", "documents", name), filepath.Join(folder, filepath.Base(name)))
		}
		if err := os.WriteFile(filepath.Join(folder, "broken.pdf"), []byte("%PDF-1.7\nno more"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.sluice(t, "ingest", folder, "-c", "mixed", "--wait")
		o := overviewOf(t, s, "mixed")
		var types []string
		for _, ty := range o.Types {
			types = append(types, ty.Name)
		}
		slices.Sort(types)
		want := []string{"HTML", "Markdown", "PDF", "Word (DOCX)", "text"}
		if !slices.Equal(types, want) || o.Documents != 6 || o.Unreadable != 1 || len(o.Titles) != 5 || len(o.Questions) != 3 {
			t.Errorf("types %q, want %q; %+v", types, want, o)
		}
		checkQuestions(t, o)
		// The output for people.
		s.sluice(t, "overview", "-c", "mixed", "--titles", "2").ok(t).
			has(t, "6 documents", "1 of them not readable", "2  PDF", "... and 3 more", o.Questions[0].Question)
	})
	t.Run("German", func(t *testing.T) {
		o := overviewOfTexts(t, s, "german", map[string]string{
			"vertrag.txt": "Der Mietvertrag\n\nDie Kündigungsfrist beträgt drei Monate zum Ende eines Quartals. Die Kaution ist auf ein Konto der " +
				"Vermieterin zu überweisen, und sie wird nach dem Auszug mit den Zinsen zurückgezahlt.",
			"verein.txt": "Der Verein\n\nDer Ruderverein Blaustein wurde im Jahr 1923 von Fischern gegründet. Er hat heute mehr als 200 Mitglieder, die sich " +
				"auf dem See und in der Halle treffen und auch an Wettkämpfen teilnehmen.",
		})
		if len(o.Questions) == 0 {
			t.Error("no question is found")
		}
		for _, q := range o.Questions {
			if first, _, _ := strings.Cut(q.Question, " "); !slices.Contains([]string{"Wann", "Wie", "Was"}, first) {
				t.Errorf("%q is not German", q.Question)
			}
		}
		checkQuestions(t, o)
	})
	t.Run("UnknownLanguage", func(t *testing.T) {
		o := overviewOfTexts(t, s, "finnish", map[string]string{
			"kirjasto.txt": "Kirjasto perustettiin vuonna 1898. Opastettu kierros kestää 45 minuuttia ja maksaa 12 euroa.",
		})
		if o.Documents != 1 || len(o.Questions) != 0 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("Empty", func(t *testing.T) {
		s.sluice(t, "collections", "create", "nothing").ok(t)
		if o := overviewOf(t, s, "nothing"); o.Documents != 0 || len(o.Questions) != 0 {
			t.Errorf("%+v", o)
		}
		s.sluice(t, "overview", "-c", "nothing").ok(t).has(t, "0 documents")
		s.sluice(t, "overview", "-c", "no-such-collection").fails(t, "not found")
	})
}

func overviewOf(t *testing.T, s *server, collection string) overview {
	t.Helper()
	return into[overview](t, s.sluice(t, "overview", "-c", collection, "--json").ok(t))
}

func overviewOfTexts(t *testing.T, s *server, collection string, files map[string]string) overview {
	t.Helper()
	s.sluice(t, "ingest", write(t, files), "-c", collection, "--wait").ok(t)
	return overviewOf(t, s, collection)
}

// checkQuestions checks that every question has an answer and a citation, and occurs once.
func checkQuestions(t *testing.T, o overview) {
	t.Helper()
	var seen []string
	for _, q := range o.Questions {
		t.Logf("%s %s", q.Question, q.Answer)
		if len(strings.Fields(q.Answer)) < 5 || q.Answer == schema.NoAnswer || len(q.Citations) == 0 || slices.Contains(seen, q.Question) {
			t.Errorf("%+v", q)
		}
		seen = append(seen, q.Question)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
