package modelpack

// This file tests a cross-encoder that is added as the pack's reranker.

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestACrossEncoderMayBeTheReranker(t *testing.T) {
	before := manifestOf(t, shipped)
	dir, added := add(t, Addition{From: models + "/cross-encoder", Onto: shipped, Reranker: true})
	d, err := readDocument(dir)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Reranker pairSection
		Detector map[string]any
	}
	if err := d.root.Decode(&m); err != nil {
		t.Fatal(err)
	}
	if r := m.Reranker; r.Format != FormatBERT || r.Tokenizer == nil || r.Goldens == nil || r.Labels != 1 || r.MaxTextTokens != 45 || !strings.HasPrefix(r.File, "reranker-") {
		t.Errorf("reranker %+v", r)
	}
	if now := manifestOf(t, dir); now.Pair == nil || now.Pair.SHA256 != before.Pair.SHA256 || m.Detector == nil {
		t.Errorf("the pair model %+v, the detector %v", now.Pair, m.Detector)
	}
	if added.Role != RoleReranker || !slices.Contains(added.Pack.Graphs, "reranker") || !slices.Contains(added.Pack.Graphs, "pair") || len(added.Pack.Sources) != 1 {
		t.Errorf("added %+v", added)
	}
	whole(t, dir)

	// The same model as the pair model too: each role has its own files.
	both, added := add(t, Addition{From: models + "/cross-encoder", Onto: dir})
	if m := manifestOf(t, both); m.Pair.File == before.Pair.File || !slices.Contains(added.Pack.Graphs, "reranker") || len(added.Pack.Sources) != 2 {
		t.Errorf("added %+v", added)
	}
	whole(t, both)

	alone, added := add(t, Addition{From: models + "/cross-encoder", Reranker: true})
	if !slices.Equal(added.Pack.Graphs, []string{"reranker"}) {
		t.Errorf("alone it has %q", added.Pack.Graphs)
	}
	whole(t, alone)
}

func TestAnEncoderIsNoReranker(t *testing.T) {
	_, err := Add(t.Context(), Options{Dir: t.TempDir()}, Addition{From: models + "/bert-mean", Reranker: true})
	var field *schema.FieldError
	if !errors.As(err, &field) || field.Field != "reranker" || !strings.Contains(field.Problem, "cross-encoder") {
		t.Errorf("got %v", err)
	}
}
