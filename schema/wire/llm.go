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
	// TaskRewrite words a question anew, so that a search finds more.
	TaskRewrite LLMTask = "rewrite"
	// TaskRelevance, TaskReflect and TaskCritic judge each passage by a number
	// from 0 to 1: how relevant it is to the question, whether that judgement
	// holds, and what a critic says of both (ChunkRAG). The judgements so far come
	// with the passages.
	TaskRelevance LLMTask = "relevance"
	TaskReflect   LLMTask = "reflect"
	TaskCritic    LLMTask = "critic"
	// TaskFilter says of each passage 1, it helps to answer, or 0 (SAKI-RAG).
	TaskFilter LLMTask = "filter"
	// TaskFeedback judges the answer in LLMRequest.Answer that was made from the
	// passages (SAGE); TaskBackground answers from what the model knows, without
	// passages (FIT-RAG).
	TaskFeedback   LLMTask = "feedback"
	TaskBackground LLMTask = "background"
	// TaskCorrectness judges whether the answer in LLMRequest.Answer is right, by the right
	// answers in LLMRequest.References and without passages. A language model alone does it.
	TaskCorrectness LLMTask = "correctness"
	// TaskRead names the parts of each passage that may answer. The provider extractive
	// alone does it, by the model pack's reranker.
	TaskRead LLMTask = "read"
	// TaskWho asks which provider and model would answer. Nobody is asked anything: the
	// reply has a usage that names them, and nothing else.
	TaskWho LLMTask = "who"
)

// Judges reports whether a task gives a score for each passage.
func (t LLMTask) Judges() bool {
	return t == TaskRelevance || t == TaskReflect || t == TaskCritic || t == TaskFilter
}

// Step names one language model call of a question. Its reply is committed
// under it before the caller gets it; a repeat returns the stored reply. A search
// is no question: its calls have none, and are not kept.
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
	// Judged are the judgements so far, in their order.
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
	// Versions are those that the passages are of; a reply is cached only where
	// they are known, and goes with them.
	Versions []uuid.UUID `json:"versions,omitempty"`
	Deadline time.Time   `json:"deadline,omitzero"`
	// Choices make it a multiple-choice question; the reply's Choice is one of
	// them.
	Choices []string `json:"choices,omitempty"`
	// Risk is how likely the answer may be wrong, from 0 to 1, for it to be given; nil:
	// what the model pack was calibrated to.
	Risk *float64 `json:"risk,omitempty"`
	// References are the right answers by which TaskCorrectness judges.
	References []string `json:"references,omitempty"`
	// Answer is what TaskFeedback and TaskCorrectness judge, and Confidence how sure the model that
	// gave it is that it is right, in [0, 1], where that is known.
	Answer     string   `json:"answer,omitempty"`
	Confidence *float64 `json:"confidence,omitempty"`
	// Prompt asks for an answer in another way: "explain" has it explained, "short"
	// kept to the shortest words that answer. Empty: the usual way.
	Prompt string `json:"prompt,omitempty"`
	// Trial says that a model is tried, and nobody is answered: there is no stored question, so
	// that the call is kept as a search's are, and no other provider stands in, for it is this
	// model that is to be known.
	Trial bool `json:"trial,omitempty"`
	// Stream is the subject to which the gateway sends the answer's text while it
	// is made, as LLMDelta; empty: nowhere. What counts is the reply: only that has
	// been checked.
	Stream string `json:"stream,omitempty"`
}

// LLMDelta is a piece of an answer that is being made.
type LLMDelta struct {
	Envelope
	Text string `json:"text"`
	// Restart makes void what came before: the answer begins again.
	Restart bool `json:"restart,omitempty"`
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

// QuoteAnswer is bytes [Start, End) of a passage's text, inside a quote of it; none,
// [0, 0), where no part of the quote answers by itself.
type QuoteAnswer struct {
	Start      int     `json:"start"`
	End        int     `json:"end"`
	Confidence float64 `json:"confidence"` // in [0, 1], that it is right
}

// Reading is bytes [Start, End) of passage Passage's text that may answer. Scores are logits,
// those of one passage comparable with each other.
type Reading struct {
	Passage int     `json:"passage"`
	Start   int     `json:"start"`
	End     int     `json:"end"`
	Score   float64 `json:"score"`
}

// ReplySentence is bytes [Start, End) of a reply's text and what is said to prove
// them: a claim, which nothing has checked yet.
type ReplySentence struct {
	Start  int   `json:"start"`
	End    int   `json:"end"`
	Quotes []int `json:"quotes,omitempty"` // indices into the reply's quotes
	// Computed is what the sentence begins with that no quote has.
	Computed *Computed `json:"computed,omitempty"`
}

// Computed is a number that was computed of figures, in the order of their periods.
type Computed struct {
	Operation string   `json:"operation"` // "change", "difference", "percent change", "mean" or "sum"
	Value     string   `json:"value"`
	Figures   []string `json:"figures"`
}

// Text is what the sentence begins with: "14.07% (percent change): ".
func (c Computed) Text() string { return c.Value + " (" + c.Operation + "): " }

// LLMReply answers LLMRequest. Every quote has been checked against the
// passage's text.
type LLMReply struct {
	Envelope
	Error     *schema.RemoteError `json:"error,omitempty"`
	Text      string              `json:"text"`
	Supported bool                `json:"supported"`
	// Withheld is why there was an answer and it is not given, at the request's risk.
	// Then the quotes are those of it.
	Withheld string `json:"withheld,omitempty"`
	// Features are what the confidence was computed from, by name.
	Features map[string]float64 `json:"features,omitempty"`
	Quotes   []Quote            `json:"quotes,omitempty"`
	// Sentences tile Text, where the provider says which quote is to prove which.
	Sentences []ReplySentence `json:"sentences,omitempty"`
	// Scores are the judgement of each passage, in [0, 1].
	Scores []float64 `json:"scores,omitempty"`
	// Readings are what TaskRead found: none where the model pack has no graph that reads.
	Readings []Reading `json:"readings,omitempty"`
	// Choice is the one of the request's Choices that it chose, from 1; 0: none.
	Choice   int       `json:"choice,omitempty"`
	Feedback *Feedback `json:"feedback,omitempty"`
	// Correct is the judgement of TaskCorrectness; nil: the model gave none that can be read.
	Correct  *bool        `json:"correct,omitempty"`
	Usage    schema.Usage `json:"usage"`
	Repeated bool         `json:"repeated,omitempty"` // from the ledger
}

// Feedback is a judgement of an answer (SAGE, section VI).
type Feedback struct {
	Score  int `json:"score"`  // 1 to 10, of the answer
	Adjust int `json:"adjust"` // +1: more passages are needed; -1: fewer
}
