package llm

// Encoders behind an API: OpenAI's embeddings, also of vLLM, Ollama, llama.cpp and Text Embeddings
// Inference.

import (
	"cmp"
	"context"
	"math"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// encodeBatch is how many texts a call has if the pack does not say.
const encodeBatch = 96

// Encode returns the vectors of texts. Errors are returned in the reply.
func (x *RemoteModels) Encode(ctx context.Context, r wire.RemoteEncodeRequest) wire.RemoteEncodeReply {
	reply, err := x.encode(ctx, r)
	if err != nil {
		return EncodeFailure(remote(err))
	}
	return reply
}

// EncodeFailure is the reply that carries an error.
func EncodeFailure(e *schema.RemoteError) wire.RemoteEncodeReply {
	return wire.RemoteEncodeReply{Envelope: wire.Header(), Error: e}
}

func (x *RemoteModels) encode(ctx context.Context, r wire.RemoteEncodeRequest) (wire.RemoteEncodeReply, error) {
	reply := wire.RemoteEncodeReply{Envelope: wire.Header(), Vectors: wire.Vectors{Dimension: r.Dimension}}
	switch {
	case r.By.Provider != wire.RemoteOpenAI:
		return reply, schema.Invalid("by.provider", "this gateway has no encoder of the provider %q, only of %s", r.By.Provider, wire.RemoteOpenAI)
	case r.By.Model == "" || r.By.MaxTokens < 1 || r.By.Batch < 0 || r.Dimension < 1 || r.Dimension > wire.MaxRemoteDimension:
		return reply, schema.Invalid("by", "%+v of dimension %d is not a model", r.By, r.Dimension)
	}
	e, err := x.embed.at("encoder", r.By.Model, openAIAddress, x.options.Timeout)
	if err != nil {
		return reply, err
	}
	var texts []string
	texts, reply.Truncated = truncateAll(r.Texts, r.By.MaxTokens)
	longest := 0
	for _, s := range texts {
		longest += tokenBound(s)
	}
	reply.Vectors.Data = make([]float32, len(texts)*r.Dimension)
	j := job{tenant: r.Tenant, lane: r.Lane, task: wire.TaskEncode, by: r.By, deadline: r.Deadline, price: Price{Input: x.options.EmbedPrice}}
	reply.Usage, err = x.inBatches(ctx, e, j, longest, texts, cmp.Or(r.By.Batch, encodeBatch), func(ctx context.Context, batch []int) (int, error) {
		return e.encodeBatch(ctx, r, texts, batch, reply.Vectors)
	})
	return reply, err
}

// encodeBatch makes one call and writes its vectors to their rows. It returns the tokens to pay
// for.
func (e remoteEndpoint) encodeBatch(ctx context.Context, r wire.RemoteEncodeRequest, texts []string, batch []int, into wire.Vectors) (tokens int, err error) {
	request := struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Format     string   `json:"encoding_format"`
		Dimensions int      `json:"dimensions,omitempty"`
	}{Model: e.model, Format: "float"}
	for _, i := range batch {
		request.Input = append(request.Input, texts[i])
	}
	if r.Shorten {
		request.Dimensions = r.Dimension
	}
	var reply struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := e.post(ctx, "embeddings", request, &reply); err != nil {
		return 0, err
	}
	if tokens = max(reply.Usage.Prompt, reply.Usage.Total); tokens <= 0 {
		tokens = countTexts(request.Input)
	}
	if len(reply.Data) != len(batch) {
		return tokens, configError("%s gave %d vectors for %d texts", e.address, len(reply.Data), len(batch))
	}
	placed := make(receivedResults, len(batch))
	for _, d := range reply.Data {
		switch {
		case !placed.markReceived(d.Index):
			return tokens, configError("%s does not say which vector belongs to which text: data[].index must have each number from 0 to %d once", e.address, len(batch)-1)
		case len(d.Embedding) != into.Dimension:
			return tokens, configError("model %s at %s gives vectors of dimension %d, and the model pack says %d: make a pack with --dimension %[3]d, or with --shorten where the model can give %[4]d",
				e.model, e.address, len(d.Embedding), into.Dimension)
		}
		if !unit(into.Row(batch[*d.Index]), d.Embedding) {
			return tokens, configError("model %s at %s gave a vector without length or with a number that is not finite", e.model, e.address)
		}
	}
	return tokens, nil
}

// unit writes v, scaled to length 1, to into. It reports false if v has no finite, positive length.
func unit(into []float32, v []float64) bool {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	length := math.Sqrt(sum)
	if math.IsNaN(length) || math.IsInf(length, 0) || length == 0 {
		return false
	}
	for i, x := range v {
		into[i] = float32(x / length)
	}
	return true
}
