package api

import "github.com/sluice-rag/sluice/schema"

// NewPlanChoice asks to measure plans on a collection's questions.
type NewPlanChoice struct {
	Plans     []string        `json:"plans,omitempty" maxItems:"64" doc:"Names of the plans that are compared; all of the server's and of the tenant's own when absent."`
	Questions []KnownQuestion `json:"questions,omitempty" maxItems:"2000" doc:"Labelled questions, which are asked first and kept for later choices. When absent, those of the newest choice that had some. Rated answers, and questions that are made of passages, follow up to the limit."`
	Limit     int             `json:"questions_limit,omitempty" minimum:"0" maximum:"2000" doc:"How many questions are asked at most; 300 when absent, or as many as there are labelled ones if these are more."`
	Seconds   int             `json:"at_most_seconds,omitempty" minimum:"0" maximum:"86400" doc:"How long it takes at most; as long as it needs when absent."`
	Every     int             `json:"repeat_days,omitempty" minimum:"0" maximum:"366" doc:"Days after which it is repeated, again and again; never when absent. Webhooks hear plan.better when a repetition finds a better plan than the collection's."`
}

// KnownQuestion is a question with known answers. One of answers, answer_contains and documents is
// required.
type KnownQuestion struct {
	Question  string   `json:"question" minLength:"1" maxLength:"20000"`
	Answers   []string `json:"answers,omitempty" maxItems:"100" doc:"Each of them is a right answer."`
	Documents []string `json:"documents,omitempty" maxItems:"100" doc:"External ids of the documents that answer it."`
	Contains  []string `json:"answer_contains,omitempty" maxItems:"100" doc:"All of them are part of the right answer."`
}

// Schema returns the request as a schema.NewPlanChoice.
func (n NewPlanChoice) Schema() schema.NewPlanChoice {
	out := schema.NewPlanChoice{Plans: n.Plans, Limit: n.Limit, Seconds: n.Seconds, Every: n.Every}
	for _, q := range n.Questions {
		out.Questions = append(out.Questions, schema.LabelledQuestion(q))
	}
	return out
}

// AppliedPlan names the compared plan that becomes the collection's.
type AppliedPlan struct {
	Plan string `json:"plan,omitempty" maxLength:"64" doc:"One of those that were compared; the one that is proposed when absent."`
}

// RepeatedChoice sets how often a choice is repeated.
type RepeatedChoice struct {
	Days int `json:"days" minimum:"0" maximum:"366" doc:"0: no more."`
}
