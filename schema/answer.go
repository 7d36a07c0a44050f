package schema

// NoAnswer is the text of an answer that is not supported.
const NoAnswer = "The documents do not say."

// WithheldAnswer is the text of an answer that is withheld.
const WithheldAnswer = "Withheld: this answer was made from documents that you may not see."

// Withhold returns what is left of an answer for who may not see all that it was
// made from. The question as it was made whole may tell of answers, too.
func (a Answer) Withhold() Answer {
	return Answer{ID: a.ID, Question: a.Question, Answer: WithheldAnswer, Withheld: true, Citations: []Citation{}, Trace: []StageReport{},
		Rounds: a.Rounds, Plan: a.Plan, PlanNote: a.PlanNote, Usage: a.Usage}
}

// Withhold is the same for a rating: who rated the answer how stays.
func (r RatedAnswer) Withhold() RatedAnswer {
	r.Answer, r.Withheld, r.Supported, r.Choice, r.Citations, r.Standalone = WithheldAnswer, true, false, 0, []Citation{}, ""
	return r
}
