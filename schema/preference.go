package schema

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// By names the provider and the model of a usage, with a slash between; empty: neither is known.
func (u Usage) By() string {
	if u.Model == "" {
		return u.Provider
	}
	return u.Provider + "/" + u.Model
}

// LabelledQuestion is a question of which it is known what answers it. Where a language model
// is asked, its answers are needed; a choice of plans takes any of the three.
type LabelledQuestion struct {
	Question  string   `json:"question" minLength:"1" maxLength:"20000"`
	Answers   []string `json:"answers,omitempty" maxItems:"100" doc:"Each of them is a right answer."`
	Documents []string `json:"documents,omitempty" maxItems:"100" doc:"External ids of the documents that answer it."`
	Contains  []string `json:"answer_contains,omitempty" maxItems:"100" doc:"All of them are part of the right answer."`
}

// Bounds of what a question is labelled with.
const (
	MaxRightAnswers = 100
	MaxRightAnswer  = 1000 // characters
	MaxLabelTexts   = 50   // FIT-RAG's
)

// Check reports what is wrong with a question, by field.
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

// Key identifies a question and its answers, in whichever order they come.
func (q LabelledQuestion) Key() [sha256.Size]byte {
	answers := slices.Clone(q.Answers)
	slices.Sort(answers)
	return sha256.Sum256([]byte(q.Question + "\x00" + strings.Join(slices.Compact(answers), "\x00")))
}

// Labelling asks for a question to be labelled: what the language model knows of it, and which
// texts help it.
type Labelling struct {
	LabelledQuestion
	Texts int     // that are labelled, of those found for the question; 0: the model is asked without texts alone
	Calls int     // of the language model, at most; 0: none, to see what there is to do
	Cost  float64 // US dollars from which on no further call is made; 0: no bound
}

// Labelled is what is known of a question by now.
type Labelled struct {
	Model string `json:"model"` // provider and model that was asked
	// Known is whether it answers right without retrieval; none: it was not asked yet.
	Known      *bool `json:"known,omitempty"`
	Texts      int   `json:"texts"`       // that are labelled
	HaveAnswer int   `json:"have_answer"` // of these
	Preferred  int   `json:"preferred"`   // of these: the model answers right from it, and not without
	Left       int   `json:"left"`        // calls that are still to be made, at most
	LeftTokens int   `json:"left_tokens"` // that these send, about
	Calls      int   `json:"calls"`       // that were made now
	Usage      Usage `json:"usage"`       // of those
	// Problem is why it ended before its calls were used up; what they cost is above.
	Problem string `json:"problem,omitempty"`
}

// Preference is the head of llm_prefer that was learnt for a language model on a collection.
type Preference struct {
	Model     string    `json:"model"`
	Graph     string    `json:"graph"`     // the pair graph whose features it reads
	Questions int       `json:"questions"` // that it was learnt from
	Texts     int       `json:"texts"`
	Preferred int       `json:"preferred"` // texts that the model answers right from, and not without
	Differing int       `json:"differing"` // texts whose two labels differ
	Weight    float64   `json:"weight"`    // FIT-RAG's w in the end
	HeldOut   int       `json:"held_out"`  // questions that the next two were measured on
	Area      float64   `json:"area"`      // under the ROC curve: how well it tells preferred texts
	OwnArea   float64   `json:"own_area"`  // the same of the pack's own reader
	Kept      bool      `json:"kept"`      // plans use it; else it told worse than the pack's own reader
	LearntAt  time.Time `json:"learnt_at"`
}

// Sum adds what another call used; the provider and model are those of the last.
func (u Usage) Sum(o Usage) Usage {
	u.Provider, u.Model = cmp.Or(o.Provider, u.Provider), cmp.Or(o.Model, u.Model)
	u.InputTokens, u.OutputTokens, u.Millis, u.Cost = u.InputTokens+o.InputTokens, u.OutputTokens+o.OutputTokens, u.Millis+o.Millis, u.Cost+o.Cost
	u.Own = OwnUsage{InputTokens: u.Own.InputTokens + o.Own.InputTokens, OutputTokens: u.Own.OutputTokens + o.Own.OutputTokens, Cost: u.Own.Cost + o.Own.Cost}
	return u
}
