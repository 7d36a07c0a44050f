package wire

// Messages between the model server and the gateway, about models behind an API that a pack names
// in place of a graph.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// TaskEncode is a call to an encoder behind an API, in the ledger. No LLMRequest has this task.
const TaskEncode LLMTask = "encode"

// TaskRerank is the same for a reranker behind an API.
const TaskRerank LLMTask = "rerank"

// RemoteModel is a model behind an API.
type RemoteModel struct {
	Provider  string `json:"provider"` // which API
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`      // of a text; a longer one is cut
	Batch     int    `json:"batch,omitempty"` // most texts of a call; 0: the gateway's default
}

// RemoteEncodeRequest asks the gateway for the vectors of texts.
type RemoteEncodeRequest struct {
	Envelope
	Tenant   uuid.UUID   `json:"tenant"` // who pays
	Lane     Lane        `json:"lane"`
	Deadline time.Time   `json:"deadline,omitzero"`
	By       RemoteModel `json:"by"`
	// Dimension is the required dimension of the vectors. Shorten requests it from the API, for
	// models that can make vectors of any dimension.
	Dimension int      `json:"dimension"`
	Shorten   bool     `json:"shorten,omitempty"`
	Texts     []string `json:"texts"` // with their prompts; a blank text gets a zero vector
}

// TenantID implements OfTenant.
func (r RemoteEncodeRequest) TenantID() uuid.UUID { return r.Tenant }

// RemoteEncodeReply answers RemoteEncodeRequest: one unit vector per text, in order.
type RemoteEncodeReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Vectors   Vectors             `json:"vectors"`
	Truncated int                 `json:"truncated,omitempty"` // texts that were cut
	Usage     schema.Usage        `json:"usage"`
}

// RemoteRerankRequest asks the gateway how well texts answer a question.
type RemoteRerankRequest struct {
	Envelope
	Tenant   uuid.UUID   `json:"tenant"` // who pays
	Lane     Lane        `json:"lane"`
	Deadline time.Time   `json:"deadline,omitzero"`
	By       RemoteModel `json:"by"`
	Question string      `json:"question"`
	Texts    []string    `json:"texts"` // a blank text is not sent, and gets LowestScore
}

// TenantID implements OfTenant.
func (r RemoteRerankRequest) TenantID() uuid.UUID { return r.Tenant }

// RemoteRerankReply answers RemoteRerankRequest: one logit per text, in order.
type RemoteRerankReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Scores    []float32           `json:"scores,omitempty"`
	Truncated int                 `json:"truncated,omitempty"` // texts that were cut
	Usage     schema.Usage        `json:"usage"`
}

// LowestScore is every score of a text without tokens. It is below any score that a model returns,
// and as a logit it is a probability of 0 in float32.
const LowestScore = -100

type tenantKey struct{}

// ForTenant returns a context with the tenant that models are called for: the calls use its share
// of the model server, and it pays for models behind an API.
func ForTenant(ctx context.Context, tenant uuid.UUID) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf returns the tenant set by ForTenant; uuid.Nil: there is none.
func TenantOf(ctx context.Context) uuid.UUID {
	tenant, _ := ctx.Value(tenantKey{}).(uuid.UUID)
	return tenant
}

// RemoteOpenAI is the provider of encoders: servers with OpenAI's embeddings API.
const RemoteOpenAI = "openai"

// Providers of rerankers. RemoteCohere returns scores from 0 to 1: Cohere, Jina, vLLM.
// RemoteLlamaCPP is the same API with logits, as llama.cpp returns them; RemoteTEI is Text
// Embeddings Inference.
const (
	RemoteCohere   = "cohere"
	RemoteLlamaCPP = "llamacpp"
	RemoteTEI      = "tei"
)

// RemoteRerankers returns the providers of rerankers.
func RemoteRerankers() []string { return []string{RemoteCohere, RemoteLlamaCPP, RemoteTEI} }

// MaxRemoteDimension is the largest dimension of vectors of encoders behind an API.
const MaxRemoteDimension = 4096

// RemoteSpace returns the name of the space of a remote encoder's vectors. A pack may add a slash
// and more text to it.
func RemoteSpace(provider, model string, dimension int) string {
	return fmt.Sprintf("remote/%s/%s/%d", provider, model, dimension)
}
