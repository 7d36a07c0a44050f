package schema

import (
	"math"

	"github.com/google/uuid"
)

// Unit is a size of text that a plan can rank.
type Unit string

// Units, from small to large.
const (
	UnitPassage  Unit = "passage"
	UnitSection  Unit = "section"
	UnitDocument Unit = "document"
	UnitCluster  Unit = "cluster"
)

// Candidate is a text that a plan considers, with one or more spans, a score per scorer, and its
// origin. A document or cluster may be long: its spans and text are those of its best passage.
type Candidate struct {
	Unit        Unit               `json:"unit"`
	Cluster     uuid.UUID          `json:"cluster,omitzero"` // the cluster it is, or came from
	Passage     uuid.UUID          `json:"passage"`          // the passage it began as
	Document    uuid.UUID          `json:"document_id"`
	ExternalID  string             `json:"document"`
	Title       string             `json:"title"`
	HeadingPath []string           `json:"heading_path,omitempty"`
	Page        int                `json:"page,omitempty"`
	Location    string             `json:"location"` // for people: page or heading path
	Spans       []Span             `json:"spans"`
	Text        string             `json:"text"`
	Tokens      int                `json:"tokens"`
	Score       float64            `json:"score"`  // of the stage that ran last
	Scores      map[string]float64 `json:"scores"` // by scorer
	Origin      string             `json:"origin"` // the stage that found it
	// NearDuplicates are the same passage in near-duplicate documents.
	NearDuplicates []NearPassage `json:"near_duplicates,omitempty" doc:"The same passage in documents whose text is nearly the same, where the plan looked for it."`
}

// StageVectors is the name of a report that precedes those of a plan's stages. It says that the
// search ran without vectors, because the collection's are in another space than the model
// server's.
const StageVectors = "vectors"

// StageReport describes what one stage of a plan did: it is the explanation of a search.
type StageReport struct {
	Stage  string  `json:"stage"`
	Unit   Unit    `json:"unit,omitempty"` // of the candidates that it returned
	In     int     `json:"in"`
	Out    int     `json:"out"`
	Millis float64 `json:"ms"`
	Why    string  `json:"why,omitempty"`
	// Features are the values that the confidence in an answer was computed from, by name.
	Features map[string]float64 `json:"features,omitempty" doc:"Of generate: what the confidence in the answer was computed from."`
	// Kept and Dropped are the first few candidates of each, best first.
	Kept    []Judged `json:"kept,omitempty"`
	Dropped []Judged `json:"dropped,omitempty"`
	// Statistics are shown to admins only, because they depend on text that the caller may not see.
	Statistics map[string]float64 `json:"statistics,omitempty"`
}

// Judged is a candidate in a stage's report.
type Judged struct {
	Document string             `json:"document,omitempty"` // external id
	Version  uuid.UUID          `json:"version,omitzero"`
	Location string             `json:"location,omitempty"`
	Cluster  uuid.UUID          `json:"cluster,omitzero"`
	Score    float64            `json:"score"`
	Scores   map[string]float64 `json:"scores,omitempty"`
	Why      string             `json:"why,omitempty"` // why it was dropped
}

// RankedDocument is a document with the rank of its best candidate.
type RankedDocument struct {
	Document string  `json:"document"` // external id
	Score    float64 `json:"score"`
}

// Citation is a verbatim span of stored text that supports an answer.
type Citation struct {
	Document   string    `json:"document"` // external id
	DocumentID uuid.UUID `json:"document_id"`
	Title      string    `json:"title"`
	Location   string    `json:"location"`
	Page       int       `json:"page,omitempty" doc:"On which the quote begins, from 1; absent where the format has no pages."`
	Quote      string    `json:"quote"`
	Span       Span      `json:"span"`
	// Boxes are the places of the quote on its pages, in reading order; empty if they are not
	// known.
	Boxes []Box `json:"boxes,omitempty" doc:"Where the quote stands on its pages, a box for each stretch of a line."`
	// Answer is the part of the quote that answers by itself, if one was extracted.
	Answer ShortAnswer `json:"answer,omitzero"`
}

// ShortAnswer is bytes [Start, End) of a quote. Without text, Confidence is that of the whole
// quote.
type ShortAnswer struct {
	Text       string  `json:"text"`
	Start      int     `json:"start"`
	End        int     `json:"end"`
	Confidence float64 `json:"confidence"` // in [0, 1], that the answer is right
	Boxes      []Box   `json:"boxes,omitempty" doc:"Where it stands on its pages."`
}

// Usage is the tokens, time and cost of an answer.
type Usage struct {
	Provider     string  `json:"provider,omitempty"`
	Model        string  `json:"model,omitempty"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Millis       float64 `json:"ms"`
	// Cost is the cost of the tokens at the provider's prices, in US dollars. It is 0 for a reply
	// that was not paid for (Cached).
	Cost   float64 `json:"cost,omitempty"`
	Cached bool    `json:"cached,omitempty"`
	// Own is the part of the usage by Sluice's own models (extractive).
	Own OwnUsage `json:"own,omitzero"`
}

// OwnUsage is the usage of Sluice's own models. Nobody is paid for it: its cost is nominal, and
// counts in no budget.
type OwnUsage struct {
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Cost         float64 `json:"cost,omitempty"` // nominal, in US dollars
}

// Paid returns the usage without that of Sluice's own models.
func (u Usage) Paid() Usage {
	u.InputTokens, u.OutputTokens = u.InputTokens-u.Own.InputTokens, u.OutputTokens-u.Own.OutputTokens
	u.Cost = math.Round((u.Cost-u.Own.Cost)*1e9) / 1e9 // rounded to billionths
	u.Own = OwnUsage{}
	return u
}

// Sentence is one sentence of an answer and the citations that prove it.
type Sentence struct {
	Start     int   `json:"start"` // bytes in the answer's text
	End       int   `json:"end"`
	Citations []int `json:"citations"` // indices into the answer's citations
	Supported bool  `json:"supported"` // false: no citation proves it
}

// Answer is the result of a question.
type Answer struct {
	ID       uuid.UUID `json:"question_id,omitzero"` // of the question, under which the answer is stored
	Question string    `json:"question"`             // as it was asked
	// Standalone is the question that was answered, if it was rephrased to be complete without the
	// conversation.
	Standalone string        `json:"standalone_question,omitempty" doc:"The question as it was made whole from the history and answered; absent where that changed nothing."`
	Answer     string        `json:"answer"`
	Supported  bool          `json:"supported"` // false: the documents do not say
	Citations  []Citation    `json:"citations" doc:"Of an answer that is not supported they are the nearest passages, and prove nothing."`
	Notes      []string      `json:"notes,omitempty" doc:"What the question asks for and a cited document does not fit, such as a year; and where versions of a cited document differ."`
	Sentences  []Sentence    `json:"sentences,omitempty"`
	Choice     int           `json:"choice,omitempty"`  // of the question's choices, from 1; 0: none
	Uncited    bool          `json:"uncited,omitempty"` // from the model's own knowledge, without retrieval
	Withheld   bool          `json:"withheld,omitempty" doc:"It was made from documents that the reader may not see now: its text, quotes and trace are left out."`
	Rounds     int           `json:"rounds,omitempty"` // of retrieval and generation
	Plan       string        `json:"plan"`
	PlanNote   string        `json:"plan_note,omitempty" doc:"Why it was not the collection's plan that ran; shown once, to who waited for the answer."`
	Trace      []StageReport `json:"trace"`
	Usage      Usage         `json:"usage"`
	// Origin is stored with the answer, for its receipt.
	Origin Origin `json:"-"`
}

// Origin is what produced an answer. Unknown fields are empty.
type Origin struct {
	PlanSHA256  string // hex, of the plan's YAML
	Pack        string // name of the model pack
	PackVersion string
	PackSHA256  string // hex, of the pack's manifest
}
