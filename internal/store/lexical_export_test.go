package store

import (
	"context"

	"github.com/google/uuid"
)

// HoldMerge does all of a merge of the first generation up to its last
// transaction, which is what it returns.
func (s *Store) HoldMerge(ctx context.Context, tenant, collection uuid.UUID) func() (int, error) {
	at := place{tenant, collection, 1}
	inputs, dead, err := s.chooseMerge(ctx, at)
	if err != nil {
		return func() (int, error) { return 0, err }
	}
	built, err := s.mergeSegments(ctx, at, inputs, dead)
	return func() (int, error) {
		if err != nil {
			return 0, err
		}
		done, err := s.replaceSegments(ctx, at, inputs, dead, built)
		if !done || err != nil {
			return 0, err
		}
		return len(inputs), nil
	}
}
