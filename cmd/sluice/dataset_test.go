package main

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/evaluate/convert"
)

func TestHelpNamesAllFormats(t *testing.T) {
	field, _ := reflect.TypeFor[datasetConvert]().FieldByName("Format")
	if help := field.Tag.Get("help"); !strings.HasPrefix(help, strings.Join(convert.FormatNames(), ", ")+";") {
		t.Errorf("the help is %q; the formats are %v", help, convert.FormatNames())
	}
}

// TestConvertWritesTheLastName: all names but the last are read, and the last is written in the
// format that eval reads.
func TestConvertWritesTheLastName(t *testing.T) {
	files := filepath.Join("..", "..", "internal", "evaluate", "convert", "testdata")
	out := filepath.Join(t.TempDir(), "set")
	none := 0
	c := &datasetConvert{Format: convert.Auto, Paths: []string{filepath.Join(files, "biencoder.json"), filepath.Join(files, "psgs_w100.tsv"), out},
		Seed: 1, Others: &none, Split: "dev"}
	if err := c.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	d, err := evaluate.ReadDataset(out, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if d.Documents != 4 || len(d.Queries) != 2 {
		t.Errorf("read %+v", d)
	}
	negative := -1
	for _, c := range []*datasetConvert{{Format: convert.Auto, Paths: []string{out}}, {Format: convert.Auto, Paths: []string{out, out}, Others: &negative}} {
		if err := c.Run(context.Background()); err == nil {
			t.Errorf("%+v is no error", c)
		}
	}
}
