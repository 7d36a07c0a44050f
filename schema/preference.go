package schema

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// By returns the provider and the model of a usage with a slash between them; empty: they are
// unknown.
func (u Usage) By() string {
	if u.Model == "" {
		return u.Provider
	}
	return u.Provider + "/" + u.Model
}

// LabelledQuestion is a question with known answers. To label it, Answers are required; a choice of
// plans accepts any of the three fields.
type LabelledQuestion struct {
	Question  string   `json:"question" minLength:"1" maxLength:"20000"`
	Answers   []string `json:"answers,omitempty" maxItems:"100" doc:"Each of them is a right answer."`
	Documents []string `json:"documents,omitempty" maxItems:"100" doc:"External ids of the documents that answer it."`
	Contains  []string `json:"answer_contains,omitempty" maxItems:"100" doc:"All of them are part of the right answer."`
}

// Limits of the answers of a question, and of the texts that are labelled for it.
const (
	MaxRightAnswers = 100
	MaxRightAnswer  = 1000 // characters
	MaxLabelTexts   = 50   // FIT-RAG's number
)

// Check returns an error that names the first invalid field.
func (q LabelledQuestion) Check() error {
	switch {
	case strings.TrimSpace(q.Question) == "":
		return Invalid("question", "is empty")
	case !utf8.ValidString(q.Question):
		return Invalid("question", "is not valid UTF-8")
	case utf8.RuneCountInString(q.Question) > MaxQuestion:
		return Invalid("question", "has over %d characters", MaxQuestion)
	case len(q.Answers) == 0 || len(q.Answers) > MaxRightAnswers:
		return Invalid("answers", "there are %d: a labelled question has 1 to %d right answers", len(q.Answers), MaxRightAnswers)
	}
	for _, a := range q.Answers {
		switch {
		case strings.TrimSpace(a) == "":
			return Invalid("answers", "one is empty")
		case !utf8.ValidString(a):
			return Invalid("answers", "one is not valid UTF-8")
		case utf8.RuneCountInString(a) > MaxRightAnswer:
			return Invalid("answers", "one has over %d characters", MaxRightAnswer)
		}
	}
	return nil
}

// Key identifies a question and its answers, whatever their order.
func (q LabelledQuestion) Key() [sha256.Size]byte {
	answers := slices.Clone(q.Answers)
	slices.Sort(answers)
	return sha256.Sum256([]byte(q.Question + "\x00" + strings.Join(slices.Compact(answers), "\x00")))
}

// Labelling asks to label a question: what the language model knows of it, and which texts help it
// to answer.
type Labelling struct {
	LabelledQuestion
	Texts int     // most texts found for the question to label; 0: the model is only asked without texts
	Calls int     // most calls of the language model; 0: none, to see what is left to do
	Cost  float64 // US dollars from which no further call is made; 0: no limit
}

// Labelled is the current result of labelling a question.
type Labelled struct {
	Model string `json:"model"` // the provider and model that is asked
	// Known is whether the model answers right without retrieval; nil: it was not asked yet.
	Known      *bool `json:"known,omitempty"`
	Texts      int   `json:"texts"`       // labelled texts
	HaveAnswer int   `json:"have_answer"` // of Texts
	Preferred  int   `json:"preferred"`   // of Texts: the model answers right from it, and not without
	Left       int   `json:"left"`        // most calls that are still to be made
	LeftTokens int   `json:"left_tokens"` // tokens that these calls send, about
	Calls      int   `json:"calls"`       // calls that were made now
	Usage      Usage `json:"usage"`       // of Calls
	// Problem is why labelling ended early. Calls and Usage include the calls before it.
	Problem string `json:"problem,omitempty"`
}

// Preference is a head for llm_prefer, trained for a language model on a collection.
type Preference struct {
	Model     string    `json:"model"`
	Graph     string    `json:"graph"`     // the pair graph whose features it reads
	Questions int       `json:"questions"` // that it was trained on
	Texts     int       `json:"texts"`
	Preferred int       `json:"preferred"` // texts that the model answers right from, and not without
	Differing int       `json:"differing"` // texts whose two labels differ
	Weight    float64   `json:"weight"`    // FIT-RAG's w after training
	HeldOut   int       `json:"held_out"`  // questions that the next two were measured on
	Area      float64   `json:"area"`      // under the ROC curve, for preferred texts
	OwnArea   float64   `json:"own_area"`  // the same for the pack's own pair model
	Kept      bool      `json:"kept"`      // plans use it; false: it was worse than the pack's own pair model
	LearntAt  time.Time `json:"learnt_at"`
}

// Sum returns the sum of both usages, with the provider and model of the last.
func (u Usage) Sum(o Usage) Usage {
	u.Provider, u.Model = cmp.Or(o.Provider, u.Provider), cmp.Or(o.Model, u.Model)
	u.InputTokens, u.OutputTokens, u.Millis, u.Cost = u.InputTokens+o.InputTokens, u.OutputTokens+o.OutputTokens, u.Millis+o.Millis, u.Cost+o.Cost
	u.Own = OwnUsage{InputTokens: u.Own.InputTokens + o.Own.InputTokens, OutputTokens: u.Own.OutputTokens + o.Own.OutputTokens, Cost: u.Own.Cost + o.Own.Cost}
	return u
}
