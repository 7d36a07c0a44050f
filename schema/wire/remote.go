package wire

// Messages between the model server and the gateway, about models behind an API that a pack has in
// place of a graph.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// TaskEncode is a call to an encoder behind an API, in the ledger: no LLMRequest asks for it.
const TaskEncode LLMTask = "encode"

// TaskRerank says the same of a call to a reranker behind an API.
const TaskRerank LLMTask = "rerank"

// RemoteModel is a model behind an API.
type RemoteModel struct {
	Provider  string `json:"provider"` // which API
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`      // of a text; what is longer is cut
	Batch     int    `json:"batch,omitempty"` // most texts of a call; 0: the gateway's default
}

// RemoteEncodeRequest asks the gateway for the vectors of texts.
type RemoteEncodeRequest struct {
	Envelope
	Tenant   uuid.UUID   `json:"tenant"` // who pays
	Lane     Lane        `json:"lane"`
	Deadline time.Time   `json:"deadline,omitzero"`
	By       RemoteModel `json:"by"`
	// Dimension is what the vectors must have. Shorten has the server asked for it, for models that
	// make vectors of any.
	Dimension int      `json:"dimension"`
	Shorten   bool     `json:"shorten,omitempty"`
	Texts     []string `json:"texts"` // with their prompts; one that is blank gets a zero vector
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
	Texts    []string    `json:"texts"` // one that is blank is not sent, and scores least
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

// LowestScore is what a text without a word gets for every score: below all that a model gives, and
// as a logit it is a probability of 0 in float32.
const LowestScore = -100

type tenantKey struct{}

// ForTenant gives a context that says for which tenant models are asked: its share of the model
// server is used, and it pays for what models behind an API cost.
func ForTenant(ctx context.Context, tenant uuid.UUID) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf is the tenant of ForTenant; uuid.Nil: ctx has none.
func TenantOf(ctx context.Context) uuid.UUID {
	tenant, _ := ctx.Value(tenantKey{}).(uuid.UUID)
	return tenant
}

// RemoteOpenAI is the provider of encoders: servers with OpenAI's embeddings.
const RemoteOpenAI = "openai"

// Providers of rerankers. RemoteCohere has scores from 0 to 1: Cohere, Jina, vLLM. RemoteLlamaCPP
// is the same API with logits, as llama.cpp gives them; RemoteTEI is Text Embeddings Inference.
const (
	RemoteCohere   = "cohere"
	RemoteLlamaCPP = "llamacpp"
	RemoteTEI      = "tei"
)

// RemoteRerankers are the providers of rerankers.
func RemoteRerankers() []string { return []string{RemoteCohere, RemoteLlamaCPP, RemoteTEI} }

// MaxRemoteDimension bounds the vectors of encoders behind an API.
const MaxRemoteDimension = 4096

// RemoteSpace begins the name of the space of an encoder's vectors; it is the name, unless
// something follows behind a slash.
func RemoteSpace(provider, model string, dimension int) string {
	return fmt.Sprintf("remote/%s/%s/%d", provider, model, dimension)
}
