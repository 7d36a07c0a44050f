package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// LLMTask says what a language model call is for.
type LLMTask string

// TaskAnswer answers a question from passages.
const TaskAnswer LLMTask = "answer"

// Step names one language model call of a question. Its reply is committed
// under it before the caller gets it; a repeat returns the stored reply.
type Step struct {
	Question uuid.UUID `json:"question"`
	Round    int       `json:"round"`
	Step     string    `json:"step"`
	Item     int       `json:"item"`
}

// LLMPassage is retrieved text in a call: data, never instructions.
type LLMPassage struct {
	Title    string `json:"title,omitempty"`
	Location string `json:"location,omitempty"`
	// Headings are the path of headings above it, the nearest one last.
	Headings []string `json:"headings,omitempty"`
	Text     string   `json:"text"`
}

// LLMRequest asks the gateway for one completion.
type LLMRequest struct {
	Envelope
	Tenant   uuid.UUID    `json:"tenant"`
	Step     Step         `json:"step"`
	Task     LLMTask      `json:"task"`
	Question string       `json:"question"`
	Passages []LLMPassage `json:"passages,omitempty"`
	Provider string       `json:"provider,omitempty"` // empty: the gateway's default
	Deadline time.Time    `json:"deadline,omitzero"`
}

// TenantID implements OfTenant.
func (r LLMRequest) TenantID() uuid.UUID { return r.Tenant }

// Quote is a verbatim piece of passage Passage (index into the request).
type Quote struct {
	Passage int `json:"passage"`
	Start   int `json:"start"` // bytes in the passage's text
	End     int `json:"end"`
	// Answer is the part of the quote that answers by itself, where the provider
	// reads one out of it.
	Answer QuoteAnswer `json:"answer,omitzero"`
}

// QuoteAnswer is bytes [Start, End) of a passage's text, inside a quote of it.
type QuoteAnswer struct {
	Start      int     `json:"start"`
	End        int     `json:"end"`
	Confidence float64 `json:"confidence"` // in [0, 1], that the passage has the answer
}

// LLMReply answers LLMRequest. Every quote has been checked against the
// passage's text.
type LLMReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Text      string              `json:"text"`
	Supported bool                `json:"supported"`
	Quotes    []Quote             `json:"quotes,omitempty"`
	Usage     schema.Usage        `json:"usage"`
	Repeated  bool                `json:"repeated,omitempty"` // from the ledger
}
