package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// emptySearcher finds nothing.
type emptySearcher struct{}

func (emptySearcher) Search(context.Context, string, evaluate.Topic, int, int) (evaluate.Found, error) {
	return evaluate.Found{}, nil
}

// TestFiguresOfDatasetsThatAreDoneAreKept: the results of a dataset are written, although a later
// dataset fails.
func TestFiguresOfDatasetsThatAreDoneAreKept(t *testing.T) {
	dir := t.TempDir()
	c := &evalCommand{Datasets: []string{"first", "second"}, JSON: filepath.Join(dir, "f.json"), HTML: filepath.Join(dir, "f.html")}
	datasets := []*evaluate.Dataset{
		{Name: "first", Queries: []evaluate.Topic{{ID: "1", Text: "Why?", Relevant: map[string]int{"a": 1}}}},
		{Name: "second"},
	}
	broken := errors.New("the server is gone")
	done, summaries, err := c.measure(datasets, func(d *evaluate.Dataset) (*evaluate.Results, error) {
		if d.Name == "second" {
			return nil, broken
		}
		return evaluate.Run(t.Context(), d, emptySearcher{}, evaluate.Options{Plans: []string{"p"}, Parallel: 1})
	})
	if !errors.Is(err, broken) || len(done) != 1 || len(summaries) != 1 {
		t.Errorf("error is %v, done are %d and %d", err, len(done), len(summaries))
	}
	text, err := os.ReadFile(c.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var got []evaluate.Summary
	if err := json.Unmarshal(text, &got); err != nil || len(got) != 1 || got[0].Dataset != "first" {
		t.Errorf("the figures are %.200s, %v", text, err)
	}
	if page, err := os.ReadFile(c.HTML); err != nil || !strings.Contains(string(page), "first") {
		t.Errorf("the report is %.200s, %v", page, err)
	}
}

// TestTwoFirstRunsKeepOneCollection: if two runs find no collection, only one of them can create
// it, and the other uses it.
func TestTwoFirstRunsKeepOneCollection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
		if r.Method == http.MethodPost {
			status = http.StatusConflict
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "detail": "scripted"})
	}))
	defer server.Close()
	client, err := apiclient.New(server.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	for keep, want := range map[bool]bool{true: true, false: false} {
		e := &evaluation{evalCommand: &evalCommand{Keep: keep, Language: "en"}, client: client,
			dataset: &evaluate.Dataset{Name: "tiny", Hash: strings.Repeat("0", 64)}}
		made, err := e.open(t.Context(), &evalCollection{})
		if (err == nil) != want || made && err == nil {
			t.Errorf("keep %v: made %v, %v", keep, made, err)
		}
	}
}

// TestEachSegmentationHasItsOwnCollection: a run with another segmentation does not use the
// collection that an earlier run kept.
func TestEachSegmentationHasItsOwnCollection(t *testing.T) {
	names := map[string]bool{}
	kept := schema.Segmentation{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names[r.URL.Path] = true
		_ = json.NewEncoder(w).Encode(schema.Collection{Segmentation: kept})
	}))
	defer server.Close()
	client, err := apiclient.New(server.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	open := func(by string) error {
		given, err := schema.ParseSegmentation(by)
		if err == nil {
			given, err = given.Complete()
		}
		if err != nil {
			t.Fatal(err)
		}
		e := &evaluation{evalCommand: &evalCommand{Keep: true, Language: "en"}, client: client,
			dataset: &evaluate.Dataset{Name: "tiny", Hash: strings.Repeat("0", 64)}}
		if kept == (schema.Segmentation{}) {
			kept = given
			defer func() { kept = schema.Segmentation{} }()
		}
		_, err = e.open(t.Context(), &evalCollection{segmentation: given})
		return err
	}
	for _, by := range []string{"", "segmenter", "similarity", "similarity,threshold=0.5", "sentences"} {
		if err := open(by); err != nil {
			t.Errorf("%q: %v", by, err)
		}
	}
	if len(names) != 4 || !names["/v1/collections/eval-tiny-en-000000000000"] {
		t.Errorf("collections are %v", names)
	}
	kept = schema.Segmentation{By: schema.BySentences, Sentences: 5, MaxTokens: 400}
	if err := open("sentences"); err == nil || !strings.Contains(err.Error(), "sentences=5") {
		t.Errorf("a collection that was rebuilt: %v", err)
	}
}

// TestEachPlanSearchesDocumentsCutForIt: plans for the same segmentation share a collection. The
// error for an unknown name lists the known ones. --segmentation applies to all plans.
func TestEachPlanSearchesDocumentsCutForIt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(api.Page[schema.Plan]{Items: []schema.Plan{
			{Name: "usual", Default: true}, {Name: "other"},
			{Name: "pairs", Segmentation: &schema.Segmentation{By: schema.BySentences}},
		}})
	}))
	defer server.Close()
	client, err := apiclient.New(server.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	plans := func(segmentation string, names ...string) (*evaluation, []*evalCollection, error) {
		c := &evalCommand{Segmentation: segmentation}
		s, err := c.segmentation()
		if err != nil {
			t.Fatal(err)
		}
		e := &evaluation{evalCommand: c, client: client, segmentation: s, options: evaluate.Options{Plans: names, Parallel: 1}}
		collections, err := e.plans(t.Context())
		return e, collections, err
	}
	e, collections, err := plans("", "", "pairs", "other")
	if err != nil || len(collections) != 2 || e.collections["usual"] != collections[0] || e.collections["other"] != collections[0] || e.collections["pairs"] != collections[1] ||
		collections[0].segmentation.By != schema.BySegmenter || collections[1].segmentation.Sentences != schema.ChunkSentences {
		t.Errorf("collections are %+v, %v", e.collections, err)
	}
	if want := []string{"usual", "pairs", "other"}; !slices.Equal(e.options.Plans, want) {
		t.Errorf("plans are %q, not %q", e.options.Plans, want)
	}
	if e, collections, err := plans("sentences,sentences=3", "usual", "pairs"); err != nil || len(collections) != 1 || e.collections["usual"].segmentation.Sentences != 3 {
		t.Errorf("with one segmentation for all, collections are %+v, %v", e.collections, err)
	}
	if _, _, err := plans("", "paris"); err == nil || !strings.Contains(err.Error(), `"paris"`) || !strings.Contains(err.Error(), "usual, other, pairs") {
		t.Errorf("a wrong name: %v", err)
	}
	if _, _, err := plans("", "", "usual"); err == nil {
		t.Error("the default plan was taken twice")
	}
}
