package schema

import (
	"net/netip"
	"regexp"
	"time"

	"github.com/google/uuid"
)

// Tenant is one customer or department, isolated from all others. A nil quota is no limit.
type Tenant struct {
	ID           uuid.UUID
	Name         string
	MaxDocuments *int64
	MaxBytes     *int64
	CreatedAt    time.Time
}

// NewTenant is a tenant to be created.
type NewTenant struct {
	Name         string
	MaxDocuments *int64
	MaxBytes     *int64
}

// Key is an API key without its secret.
type Key struct {
	ID        uuid.UUID
	Name      string
	Prefix    string // the first characters of the key, which lists show
	Scopes    []Scope
	Groups    []string
	Addresses []netip.Prefix // ranges from which it may be used; empty: all
	CreatedAt time.Time
	ExpiresAt *time.Time
	RevokedAt *time.Time
	// LastUsedAt is within minutes of the last use; nil: never, or before Sluice recorded it.
	LastUsedAt *time.Time
	// Subject is Person.Subject if the row is a person's; empty: it is an API key.
	Subject     string
	Collections []CollectionScopes // besides Scopes, which apply to the tenant
}

// Storage is what a tenant stores, as its quotas count it.
type Storage struct {
	Documents int64 `json:"documents"`
	// Bytes is the size of the stored files. It counts each content once, and replaced versions
	// until they are purged.
	Bytes        int64  `json:"bytes"`
	MaxDocuments *int64 `json:"max_documents,omitempty"`
	MaxBytes     *int64 `json:"max_bytes,omitempty"`
}

// NewKey is an API key to be created.
type NewKey struct {
	Name      string
	Scopes    []Scope
	Groups    []string
	Addresses []netip.Prefix
	ExpiresAt *time.Time
	// Collections are scopes of single collections, besides Scopes, which apply to the tenant.
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
	Cursor string // the previous page's Next; empty: the first page
	Limit  int    // entries; 0 is 50, more than 500 is 500
}

// NewCollection is a collection to be created.
type NewCollection struct {
	Name        string
	Description string
	Language    string // BCP 47; empty is "en"
	// Segmentation says how sections become passages. The zero value is the segmenter with its
	// defaults.
	Segmentation Segmentation
	Plan         string // run by searches that name none; empty: the server's default
}

var collectionName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// CheckCollectionName returns an error if name is not a valid name of a collection.
func CheckCollectionName(field, name string) error {
	if !collectionName.MatchString(name) {
		return Invalid(field, "%q: 1 to 128 letters, digits, dots, underscores and dashes, beginning with a letter or digit", name)
	}
	return nil
}

// Complete checks a collection to be created and fills in defaults.
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

// CollectionChange changes a collection; nil fields stay.
type CollectionChange struct {
	Description *string
	Plan        *string // empty: the server's default
}

// Reply is the stored response to a request that may be repeated.
type Reply struct {
	Status      int
	ContentType string
	Body        []byte
}
