package store

import (
	"strconv"
	"time"
)

// A Lane is how long one statement of a transaction may run, waiting for locks
// included. One that runs out is schema.ErrUnavailable: a plan that is wrong, or
// a lock that is held, costs its caller an error and never a process its
// connections.
type Lane time.Duration

const (
	// Interactive is for what somebody waits for.
	Interactive = Lane(15 * time.Second)
	// Batch is for work in the background, and for the few requests whose
	// statements take as long as what they remove.
	Batch = Lane(2 * time.Minute)
	// Curation is for clustering: the next try of a statement that takes longer has
	// newer statistics.
	Curation = Lane(time.Minute)
)

// In returns the store with its doors in another lane.
func (s *Store) In(l Lane) *Store { return &Store{s.core, l, s.apart} }

// Curating returns the store in the lane of curation, or in its own where that is shorter.
func (s *Store) Curating() *Store { return s.In(min(s.lane, Curation)) }

// milliseconds is the lane as the setting statement_timeout.
func (l Lane) milliseconds() string {
	return strconv.FormatInt(max(time.Duration(l).Milliseconds(), 1), 10)
}
