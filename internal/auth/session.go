package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

const (
	// sessionTime is how long a session lasts: a little longer than a working day.
	sessionTime = 12 * time.Hour
	// leastSecret is the least length of a secret in bytes.
	leastSecret = 32
)

// Sessions seals API keys in browser cookies and opens them again. Nothing is stored: a session
// ends with its key, when it expires, or when the browser drops the cookie. It is safe for
// concurrent use.
type Sessions struct {
	aead cipher.AEAD
	now  func() time.Time
}

// NewSessions returns Sessions with a secret of at least 32 bytes; processes with the same secret
// open each other's sessions. Without a secret it generates one, and sessions end with the process.
func NewSessions(secret string) (*Sessions, error) {
	return newSessions(secret, "sluice session cookies")
}

// NewSignIns returns Sessions for the data that a browser keeps while somebody signs in at a
// provider. They do not open what other Sessions sealed with the same secret.
func NewSignIns(secret string) (*Sessions, error) {
	return newSessions(secret, "sluice sign-in cookies")
}

func newSessions(secret, purpose string) (*Sessions, error) {
	key := make([]byte, 32)
	switch {
	case secret == "":
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("generate a secret for sessions: %w", err)
		}
	case len(secret) < leastSecret:
		return nil, schema.Invalid("session-secret", "has %d bytes; at least %d are needed", len(secret), leastSecret)
	default:
		var err error
		if key, err = hkdf.Key(sha256.New, []byte(secret), nil, purpose, len(key)); err != nil {
			return nil, fmt.Errorf("derive the key of sessions: %w", err)
		}
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of sessions: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of sessions: %w", err)
	}
	return &Sessions{aead: aead, now: time.Now}, nil
}

// Seal seals an API key in a session, whose text may be a cookie's value.
func (s *Sessions) Seal(key string) (sealed string, ends time.Time) {
	ends = s.now().Add(sessionTime).Truncate(time.Second)
	return s.SealUntil(key, ends), ends
}

// SealUntil seals a key, or other data for a browser, in a session that ends at ends, rounded down
// to the second.
func (s *Sessions) SealUntil(key string, ends time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(ends.Unix()))
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, append(plain, key...), nil))
}

// Open returns the API key of a session. The error is schema.ErrUnauthorized when sealed is not a
// session, or has expired. The caller must still check the key.
func (s *Sessions) Open(sealed string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return "", fmt.Errorf("this is not a session: %w", schema.ErrUnauthorized)
	}
	plain, err := s.aead.Open(nil, nil, text, nil)
	if err != nil || len(plain) < 8 {
		return "", fmt.Errorf("this is not a session of this server: %w", schema.ErrUnauthorized)
	}
	if s.now().Unix() >= int64(binary.BigEndian.Uint64(plain)) {
		return "", fmt.Errorf("the session is over: %w", schema.ErrUnauthorized)
	}
	return string(plain[8:]), nil
}
