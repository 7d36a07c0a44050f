package store

import (
	"strconv"
	"time"
)

// A Lane is how long one statement of a transaction may run, including waits for locks. When it
// takes longer the error is schema.ErrUnavailable: a bad plan or a held lock costs its caller an
// error, and never a process its connections.
type Lane time.Duration

const (
	// Interactive is for requests that somebody waits for.
	Interactive = Lane(15 * time.Second)
	// Batch is for background work, and for the few requests whose statements take as long as what
	// they remove is large.
	Batch = Lane(2 * time.Minute)
	// Curation is for clustering: when a statement takes longer it is retried, then with newer
	// statistics.
	Curation = Lane(time.Minute)
)

// In returns the store with its transactions in another lane.
func (s *Store) In(l Lane) *Store { return &Store{s.core, l, s.independent} }

// Curating returns the store in the lane Curation, or in its own lane if that is shorter.
func (s *Store) Curating() *Store { return s.In(min(s.lane, Curation)) }

// milliseconds formats the lane for the setting statement_timeout.
func (l Lane) milliseconds() string {
	return strconv.FormatInt(max(time.Duration(l).Milliseconds(), 1), 10)
}
