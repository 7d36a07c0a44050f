package schema

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// Person is somebody who signed in at a provider, with what they may in one tenant.
type Person struct {
	// Subject is who they are for good: the provider's issuer, "|", and their id there.
	Subject string
	Name    string // as it is shown; it may change
	Scopes  []Scope
	Groups  []string
	// Collections are scopes of single collections, beside Scopes, which are the tenant's.
	Collections []CollectionScopes
}

// maxToken is the size of an access token, in bytes.
const maxToken = 16 << 10

// LooksLikeToken reports whether a text can be a provider's access token, a JWT: three parts
// of base64url, the first of them an object of JSON.
func LooksLikeToken(text string) bool {
	if len(text) > maxToken || !strings.HasPrefix(text, "eyJ") || strings.Count(text, ".") != 2 {
		return false
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// NewSession is a person's session to be.
type NewSession struct {
	ExpiresAt time.Time
	Address   string // where it begins
	Agent     string // the browser, as it calls itself
}

// SealedSession is a NewSession with the hash of its secret, ready to be stored.
type SealedSession struct {
	NewSession
	Hash []byte // SHA-256 of the whole secret
}

// PersonSession is a person's session without its secret.
type PersonSession struct {
	ID        uuid.UUID
	Key       uuid.UUID // the person's row among the keys
	Name      string    // the person's
	CreatedAt time.Time
	ExpiresAt time.Time
	EndedAt   *time.Time // before it expired
	// LastUsedAt is within minutes of when it was; nil: never.
	LastUsedAt *time.Time
	Address    string
	Agent      string
}
