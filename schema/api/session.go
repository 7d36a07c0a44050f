package api

import "time"

// NewSession begins a browser's session.
type NewSession struct {
	Key string `json:"key,omitempty" maxLength:"256" doc:"An API key."`
}

// Session is a browser's session.
type Session struct {
	Identity
	EndsAt time.Time `json:"ends_at"`
}
