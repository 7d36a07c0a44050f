package auth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// maxOverlap bounds how long a replaced key stays valid.
const maxOverlap = 30 * 24 * time.Hour

// RotateKey creates a key in place of another of p's tenant, with its name, scopes, collections,
// groups and addresses, and returns it for the only time. Both are valid during the overlap; then
// the old one ends. A principal that may create keys with those scopes may rotate a key, and so may
// the key itself, but not while it acts for a person.
func (a *Auth) RotateKey(ctx context.Context, p schema.Principal, id uuid.UUID, overlap time.Duration) (schema.Key, string, error) {
	if overlap < 0 || overlap > maxOverlap {
		return schema.Key{}, "", schema.Invalid("overlap_seconds", "must be from 0 to %d (30 days)", int(maxOverlap.Seconds()))
	}
	key, sealed, err := seal(schema.NewKey{})
	if err != nil {
		return schema.Key{}, "", err
	}
	may := func(old schema.Key) error {
		if old.Subject != "" {
			return fmt.Errorf("it belongs to a person who signs in, who has no key to rotate: %w", schema.ErrConflict)
		}
		// A key that acts for somebody does not have all of its scopes.
		if p.Key == old.ID && p.Person == "" && slices.Equal(p.Scopes, old.Scopes) {
			return nil
		}
		return mayGive(p, everyScope(old.Scopes, old.Collections))
	}
	now := a.now().Truncate(time.Microsecond) // the precision of the store
	stored, err := a.store.RotateKey(ctx, p, id, sealed, now, now.Add(overlap), may)
	if err != nil {
		return schema.Key{}, "", err
	}
	a.forget(id) // so that its new end applies
	return stored, key, nil
}
