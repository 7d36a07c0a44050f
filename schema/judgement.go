package schema

import (
	"strings"
	"unicode/utf8"
)

// AnswerToJudge is an answer and the right answers to its question, by which it is judged.
type AnswerToJudge struct {
	Question   string   `json:"question"`
	References []string `json:"references"` // any of which is right
	Answer     string   `json:"answer"`
}

// Limits of an AnswerToJudge, in characters.
const (
	MaxReferences   = 100
	MaxReference    = 10_000
	MaxJudgedAnswer = 50_000
)

// Check returns an error that names the first invalid field.
func (a AnswerToJudge) Check() error {
	if err := checkJudged("question", a.Question, MaxQuestion); err != nil {
		return err
	}
	if len(a.References) == 0 || len(a.References) > MaxReferences {
		return Invalid("references", "there are %d: an answer is judged by 1 to %d right answers", len(a.References), MaxReferences)
	}
	for _, r := range a.References {
		if err := checkJudged("references", r, MaxReference); err != nil {
			return err
		}
	}
	return checkJudged("answer", a.Answer, MaxJudgedAnswer)
}

func checkJudged(field, text string, limit int) error {
	switch {
	case !utf8.ValidString(text):
		return Invalid(field, "is not valid UTF-8")
	case strings.TrimSpace(text) == "":
		return Invalid(field, "is empty, or one of its texts is")
	case utf8.RuneCountInString(text) > limit:
		return Invalid(field, "has over %d characters", limit)
	}
	return nil
}

// Judgement is a language model's judgement of an answer.
type Judgement struct {
	Model string `json:"model"` // provider and model that judge
	// Correct is absent if the model's reply could not be read, and in a dry run.
	Correct *bool `json:"correct,omitempty"`
	Usage   Usage `json:"usage"`
}
