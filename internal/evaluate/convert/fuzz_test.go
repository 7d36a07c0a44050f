package convert

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// FuzzConvert: any file is either refused with an error, and nothing is left behind, or converted
// to a folder that sluice eval can read.
func FuzzConvert(f *testing.F) {
	seeds, err := filepath.Glob(filepath.Join("testdata", "*.*"))
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no files to begin with: %v", err)
	}
	for _, path := range seeds {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for format := range len(formats) + 1 {
			f.Add(text, uint8(format), false)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, format uint8, scope bool) {
		o := Options{Format: Auto, Folder: filepath.Join(t.TempDir(), "out", "set"), Others: 1, Limit: 2, Scope: scope}
		if i := int(format) % (len(formats) + 1); i > 0 {
			o.Format = formats[i-1].name
		}
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		o.Sources = []string{path}
		done, err := Run(t.Context(), o)
		remaining, _ := os.ReadDir(filepath.Dir(o.Folder))
		if err != nil {
			if len(remaining) > 0 {
				t.Errorf("%v is left after %v", remaining, err)
			}
			return
		}
		if len(remaining) != 1 || done.Questions == 0 {
			t.Errorf("%+v was written, and beside it is %v", done, remaining)
		}
		if done.WithDocuments == 0 && (done.WithAnswers == 0 || len(done.Splits) > 0) {
			return // only unanswerable questions, or judgements without relevance, are no set
		}
		split := "test"
		if len(done.Splits) > 0 && format == uint8(len(formats)) {
			split = done.Splits[0]
		}
		if _, err := evaluate.ReadDataset(o.Folder, split); err != nil {
			t.Errorf("%s was written as %+v, and is not read: %v", o.Format, done, err)
		}
	})
}
