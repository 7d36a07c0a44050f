package schema

import (
	"math"

	"github.com/google/uuid"
)

// Unit is a size of text that a plan ranks.
type Unit string

// Units, from small to large.
const (
	UnitPassage  Unit = "passage"
	UnitSection  Unit = "section"
	UnitDocument Unit = "document"
	UnitCluster  Unit = "cluster"
)

// Candidate is a piece of text that a plan considers. It carries one or more
// spans, a score per scorer, and where it comes from. The spans and the text of
// a document or a cluster, which may be long, are those of its best passage.
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
	// NearDuplicates are the same passage in other versions of the text.
	NearDuplicates []NearPassage `json:"near_duplicates,omitempty" doc:"The same passage in documents whose text is nearly the same, where the plan looked for it."`
}

// StageVectors names the report, before those of a plan's stages, of a search that
// did without vectors because the collection's are of another space than the model
// server's.
const StageVectors = "vectors"

// StageReport is what one stage of a plan did: the explanation of a search.
type StageReport struct {
	Stage  string  `json:"stage"`
	Unit   Unit    `json:"unit,omitempty"` // of what came out
	In     int     `json:"in"`
	Out    int     `json:"out"`
	Millis float64 `json:"ms"`
	Why    string  `json:"why,omitempty"`
	// Features are what the confidence in an answer was computed from, by name.
	Features map[string]float64 `json:"features,omitempty" doc:"Of generate: what the confidence in the answer was computed from."`
	// Kept and Dropped show the first few of each, best first.
	Kept    []Judged `json:"kept,omitempty"`
	Dropped []Judged `json:"dropped,omitempty"`
	// Statistics are shown to admins only: they tell of text that the asker may
	// not see.
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
	Why      string             `json:"why,omitempty"` // it was dropped
}

// RankedDocument is a document as a plan ranks it: by its best candidate.
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
	// Boxes are where the quote stands, in reading order; none where that is not known.
	Boxes []Box `json:"boxes,omitempty" doc:"Where the quote stands on its pages, a box for each stretch of a line."`
	// Answer is the part of the quote that answers by itself, where one was read
	// out of it.
	Answer ShortAnswer `json:"answer,omitzero"`
}

// ShortAnswer is bytes [Start, End) of a quote. Where it has no text, the confidence is
// that the quote answers.
type ShortAnswer struct {
	Text       string  `json:"text"`
	Start      int     `json:"start"`
	End        int     `json:"end"`
	Confidence float64 `json:"confidence"` // in [0, 1], that it is right
	Boxes      []Box   `json:"boxes,omitempty" doc:"Where it stands on its pages."`
}

// Usage is what an answer cost.
type Usage struct {
	Provider     string  `json:"provider,omitempty"`
	Model        string  `json:"model,omitempty"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Millis       float64 `json:"ms"`
	// Cost is what the tokens cost at the provider's prices, in US dollars; 0
	// for a reply that was not paid for (Cached).
	Cost   float64 `json:"cost,omitempty"`
	Cached bool    `json:"cached,omitempty"`
	// Own is the part of these that Sluice's own models counted (extractive).
	Own OwnUsage `json:"own,omitzero"`
}

// OwnUsage are tokens of Sluice's own models. Nobody is paid for them: their cost
// is nominal, and counts in no budget.
type OwnUsage struct {
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Cost         float64 `json:"cost,omitempty"` // nominal, in US dollars
}

// Paid is what of a usage somebody is paid for.
func (u Usage) Paid() Usage {
	u.InputTokens, u.OutputTokens = u.InputTokens-u.Own.InputTokens, u.OutputTokens-u.Own.OutputTokens
	u.Cost = math.Round((u.Cost-u.Own.Cost)*1e9) / 1e9 // of whole billionths
	u.Own = OwnUsage{}
	return u
}

// Sentence is one sentence of an answer and what proves it.
type Sentence struct {
	Start     int   `json:"start"` // bytes in the answer's text
	End       int   `json:"end"`
	Citations []int `json:"citations"` // indices into the answer's citations
	Supported bool  `json:"supported"` // false: nothing that was cited proves it
}

// Answer is the result of a question.
type Answer struct {
	ID       uuid.UUID `json:"question_id,omitzero"` // of the question, under which the answer is kept
	Question string    `json:"question"`             // as it was asked
	// Standalone is the question that was answered, where it was made whole from a conversation.
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
	// Origin is kept with the answer, for its receipt.
	Origin Origin `json:"-"`
}

// Origin is what an answer was made by. What is not known is empty.
type Origin struct {
	PlanSHA256  string // hex, of the plan's YAML
	Pack        string // name of the model pack
	PackVersion string
	PackSHA256  string // hex, of the pack's manifest
}
