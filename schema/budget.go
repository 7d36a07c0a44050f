package schema

import "time"

// LLMLimits limit what language models may cost a tenant; nil is no limit. Days and months are in
// UTC.
type LLMLimits struct {
	TokensPerDay    *int64   `json:"tokens_per_day,omitempty" minimum:"0" doc:"Input and output tokens of a day (UTC)."`
	TokensPerMonth  *int64   `json:"tokens_per_month,omitempty" minimum:"0" doc:"Input and output tokens of a month (UTC)."`
	DollarsPerDay   *float64 `json:"dollars_per_day,omitempty" minimum:"0" maximum:"1000000000" doc:"US dollars of a day (UTC), at the providers' prices."`
	DollarsPerMonth *float64 `json:"dollars_per_month,omitempty" minimum:"0" maximum:"1000000000" doc:"US dollars of a month (UTC), at the providers' prices."`
	CallsPerMinute  *int     `json:"calls_per_minute,omitempty" minimum:"0" maximum:"1000000" doc:"Calls that begin within any 60 seconds."`
	CallsAtOnce     *int     `json:"calls_at_once,omitempty" minimum:"0" maximum:"1000000" doc:"Calls in progress."`
}

// LLMSpent is the tokens and costs of paid language models in a period.
type LLMSpent struct {
	Since        time.Time `json:"since"`
	Resets       time.Time `json:"resets" doc:"When the next such time begins."`
	Calls        int64     `json:"calls" doc:"Of language models, with those answered from the cache."`
	Cached       int64     `json:"cached" doc:"Calls that were answered from the cache, for nothing."`
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	Dollars      float64   `json:"dollars"`
}

// LLMUsage is a tenant's use of language models and its limits.
type LLMUsage struct {
	Limits LLMLimits `json:"limits"`
	Day    LLMSpent  `json:"day"`
	Month  LLMSpent  `json:"month"`
	// Calls in progress, and the most tokens and costs that they may add.
	InProgress      int     `json:"in_progress"`
	ReservedTokens  int64   `json:"reserved_tokens"`
	ReservedDollars float64 `json:"reserved_dollars"`
}
