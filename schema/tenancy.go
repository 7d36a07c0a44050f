package schema

import (
	"net/netip"
	"regexp"
	"time"

	"github.com/google/uuid"
)

// Tenant is one customer, or department, apart from all others. A nil quota
// is no limit.
type Tenant struct {
	ID           uuid.UUID
	Name         string
	MaxDocuments *int64
	MaxBytes     *int64
	CreatedAt    time.Time
}

// NewTenant is a tenant to be.
type NewTenant struct {
	Name         string
	MaxDocuments *int64
	MaxBytes     *int64
}

// Key is an API key without its secret.
type Key struct {
	ID        uuid.UUID
	Name      string
	Prefix    string // the part of the key that lists show
	Scopes    []Scope
	Groups    []string
	Addresses []netip.Prefix // from which it may be used; none: from every one
	CreatedAt time.Time
	ExpiresAt *time.Time
	RevokedAt *time.Time
	// LastUsedAt is within minutes of when it was; nil: never, or not since it is kept.
	LastUsedAt *time.Time
	// Subject is whose row it is: a person's, as Person.Subject has it; empty: it is a key.
	Subject     string
	Collections []CollectionScopes // beside Scopes, which are the tenant's
}

// Storage is what a tenant has stored, as its quotas count it.
type Storage struct {
	Documents int64 `json:"documents"`
	// Bytes are of stored files, each content once, replaced versions included until
	// they are purged.
	Bytes        int64  `json:"bytes"`
	MaxDocuments *int64 `json:"max_documents,omitempty"`
	MaxBytes     *int64 `json:"max_bytes,omitempty"`
}

// NewKey is an API key to be.
type NewKey struct {
	Name      string
	Scopes    []Scope
	Groups    []string
	Addresses []netip.Prefix
	ExpiresAt *time.Time
	// Collections are scopes of single collections, beside Scopes, which are the tenant's.
	Collections []CollectionScopes
}

// SealedKey is a NewKey with the hash of its secret, ready to be stored.
type SealedKey struct {
	NewKey
	Prefix string
	Hash   []byte // SHA-256 of the whole key
}

// PageQuery asks for one page of a list.
type PageQuery struct {
	Cursor string // where the page before said the next begins; empty: the first
	Limit  int    // entries; 0 is 50, more than 500 is 500
}

// NewCollection is a collection to be.
type NewCollection struct {
	Name        string
	Description string
	Language    string // BCP 47; empty is "en"
	// Segmentation says how sections become passages; the zero value is the
	// segmenter with its usual settings.
	Segmentation Segmentation
	Plan         string // that searches run which name none; empty: the server's default
}

var collectionName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// CheckCollectionName checks that a field can be the name of a collection.
func CheckCollectionName(field, name string) error {
	if !collectionName.MatchString(name) {
		return Invalid(field, "%q: 1 to 128 letters, digits, dots, underscores and dashes, beginning with a letter or digit", name)
	}
	return nil
}

// Complete checks a collection that is to be made, and fills in what was left out.
func (c NewCollection) Complete() (_ NewCollection, err error) {
	if err := CheckCollectionName("name", c.Name); err != nil {
		return c, err
	}
	if err := CheckLength("description", c.Description, 0, MaxDescription); err != nil {
		return c, err
	}
	if c.Language == "" {
		c.Language = "en"
	}
	if err := CheckLanguage("language", c.Language); err != nil {
		return c, err
	}
	if err := CheckLength("plan", c.Plan, 0, MaxPlanName); err != nil {
		return c, err
	}
	c.Segmentation, err = c.Segmentation.Complete()
	return c, err
}

// CollectionChange changes a collection; nil stays.
type CollectionChange struct {
	Description *string
	Plan        *string // empty: the server's default
}

// Reply is a stored answer to a request that may be repeated.
type Reply struct {
	Status      int
	ContentType string
	Body        []byte
}
