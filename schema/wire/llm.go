package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// LLMTask says what a language model call is for.
type LLMTask string

const (
	// TaskAnswer answers a question from passages.
	TaskAnswer LLMTask = "answer"
	// TaskRewrite rephrases a question, so that a search finds more.
	TaskRewrite LLMTask = "rewrite"
	// TaskRelevance, TaskReflect and TaskCritic rate each passage from 0 to 1: how relevant it is
	// to the question, whether that judgement is right, and a critic's opinion of both (ChunkRAG).
	// Earlier judgements come with the passages.
	TaskRelevance LLMTask = "relevance"
	TaskReflect   LLMTask = "reflect"
	TaskCritic    LLMTask = "critic"
	// TaskFilter returns 1 for a passage that helps to answer, else 0 (SAKI-RAG).
	TaskFilter LLMTask = "filter"
	// TaskFeedback judges LLMRequest.Answer, which was made from the passages (SAGE).
	// TaskBackground answers from the model's own knowledge, without passages (FIT-RAG).
	TaskFeedback   LLMTask = "feedback"
	TaskBackground LLMTask = "background"
	// TaskCorrectness judges whether LLMRequest.Answer is right, by the right answers in
	// LLMRequest.References and without passages. Only language models do it.
	TaskCorrectness LLMTask = "correctness"
	// TaskRead finds the parts of each passage that may answer. Only the provider extractive does
	// it, with the model pack's reranker.
	TaskRead LLMTask = "read"
	// TaskWho asks which provider and model would answer. No model is called: the reply has only a
	// usage that names them.
	TaskWho LLMTask = "who"
)

// Judges reports whether a task returns a score for each passage.
func (t LLMTask) Judges() bool {
	return t == TaskRelevance || t == TaskReflect || t == TaskCritic || t == TaskFilter
}

// Step names one language model call of a question. Its reply is committed under the step before
// the caller gets it, and a repeated call returns the stored reply. Calls of a search have no
// question: their usage is recorded, but not their replies.
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
	// Judged are the judgements so far, in the order in which they were made.
	Judged []float64 `json:"judged,omitempty"`
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
	// Versions are the versions that the passages are from. A reply is cached only if they are
	// given, and is removed with them.
	Versions []uuid.UUID `json:"versions,omitempty"`
	Deadline time.Time   `json:"deadline,omitzero"`
	// Choices make it a multiple-choice question. The reply's Choice is one of them.
	Choices []string `json:"choices,omitempty"`
	// Risk is the highest probability, from 0 to 1, that a given answer may have of being wrong;
	// nil: the one that the model pack was calibrated for.
	Risk *float64 `json:"risk,omitempty"`
	// References are the right answers by which TaskCorrectness judges.
	References []string `json:"references,omitempty"`
	// Answer is the answer that TaskFeedback and TaskCorrectness judge. Confidence is the
	// confidence in it of the model that gave it, in [0, 1], if known.
	Answer     string   `json:"answer,omitempty"`
	Confidence *float64 `json:"confidence,omitempty"`
	// Prompt selects another form of answer: "explain" for an explained answer, "short" for the
	// shortest words that answer. Empty: the usual form.
	Prompt string `json:"prompt,omitempty"`
	// Trial says that this call tests a model and answers nobody. There is no stored question, so
	// the call is recorded as a search's is, without the reply. No other provider takes over,
	// because the test is of this model.
	Trial bool `json:"trial,omitempty"`
	// Stream is the subject to which the gateway sends the answer's text as LLMDelta while it is
	// generated; empty: none. Only the reply has been checked and counts.
	Stream string `json:"stream,omitempty"`
}

// LLMDelta is a part of an answer that is being generated.
type LLMDelta struct {
	Envelope
	Text string `json:"text"`
	// Restart discards the text sent before: the answer starts again.
	Restart bool `json:"restart,omitempty"`
}

// TenantID implements OfTenant.
func (r LLMRequest) TenantID() uuid.UUID { return r.Tenant }

// Quote is a verbatim part of passage Passage (index into the request).
type Quote struct {
	Passage int `json:"passage"`
	Start   int `json:"start"` // bytes in the passage's text
	End     int `json:"end"`
	// Answer is the part of the quote that answers by itself, if the provider extracts one.
	Answer QuoteAnswer `json:"answer,omitzero"`
}

// QuoteAnswer is bytes [Start, End) of a passage's text, inside a quote of it. It is [0, 0) if no
// part of the quote answers by itself.
type QuoteAnswer struct {
	Start      int     `json:"start"`
	End        int     `json:"end"`
	Confidence float64 `json:"confidence"` // in [0, 1], that it is right
}

// Reading is bytes [Start, End) of the text of passage Passage that may answer. Scores are logits;
// those of the same passage can be compared.
type Reading struct {
	Passage int     `json:"passage"`
	Start   int     `json:"start"`
	End     int     `json:"end"`
	Score   float64 `json:"score"`
}

// ReplySentence is bytes [Start, End) of a reply's text and the quotes that are claimed to prove
// them. The claim is not checked yet.
type ReplySentence struct {
	Start  int   `json:"start"`
	End    int   `json:"end"`
	Quotes []int `json:"quotes,omitempty"` // indices into the reply's quotes
	// Computed is the number that the sentence begins with and no quote contains.
	Computed *Computed `json:"computed,omitempty"`
}

// Computed is a number computed from figures, which are in the order of their periods.
type Computed struct {
	Operation string   `json:"operation"` // "change", "difference", "percent change", "mean" or "sum"
	Value     string   `json:"value"`
	Figures   []string `json:"figures"`
}

// Text returns the beginning of the sentence: "14.07% (percent change): ".
func (c Computed) Text() string { return c.Value + " (" + c.Operation + "): " }

// LLMReply answers LLMRequest. Every quote has been checked against the
// passage's text.
type LLMReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Text      string              `json:"text"`
	Supported bool                `json:"supported"`
	// Withheld is why an answer is not given, at the request's risk. The quotes are those of the
	// withheld answer.
	Withheld string `json:"withheld,omitempty"`
	// Features are what the confidence was computed from, by name.
	Features map[string]float64 `json:"features,omitempty"`
	Quotes   []Quote            `json:"quotes,omitempty"`
	// Sentences tile Text, if the provider states which quotes prove which sentence.
	Sentences []ReplySentence `json:"sentences,omitempty"`
	// Scores are the judgements of the passages, in [0, 1].
	Scores []float64 `json:"scores,omitempty"`
	// Readings are the results of TaskRead: none if the model pack has no graph that reads.
	Readings []Reading `json:"readings,omitempty"`
	// Choice is the number of the chosen one of the request's Choices, from 1; 0: none.
	Choice   int       `json:"choice,omitempty"`
	Feedback *Feedback `json:"feedback,omitempty"`
	// Correct is the judgement of TaskCorrectness; nil: the model's reply could not be read.
	Correct  *bool        `json:"correct,omitempty"`
	Usage    schema.Usage `json:"usage"`
	Repeated bool         `json:"repeated,omitempty"` // the reply was stored in the ledger
}

// Feedback is a judgement of an answer (SAGE, section VI).
type Feedback struct {
	Score  int `json:"score"`  // 1 to 10, of the answer
	Adjust int `json:"adjust"` // +1: more passages are needed; -1: fewer
}
