package store_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// The stored text equals the given one, even if several statements write it.
func TestWrittenText(t *testing.T) {
	f := setUp(t, store.Options{})
	long := strings.TrimSuffix(strings.Repeat("heron ", 800_000), " ") // half of the size of a batch
	w := &written{name: "a", title: "birds", body: "first/second|" + long + "|" + long + "/third"}
	docs := f.prepare(t, f.a, f.collection, w)
	d := &docs[0]
	paths := [][]string{{`a "quoted" name`, `back\slash`, "NULL", "", "{x,y}", "Übersicht"}, nil, {"one"}}
	pages := [][]schema.PageMark{{{Start: 0, Page: 1}, {Start: 6, Page: 3}}, nil, {{Start: 0, Page: 9}}}
	for i := range d.Text.Sections {
		d.Text.Sections[i].HeadingPath, d.Text.Sections[i].Pages = paths[i], pages[i]
	}
	r := rand.New(rand.NewPCG(1, 2))
	var flat []float32
	for range d.Text.Passages() {
		flat = append(flat, unit(r)...)
	}
	d.Vectors = batch.NewVectors(space, dimension, flat)
	if out, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(out) > 0 {
		t.Fatalf("outcomes %+v, %v", out, err)
	}
	row := 0
	for i, sec := range d.Text.Sections {
		of := func(column string) string { return `SELECT ` + column + ` FROM sections WHERE id = $1` }
		if got := one[[]string](t, f, f.a, of("heading_path"), sec.ID); !slices.Equal(got, paths[i]) {
			t.Errorf("section %d has the path %q, must be %q", i, got, paths[i])
		}
		if got := one[string](t, f, f.a, of("body"), sec.ID); got != sec.Text {
			t.Errorf("section %d has %d bytes of text, of %d", i, len(got), len(sec.Text))
		}
		var marks []schema.PageMark
		starts, numbers := one[[]int](t, f, f.a, of("page_starts"), sec.ID), one[[]int](t, f, f.a, of("page_numbers"), sec.ID)
		for n := range starts {
			marks = append(marks, schema.PageMark{Start: starts[n], Page: numbers[n]})
		}
		if !slices.Equal(marks, pages[i]) {
			t.Errorf("section %d has the pages %v, must be %v", i, marks, pages[i])
		}
		for _, p := range sec.Passages {
			got := one[string](t, f, f.a, `SELECT format('%s %s %s %s %s %s', section_id, version_id, ordinal, start_byte, end_byte, tokens) FROM passages WHERE id = $1`, p.ID)
			if want := fmt.Sprint(sec.ID, " ", w.version, " ", p.Ordinal, " ", p.Start, " ", p.End, " ", p.Tokens); got != want {
				t.Errorf("passage %d of section %d is %s, must be %s", p.Ordinal, i, got, want)
			}
			vector := one[[]float32](t, f, f.a, fmt.Sprintf(`SELECT embedding::real[] FROM vectors_%d WHERE passage_id = $1`, dimension), p.ID)
			if !reflect.DeepEqual(vector, d.Vectors.Row(row)) {
				t.Errorf("the vector of passage %d of section %d is %v..., must be %v...", p.Ordinal, i, vector[:3], d.Vectors.Row(row)[:3])
			}
			row++
		}
	}
}

// Many versions without postings are written as several segments in parallel.
func TestBackfillOfMany(t *testing.T) {
	f := setUp(t, store.Options{})
	var list []*written
	for i := range 64 {
		list = append(list, &written{name: fmt.Sprint("doc", i), title: "birds", body: fmt.Sprintf("a heron/number%d", i)})
	}
	f.write(t, f.a, f.collection, list...)
	execAs(t, f, f.a, `DELETE FROM lexical_entries`)
	execAs(t, f, f.a, `DELETE FROM lexical_pages`)
	execAs(t, f, f.a, `DELETE FROM lexical_segments`)
	if done, left, err := f.BackfillLexical(t.Context(), f.a.Tenant, f.collection, 256); done != 64 || left != 0 || err != nil {
		t.Fatalf("%d done, %d left, %v", done, left, err)
	}
	segments, entries := one[int](t, f, f.a, `SELECT count(*) FROM lexical_segments`), one[int](t, f, f.a, `SELECT count(*) FROM lexical_entries`)
	if segments < 1 || segments > 4 || entries != 64 {
		t.Errorf("%d segments, %d entries", segments, entries)
	}
	x := newIndex(f)
	expect(t, x, f.a, f.collection, "heron", list...)
	expect(t, x, f.a, f.collection, "number63", list[63])
}
