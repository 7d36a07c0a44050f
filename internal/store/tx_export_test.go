package store

import "context"

// Outside runs a statement on a connection of the pool, outside of the store's transactions.
func (s *Store) Outside(ctx context.Context, sql string) error {
	_, err := s.pool.Exec(ctx, sql)
	return Translate(err)
}

// Lane returns the store's lane.
func (s *Store) Lane() Lane { return s.lane }
