package llm

// Rerankers behind an API: Cohere's rerank, also of Jina, vLLM and llama.cpp, and that of Text
// Embeddings Inference.

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// rerankBatch is how many texts a call has if the pack does not say.
const rerankBatch = 32

// cohereAddress is the address of Cohere's own server.
const cohereAddress = "https://api.cohere.com/v2"

// Rerank scores texts for a question. Errors are returned in the reply.
func (x *RemoteModels) Rerank(ctx context.Context, r wire.RemoteRerankRequest) wire.RemoteRerankReply {
	reply, err := x.rerankTexts(ctx, r)
	if err != nil {
		return RerankFailure(remote(err))
	}
	return reply
}

// RerankFailure is the reply that carries an error.
func RerankFailure(e *schema.RemoteError) wire.RemoteRerankReply {
	return wire.RemoteRerankReply{Envelope: wire.Header(), Error: e}
}

func (x *RemoteModels) rerankTexts(ctx context.Context, r wire.RemoteRerankRequest) (wire.RemoteRerankReply, error) {
	reply := wire.RemoteRerankReply{Envelope: wire.Header(), Scores: make([]float32, len(r.Texts))}
	switch {
	case !slices.Contains(wire.RemoteRerankers(), r.By.Provider):
		return reply, schema.Invalid("by.provider", "this gateway has no reranker of the provider %q, only of %s", r.By.Provider, strings.Join(wire.RemoteRerankers(), ", "))
	case r.By.Model == "" || r.By.MaxTokens < 1 || r.By.Batch < 0:
		return reply, schema.Invalid("by", "%+v is not a model", r.By)
	case strings.TrimSpace(r.Question) == "":
		return reply, schema.Invalid("question", "is empty")
	}
	own := ""
	if r.By.Provider == wire.RemoteCohere {
		own = cohereAddress
	}
	e, err := x.rerank.at("reranker", r.By.Model, own, x.options.Timeout)
	if err != nil {
		return reply, err
	}
	question, _ := truncateTokens(r.Question, r.By.MaxTokens)
	var texts []string
	texts, reply.Truncated = truncateAll(r.Texts, r.By.MaxTokens)
	longest := 0
	for i, s := range texts {
		longest += tokenBound(s) + tokenBound(question)
		reply.Scores[i] = wire.LowestScore
	}
	j := job{tenant: r.Tenant, lane: r.Lane, task: wire.TaskRerank, by: r.By, deadline: r.Deadline, price: Price{Input: x.options.RerankPrice}}
	reply.Usage, err = x.inBatches(ctx, e, j, longest, texts, cmp.Or(r.By.Batch, rerankBatch), func(ctx context.Context, batch []int) (int, error) {
		return e.rerankBatch(ctx, r.By.Provider, question, texts, batch, reply.Scores)
	})
	return reply, err
}

// reranked is the score of a text, under either name, with the text's index in the call.
type reranked struct {
	Index     *int     `json:"index"`
	Relevance *float64 `json:"relevance_score"`
	Score     *float64 `json:"score"`
}

// rerankReply is a list of scores, or an object that contains one.
type rerankReply struct {
	Results []reranked
	Tokens  int
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *rerankReply) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &r.Results) == nil {
		return nil
	}
	var object struct {
		Results []reranked `json:"results"`
		Usage   struct {
			Total int `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	r.Results, r.Tokens = object.Results, object.Usage.Total
	return nil
}

// rerankBatch makes one call and writes its scores, as logits, to their places in into. It returns
// the tokens to pay for.
func (e remoteEndpoint) rerankBatch(ctx context.Context, provider, question string, texts []string, batch []int, into []float32) (tokens int, err error) {
	sent := make([]string, len(batch))
	for i, at := range batch {
		sent[i] = texts[at]
	}
	var request any = struct {
		Model     string   `json:"model"`
		Query     string   `json:"query"`
		Documents []string `json:"documents"`
		TopN      int      `json:"top_n"`
	}{e.model, question, sent, len(sent)}
	if provider == wire.RemoteTEI {
		request = struct {
			Query    string   `json:"query"`
			Texts    []string `json:"texts"`
			Raw      bool     `json:"raw_scores"`
			Truncate bool     `json:"truncate"`
		}{question, sent, true, true}
	}
	var reply rerankReply
	if err := e.post(ctx, "rerank", request, &reply); err != nil {
		return 0, err
	}
	if tokens = reply.Tokens; tokens <= 0 {
		tokens = countTexts(sent) + len(sent)*text.CountTokens(question)
	}
	if len(reply.Results) != len(batch) {
		return tokens, configError("%s gave %d scores for %d texts", e.address, len(reply.Results), len(batch))
	}
	placed := make(receivedResults, len(batch))
	for _, x := range reply.Results {
		score := x.Relevance
		if provider == wire.RemoteTEI {
			score = x.Score
		}
		switch {
		case !placed.markReceived(x.Index):
			return tokens, configError("%s does not say which score belongs to which text: index must have each number from 0 to %d once", e.address, len(batch)-1)
		case score == nil:
			return tokens, configError("%s gave no score for a text: check that %s speaks the API of %s", e.address, e.urlSetting, provider)
		case provider == wire.RemoteCohere && !(*score >= 0 && *score <= 1):
			return tokens, configError("model %s at %s gives the score %g, which is not from 0 to 1: name the provider %s for servers that give logits", e.model, e.address, *score, wire.RemoteLlamaCPP)
		}
		into[batch[*x.Index]] = float32(logitOf(provider, *score))
	}
	return tokens, nil
}

// sureScore is the least distance of a probability from 0 and 1, which keeps its logit finite.
const sureScore = 1e-6

func logitOf(provider string, score float64) float64 {
	if provider == wire.RemoteCohere {
		score = min(max(score, sureScore), 1-sureScore)
		score = math.Log(score / (1 - score))
	}
	return min(max(score, wire.LowestScore), -wire.LowestScore)
}
