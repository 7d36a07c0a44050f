package api

import (
	"time"

	"github.com/google/uuid"
)

// NewSession starts a browser session.
type NewSession struct {
	Key string `json:"key,omitempty" maxLength:"256" doc:"An API key."`
}

// Session is a browser session.
type Session struct {
	Identity
	EndsAt time.Time `json:"ends_at"`
}

// SignInWays are the ways of signing in that the sign-in page offers.
type SignInWays struct {
	Key  bool     `json:"key" doc:"Whether an API key begins a session."`
	OIDC *OIDCWay `json:"oidc,omitempty" doc:"The provider of OpenID Connect; absent: there is none."`
}

// OIDCWay is signing in at the OpenID Connect provider.
type OIDCWay struct {
	Name string `json:"name" doc:"The provider's, for people."`
	Path string `json:"path" doc:"Where a browser begins; it takes return_to and tenant as query parameters."`
}

// PersonSession is a session of a person who signed in at the provider.
type PersonSession struct {
	ID         uuid.UUID  `json:"id"`
	Key        uuid.UUID  `json:"key_id" doc:"The person, as in the list of keys."`
	Name       string     `json:"name" doc:"The person's."`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  time.Time  `json:"expires_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty" doc:"When it was ended before it expired."`
	LastUsedAt *time.Time `json:"last_used_at,omitempty" doc:"To within five minutes; absent: never."`
	Address    string     `json:"address" doc:"Where it began."`
	Agent      string     `json:"agent" doc:"The browser, as it calls itself."`
	Current    bool       `json:"current,omitempty" doc:"Whether this request is made by it."`
}
