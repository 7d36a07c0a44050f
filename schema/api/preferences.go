package api

// LabelledQuestion asks to label a question with known answers: the language model is asked it.
type LabelledQuestion struct {
	Question string   `json:"question" minLength:"1" maxLength:"20000"`
	Answers  []string `json:"answers" minItems:"1" maxItems:"100" doc:"Each of which is right."`
	Texts    int      `json:"texts,omitempty" minimum:"0" maximum:"50" doc:"How many of the texts that are found for it are labelled: whether they have the answer, and whether the model answers right from them and not without. 0: the model is asked without texts alone."`
	Calls    int      `json:"calls,omitempty" minimum:"0" maximum:"51" doc:"Calls of the language model at most. 0 makes none: the reply says what there is to do."`
	Cost     float64  `json:"cost,omitempty" minimum:"0" doc:"US dollars from which on no further call is made; 0 means no limit."`
}

// NewPreference asks to train a preference.
type NewPreference struct {
	Model string `json:"model,omitempty" maxLength:"300" doc:"Provider and model whose labels it is learnt from; that of the newest label, when absent."`
	Seed  uint64 `json:"seed,omitempty" doc:"Divides the questions into those to learn from and those to measure on; 1 when absent."`
}
