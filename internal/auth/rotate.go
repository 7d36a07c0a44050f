package auth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// maxOverlap is how long a key is good at most after another replaced it.
const maxOverlap = 30 * 24 * time.Hour

// RotateKey makes a key in place of another of p's tenant, with its name, scopes, collections,
// groups and addresses, and returns it this once. Both are good for the overlap; the old one ends
// with it. Who may make keys with those scopes may rotate a key, and the key itself may; a person
// that it acts for may not.
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
			return fmt.Errorf("it is a person who signs in, and has no key: %w", schema.ErrConflict)
		}
		// A key that acts for somebody has not all of its scopes.
		if p.Key == old.ID && p.Person == "" && slices.Equal(p.Scopes, old.Scopes) {
			return nil
		}
		return mayGive(p, everyScope(old.Scopes, old.Collections))
	}
	now := a.now().Truncate(time.Microsecond) // as exact as the store
	stored, err := a.store.RotateKey(ctx, p, id, sealed, now, now.Add(overlap), may)
	if err != nil {
		return schema.Key{}, "", err
	}
	a.forget(id) // so that its new end is seen
	return stored, key, nil
}
