package modelpack

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestAnEncoderBehindAnAPITakesThePlaceOfThePacks(t *testing.T) {
	of := Remote{Dimension: 512, Shorten: true, MaxTokens: 8191}
	dir, added := add(t, Addition{From: "remote:openai/text-embedding-3-small", Onto: shipped, Remote: of})
	d, err := readDocument(dir)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Space   string
		Encoder remoteSection
	}
	if err := d.root.Decode(&m); err != nil {
		t.Fatal(err)
	}
	want := remoteSection{Format: "remote", Provider: "openai", Model: "text-embedding-3-small", Source: "remote:openai/text-embedding-3-small", Shorten: true, Dimension: 512, MaxTokens: 8191}
	if m.Encoder != want || m.Space != "remote/openai/text-embedding-3-small/512" {
		t.Errorf("space %s, encoder %+v", m.Space, m.Encoder)
	}
	if now := manifestOf(t, dir); now.Segmenter.Encoder == nil || now.Segmenter.Encoder.File == "" || now.Linker != nil || now.Pair == nil {
		t.Errorf("the manifest is %+v", now)
	}
	if added.Role != RoleEncoder || added.Pack.Name != "text-embedding-3-small" || added.Pack.Dimension != 512 || !slices.Contains(added.Pack.Graphs, "reranker") {
		t.Errorf("added %+v", added)
	}
	whole(t, dir)
	prompted, _ := add(t, Addition{From: "remote:openai/text-embedding-3-small", Onto: shipped, Remote: of, QueryPrompt: "query: "})
	if space := manifestOf(t, prompted).Space; !strings.HasPrefix(space, m.Space+"/") {
		t.Errorf("with a prompt the space is %s", space)
	}
}

func TestARerankerBehindAnAPITakesThePlaceOfThePacks(t *testing.T) {
	dir, added := add(t, Addition{From: "remote:cohere/rerank-v3.5", Onto: shipped, Reranker: true, Remote: Remote{MaxTokens: 4096}})
	d, err := readDocument(dir)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Space      string
		Reranker   remoteSection
		Calibrated map[string]float64
	}
	if err := d.root.Decode(&m); err != nil {
		t.Fatal(err)
	}
	want := remoteSection{Format: "remote", Provider: "cohere", Model: "rerank-v3.5", Source: "remote:cohere/rerank-v3.5", MaxQuestionTokens: 4096, MaxTextTokens: 4096}
	if m.Reranker != want || added.Role != RoleReranker || m.Space != manifestOf(t, shipped).Space {
		t.Errorf("space %s, reranker %+v, added %+v", m.Space, m.Reranker, added)
	}
	for name := range m.Calibrated {
		if isRerankerThreshold(name) {
			t.Errorf("the old reranker's %s is still there", name)
		}
	}
	whole(t, dir)
}

func TestMissingFieldsOfRemoteModelsAreNamed(t *testing.T) {
	full := Remote{Dimension: 512, MaxTokens: 512}
	for field, a := range map[string]Addition{
		"model":      {From: "remote:text-embedding-3-small", Onto: shipped, Remote: full},
		"alone":      {From: "remote:openai/m", Remote: full},
		"dimension":  {From: "remote:openai/m", Onto: shipped, Remote: Remote{MaxTokens: 512, Dimension: 1536}},
		"max-tokens": {From: "remote:openai/m", Onto: shipped, Remote: Remote{Dimension: 512}},
		"reranker":   {From: "remote:cohere/m", Onto: shipped, Remote: Remote{MaxTokens: 512}},
		"dimension ": {From: "remote:tei/m", Onto: shipped, Remote: full, Reranker: true},
		"reranker ":  {From: "remote:openai/m", Onto: shipped, Remote: full, Reranker: true},
	} {
		_, err := Add(t.Context(), Options{Dir: t.TempDir(), Dimensions: schema.VectorDimensions}, a)
		var wrong *schema.FieldError
		if !errors.As(err, &wrong) || wrong.Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
