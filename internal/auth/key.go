// Package auth creates and authenticates API keys. A key is random, shown once and stored as a
// hash. It is looked up by its hash, without comparing the key itself, so timing reveals nothing.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

// A key is "slu_<prefix>_<secret>": the prefix is shown in lists, the secret is 256 random bits.
// Both consist of letters and digits, so that a double click selects the whole key.
const (
	brand        = "slu_"
	prefixLength = 8
	secretBits   = 256
	secretLength = 43 // ceil(256 / log2(62))

	maxName      = 128 // bytes
	maxGroups    = 100
	maxGroup     = 256 // bytes
	maxAddresses = 100

	scopeNames = "operator, admin, curate, ingest, query, impersonate"
)

// seal generates the secret of k. It returns the key, for the only time.
func seal(k schema.NewKey) (string, schema.SealedKey, error) {
	prefix, err := random(48, prefixLength)
	if err != nil {
		return "", schema.SealedKey{}, err
	}
	prefix = prefix[len(prefix)-prefixLength:]
	secret, err := random(secretBits, secretLength)
	if err != nil {
		return "", schema.SealedKey{}, err
	}
	key := brand + prefix + "_" + secret
	hash := sha256.Sum256([]byte(key))
	return key, schema.SealedKey{NewKey: k, Prefix: brand + prefix, Hash: hash[:]}, nil
}

// random returns bits random bits in base 62, at least length digits.
func random(bits uint, length int) (string, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	if err != nil {
		return "", fmt.Errorf("generate an API key: %w", err)
	}
	text := n.Text(62)
	return strings.Repeat("0", max(length-len(text), 0)) + text, nil
}

// wellFormed reports whether key has the form of a key, to save lookups of other strings.
func wellFormed(key string) bool {
	if len(key) != len(brand)+prefixLength+1+secretLength || !strings.HasPrefix(key, brand) || key[len(brand)+prefixLength] != '_' {
		return false
	}
	for i := len(brand); i < len(key); i++ {
		c := key[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && i != len(brand)+prefixLength {
			return false
		}
	}
	return true
}

// tokenShaped reports whether key may be a provider's access token, with or without the name of a
// tenant.
func tokenShaped(key string) bool {
	token, _, _ := strings.Cut(key, " ")
	return schema.LooksLikeToken(token)
}

// check validates a key to be created.
func check(k schema.NewKey, now time.Time) error {
	if err := checkText("name", k.Name, maxName); err != nil {
		return err
	}
	if len(k.Scopes) == 0 && len(k.Collections) == 0 {
		return schema.Invalid("scopes", "is missing: give at least one of %s", scopeNames)
	}
	for i, s := range k.Scopes {
		switch s {
		case schema.ScopeOperator, schema.ScopeAdmin, schema.ScopeCurate, schema.ScopeIngest, schema.ScopeQuery, schema.ScopeImpersonate:
		default:
			return schema.Invalid(fmt.Sprintf("scopes[%d]", i), "%q is not one of %s", string(s), scopeNames)
		}
	}
	if err := checkCollections(k.Collections); err != nil {
		return err
	}
	if len(k.Groups) > maxGroups {
		return schema.Invalid("groups", "has %d groups; at most %d are allowed", len(k.Groups), maxGroups)
	}
	for i, g := range k.Groups {
		if err := checkText(fmt.Sprintf("groups[%d]", i), g, maxGroup); err != nil {
			return err
		}
		if schema.Reserved(g) {
			return schema.Invalid(fmt.Sprintf("groups[%d]", i), "%q is reserved by the system", g)
		}
	}
	if len(k.Addresses) > maxAddresses {
		return schema.Invalid("addresses", "has %d ranges; at most %d are allowed", len(k.Addresses), maxAddresses)
	}
	if k.ExpiresAt != nil && !k.ExpiresAt.After(now) {
		return schema.Invalid("expires_at", "is in the past")
	}
	return nil
}

func checkCollections(list []schema.CollectionScopes) error {
	if len(list) > schema.MaxKeyCollections {
		return schema.Invalid("collections", "has %d collections; at most %d are allowed", len(list), schema.MaxKeyCollections)
	}
	for i, c := range list {
		if len(c.Scopes) == 0 {
			return schema.Invalid(fmt.Sprintf("collections[%d]", i), "has no scopes")
		}
		for _, s := range c.Scopes {
			if !s.OfCollections() {
				return schema.Invalid("scopes", "%q applies to the whole tenant and cannot be given for a collection; query, ingest and curate can", string(s))
			}
		}
	}
	return nil
}

func checkText(field, text string, limit int) error {
	switch {
	case text == "":
		return schema.Invalid(field, "is missing")
	case len(text) > limit:
		return schema.Invalid(field, "has %d bytes; at most %d are allowed", len(text), limit)
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		return schema.Invalid(field, "is not UTF-8 without U+0000")
	}
	return nil
}
