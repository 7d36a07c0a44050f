package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

const boundaryLine = "==========\n"

func TestReadReferences(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("1/3-5/0.ref", boundaryLine+"One .\nTwo .\n"+boundaryLine+"Three .\n\nFour .\nFive .\n"+boundaryLine)
	write("2/3-5/0.ref", "One .\r\n"+boundaryLine+boundaryLine+"Two .")
	write("README", "no text")
	got, err := readReferences(dir)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d texts, %v", len(got), err)
	}
	if !slices.Equal(got[0].sentences, []string{"One .", "Two .", "Three .", "Four .", "Five ."}) || !slices.Equal(got[0].bounds, []bool{false, true, false, false}) || got[0].set != "3-5" {
		t.Errorf("the first is %+v", got[0])
	}
	if !slices.Equal(got[1].sentences, []string{"One .", "Two ."}) || !slices.Equal(got[1].bounds, []bool{true}) {
		t.Errorf("the second is %+v", got[1])
	}
	write("1/3-5/1.ref", "One .\nTwo .\n"+boundaryLine)
	if _, err := readReferences(dir); err == nil || !strings.Contains(err.Error(), "1.ref") {
		t.Errorf("a text of one segment: %v", err)
	}
	if _, err := readReferences(t.TempDir()); err == nil {
		t.Error("no texts: no error")
	}
}

func TestWaysAreComparedWithTheReference(t *testing.T) {
	texts := []reference{
		{set: "a", sentences: strings.Split("abcdefghi", ""), bounds: []bool{false, false, true, false, false, true, false, false}},
		{set: "b", sentences: strings.Split("abcd", ""), bounds: []bool{false, true, false}},
	}
	var r segmentationResult
	if err := r.measure(texts, fixedMethods(texts)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Sets, []string{"a", "b", "all"}) {
		t.Errorf("sets %v", r.Sets)
	}
	for name, want := range map[string][3]float64{ // Pk of the sets, computed by hand
		"fixed length, the set's mean": {0, 0, 0},
		"behind every sentence":        {3. / 7, 2. / 3, (3./7 + 2./3) / 2},
		"nowhere":                      {4. / 7, 1. / 3, (4./7 + 1./3) / 2},
	} {
		for i, f := range r.Is[name] {
			if diff := f.Pk - want[i]; diff > 1e-9 || diff < -1e-9 {
				t.Errorf("%s: Pk of %s is %.4f, want %.4f", name, f.Set, f.Pk, want[i])
			}
		}
	}
	if f := r.Is["behind every sentence"][0]; f.WindowDiff != 1 || f.Segments != 3 || f.Texts != 1 {
		t.Errorf("behind every sentence: %+v", f)
	}
	var out strings.Builder
	if err := r.print(&out); err != nil || !strings.Contains(out.String(), "0.571 / 0.571 (0.33)") {
		t.Errorf("printed %v:\n%s", err, out.String())
	}
}

func TestReferenceIsCutAsIngestionCuts(t *testing.T) {
	text := reference{sentences: []string{"One is here .", "Two is here .", "Three is here .", "Four is here .", "Five is here ."}, bounds: make([]bool, 4)}
	for by, want := range map[string][]bool{
		"sentences":                            {false, true, false, true},
		"similarity,threshold=0.5":             {true, false, false, true},
		"segmenter,threshold=0.5":              {false, false, false, false}, // the whole text has fewer than min_tokens
		"segmenter,threshold=0.5,min_tokens=1": {true, false, false, true},
	} {
		g, err := schema.ParseSegmentation(by)
		if err == nil {
			g, err = g.Complete()
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := text.cut([]float64{0.2, 0.5, 0.9, 0.4}, g)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", by, got, err, want)
		}
	}
}
