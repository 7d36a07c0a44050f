package schema

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// Person is somebody who signed in at a provider, and their permissions in one tenant.
type Person struct {
	// Subject identifies the person permanently: the provider's issuer, "
	// ", and their id there.
	Subject string
	Name    string // as it is shown; it may change
	Scopes  []Scope
	Groups  []string
	// Collections are scopes of single collections, besides Scopes, which apply to the tenant.
	Collections []CollectionScopes
}

// maxToken is the most bytes of an access token.
const maxToken = 16 << 10

// LooksLikeToken reports whether a text has the form of a provider's access token, a JWT: three
// parts of base64url, of which the first is a JSON object.
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

// NewSession is a session to be created for a person.
type NewSession struct {
	ExpiresAt time.Time
	Address   string // address from which it begins
	Agent     string // the browser's User-Agent
}

// SealedSession is a NewSession with the hash of its secret, ready to be stored.
type SealedSession struct {
	NewSession
	Hash []byte // SHA-256 of the whole secret
}

// PersonSession is a person's session without its secret.
type PersonSession struct {
	ID        uuid.UUID
	Key       uuid.UUID // the person's key
	Name      string    // the person's
	CreatedAt time.Time
	ExpiresAt time.Time
	EndedAt   *time.Time // before it expired
	// LastUsedAt is within minutes of the last use; nil: never.
	LastUsedAt *time.Time
	Address    string
	Agent      string
}
