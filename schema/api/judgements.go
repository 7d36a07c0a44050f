package api

// AnswerToJudge is an answer to a question whose right answers are known.
type AnswerToJudge struct {
	Question   string   `json:"question" minLength:"1" maxLength:"20000"`
	References []string `json:"references" minItems:"1" maxItems:"100" doc:"Right answers, each of which is enough; of 10,000 characters at most."`
	Answer     string   `json:"answer" minLength:"1" maxLength:"50000" doc:"The answer to judge."`
	DryRun     bool     `json:"dry_run,omitempty" doc:"Asks nobody: the reply names the model that would judge."`
}
