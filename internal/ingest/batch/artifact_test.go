package batch_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
)

func TestTextSurvivesPacking(t *testing.T) {
	section := uuid.New()
	in := batch.Text{
		MediaType: "application/pdf", Title: "Über <alles>", Pages: 3, Warnings: []string{"one"},
		Sections: []batch.Section{{
			Section: schema.Section{ID: section, HeadingPath: []string{"A", "B"}, Text: "one two", Tokens: 2, Pages: []schema.PageMark{{Start: 0, Page: 2}}},
			Passages: []schema.Passage{
				{ID: uuid.New(), SectionID: section, End: 4, Tokens: 1},
				{ID: uuid.New(), SectionID: section, Ordinal: 1, Start: 4, End: 7, Tokens: 1}},
		}},
	}
	data, err := batch.Pack(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := batch.Unpack[batch.Text](data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("got %+v, want %+v", out, in)
	}
	if _, err := batch.Unpack[batch.Text](data[:len(data)/2]); err == nil {
		t.Error("half an artifact was read")
	}
}

func TestVectorsSurviveAsHalfPrecision(t *testing.T) {
	rows := []float32{0, 1, -1, 0.5, 0.123456, -0.98765}
	out := batch.NewVectors("space v1", 3, rows)
	if out.Space != "space v1" || out.Dimension != 3 || out.Len() != 2 {
		t.Fatalf("got %+v", out)
	}
	for i, want := range rows {
		if got := out.Row(i / 3)[i%3]; math.Abs(float64(got-want)) > 5e-4 {
			t.Errorf("value %d: got %g, want %g", i, got, want)
		}
	}
}

func TestWeightsSurviveAsTwoBytes(t *testing.T) {
	for _, want := range []float32{0, 0.75, 1} {
		if got := batch.Weight(batch.AppendWeight(nil, want)); math.Abs(float64(got-want)) > 1e-4 {
			t.Errorf("got %g, want %g", got, want)
		}
	}
}
