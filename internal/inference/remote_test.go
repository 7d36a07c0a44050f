package inference

// This file tests a pack whose encoder is behind an API. A scripted gateway stands in for
// llm-gateway.

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scriptedgateway returns the vector (1, 0 ...) for every text, or an error.
type scriptedgateway struct {
	asked    chan wire.RemoteEncodeRequest
	reranked chan wire.RemoteRerankRequest
	fails    *schema.RemoteError
}

func (g scriptedgateway) Encode(_ context.Context, r wire.RemoteEncodeRequest) (wire.RemoteEncodeReply, error) {
	g.asked <- r
	v := wire.Vectors{Dimension: r.Dimension, Data: make([]float32, r.Dimension*len(r.Texts))}
	for i := range r.Texts {
		v.Row(i)[0] = 1
	}
	return wire.RemoteEncodeReply{Envelope: wire.Header(), Vectors: v, Error: g.fails}, nil
}

// Rerank returns the length of each text as its score, or an error.
func (g scriptedgateway) Rerank(_ context.Context, r wire.RemoteRerankRequest) (wire.RemoteRerankReply, error) {
	g.reranked <- r
	reply := wire.RemoteRerankReply{Envelope: wire.Header(), Error: g.fails}
	for _, text := range r.Texts {
		reply.Scores = append(reply.Scores, float32(len(text)))
	}
	return reply, nil
}

func remotePack(t *testing.T) *Model {
	t.Helper()
	return packWith(t, modelpack.Addition{From: "remote:openai/m", Onto: "../../models/default", QueryPrompt: "query: ",
		Remote: modelpack.Remote{Dimension: 512, MaxTokens: 100}})
}

func packWith(t *testing.T, a modelpack.Addition) *Model {
	t.Helper()
	added, err := modelpack.Add(t.Context(), modelpack.Options{Dir: t.TempDir()}, a)
	if err != nil {
		t.Fatal(err)
	}
	return openPack(t, added.Pack.Path)
}

func TestAnEncoderBehindAnAPIIsAskedForItsTenant(t *testing.T) {
	gateway := scriptedgateway{asked: make(chan wire.RemoteEncodeRequest, 1)}
	nc, _ := serving(t, remotePack(t), ServerOptions{Gateway: gateway})
	client, tenant := modelclient.New(nc, modelclient.Options{}), schema.NewID()
	vectors, space, err := client.EncodeQuery(wire.ForTenant(t.Context(), tenant), wire.LaneInteractive, "what?", []string{"that", " "})
	if err != nil || vectors.Len() != 3 || vectors.Dimension != 512 || !strings.HasPrefix(space, "remote/openai/m/512/") {
		t.Fatalf("got %d vectors of dimension %d in %s, %v", vectors.Len(), vectors.Dimension, space, err)
	}
	asked := <-gateway.asked
	if asked.Tenant != tenant || asked.By.Model != "m" || !slices.Equal(asked.Texts, []string{"query: what?", "that", ""}) {
		t.Errorf("the gateway was asked %+v", asked)
	}
	if _, _, err := client.Encode(t.Context(), wire.LaneBulk, []string{"that"}); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("without a tenant: %v", err)
	}
	// The segmenter's own encoder still runs here.
	if scores, _, err := client.Segment(t.Context(), wire.LaneBulk, [][]string{{"Bees live in colonies.", "A queen lays the eggs."}}); err != nil || len(scores[0]) != 1 {
		t.Errorf("segmented %v, %v", scores, err)
	}
	info, err := client.Info(t.Context())
	if err != nil || !slices.Equal(info.Remote, []wire.ModelOp{wire.OpEncode}) || slices.Contains(info.Operations, wire.OpLink) {
		t.Errorf("it serves %+v, %v", info, err)
	}
}

func TestARerankerBehindAnAPIIsAskedForItsTenant(t *testing.T) {
	gateway := scriptedgateway{reranked: make(chan wire.RemoteRerankRequest, 1)}
	nc, _ := serving(t, packWith(t, modelpack.Addition{From: "remote:cohere/m", Onto: "../../models/default", Reranker: true, Remote: modelpack.Remote{MaxTokens: 100}}), ServerOptions{Gateway: gateway})
	tenant := schema.NewID()
	client := modelclient.New(nc, modelclient.Options{}).For(tenant, nil)
	scores, _, err := client.Rerank(t.Context(), wire.LaneInteractive, "what?", []string{"that", "this one"}, true)
	if err != nil || len(scores) != 2 || scores[0].Relevance != 4 || scores[1].HasAnswer != 8 || scores[1].Answer != nil {
		t.Fatalf("got %+v, %v", scores, err)
	}
	if asked := <-gateway.reranked; asked.Tenant != tenant || asked.By != (wire.RemoteModel{Provider: "cohere", Model: "m", MaxTokens: 100}) || asked.Question != "what?" {
		t.Errorf("the gateway was asked %+v", asked)
	}
	if scores, _, err := client.Score(t.Context(), wire.LaneInteractive, "what?", []string{"that"}, true); err != nil || scores[0].Answer == nil {
		t.Errorf("the pair model reads %+v, %v", scores, err)
	}
	info, err := client.Info(t.Context())
	if err != nil || !slices.Equal(info.Remote, []wire.ModelOp{wire.OpRerank}) || !info.NoRerankSpans || info.NoSpans || !slices.Contains(info.Operations, wire.OpRerank) {
		t.Errorf("it serves %+v, %v", info, err)
	}
}

func TestGatewayErrorsReachTheCaller(t *testing.T) {
	gateway := scriptedgateway{make(chan wire.RemoteEncodeRequest, 1), nil, &schema.RemoteError{Code: schema.CodeQuota, Message: "the budget has no room"}}
	nc, _ := serving(t, remotePack(t), ServerOptions{Gateway: gateway})
	_, _, err := modelclient.New(nc, modelclient.Options{}).For(schema.NewID(), nil).Encode(t.Context(), wire.LaneBulk, []string{"that"})
	if !errors.Is(err, schema.ErrQuota) || !strings.Contains(err.Error(), "no room") {
		t.Errorf("got %v", err)
	}
}

func TestAManifestWithAModelBehindAnAPIIsChecked(t *testing.T) {
	whole := `{format: 1, name: p, version: "1", licence: x, space: remote/openai/m/512, tokenizer: {file: t, sha256: s, pad: "[PAD]"},` +
		` encoder: {format: remote, provider: openai, model: m, dimension: 512, max_tokens: 100}}`
	if _, err := parseManifest([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string][2]string{
		"encoder.provider":  {"provider: openai", "provider: other"},
		"encoder.model":     {"model: m, ", ""},
		"encoder.dimension": {", dimension: 512", ""},
		"space":             {"m/512", "other/512"},
		"segmenter.encoder": {"}}$", "}, segmenter: {file: f, sha256: s, threshold: 0.5}}"},
	} {
		_, err := parseManifest([]byte(regexp.MustCompile(change[0]).ReplaceAllLiteralString(whole, change[1])))
		var wrong *schema.FieldError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
