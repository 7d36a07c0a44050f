package schema

// NoAnswer is the text of an answer that is not supported.
const NoAnswer = "The documents do not say."

// WithheldAnswer is the text of an answer that is withheld.
const WithheldAnswer = "Withheld: this answer was made from documents that you may not see."

// Withhold returns what may be shown of an answer to a caller who may not see all of its documents.
// The standalone question is removed too, because it may repeat earlier answers.
func (a Answer) Withhold() Answer {
	return Answer{ID: a.ID, Question: a.Question, Answer: WithheldAnswer, Withheld: true, Citations: []Citation{}, Trace: []StageReport{},
		Rounds: a.Rounds, Plan: a.Plan, PlanNote: a.PlanNote, Usage: a.Usage}
}

// Withhold is the same for a rating. The rating itself and who gave it stay.
func (r RatedAnswer) Withhold() RatedAnswer {
	r.Answer, r.Withheld, r.Supported, r.Choice, r.Citations, r.Standalone = WithheldAnswer, true, false, 0, []Citation{}, ""
	return r
}
