// This file puts the parts together: what isn't given is run here.

package local

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// Given names servers that run already. An empty field means: none.
type Given struct {
	DatabaseURL     string
	NATSURL         string
	TemporalAddress string
}

// StackOptions say what a Stack runs on.
type StackOptions struct {
	// Dir is the data directory; each part has its own directory in it.
	Dir string
	// Given are servers to use in place of own ones.
	Given Given
	// Log gets what is worth telling; nil discards it.
	Log *slog.Logger
}

// partGrace is how long the other parts get to stop when one has failed.
const partGrace = 15 * time.Second

// Stack is all the servers that Sluice needs: the given ones, and the others run here. As a service it starts and
// stops the latter; their URLs are valid after Start and stay the same over later starts.
type Stack struct {
	*lifecycle.Group

	given    Given
	postgres *Postgres
	nats     *NATS
	temporal *Temporal
}

// NewStack checks the options; Start does the work.
func NewStack(opts StackOptions) (*Stack, error) {
	if opts.Dir == "" {
		return nil, errors.New("local stack: Dir: needed")
	}
	s := &Stack{given: opts.Given}
	var parts []lifecycle.Service
	var err error
	if s.given.DatabaseURL == "" {
		if s.postgres, err = NewPostgres(PostgresOptions{Dir: filepath.Join(opts.Dir, "postgres"), Log: opts.Log}); err != nil {
			return nil, fmt.Errorf("local stack: %w", err)
		}
		parts = append(parts, s.postgres)
	}
	if s.given.NATSURL == "" {
		if s.nats, err = NewNATS(NATSOptions{Dir: filepath.Join(opts.Dir, "nats"), Log: opts.Log}); err != nil {
			return nil, fmt.Errorf("local stack: %w", err)
		}
		parts = append(parts, s.nats)
	}
	if s.given.TemporalAddress == "" {
		if s.temporal, err = NewTemporal(TemporalOptions{Dir: filepath.Join(opts.Dir, "temporal"), Log: opts.Log}); err != nil {
			return nil, fmt.Errorf("local stack: %w", err)
		}
		parts = append(parts, s.temporal)
	}
	s.Group = lifecycle.NewGroup("local servers", partGrace, parts...)
	return s, nil
}

// DatabaseURL is the given one, or that of the Postgres run here.
func (s *Stack) DatabaseURL() string {
	if s.postgres == nil {
		return s.given.DatabaseURL
	}
	return s.postgres.URL()
}

// NATSURL is the given one, or that of the NATS run here.
func (s *Stack) NATSURL() string {
	if s.nats == nil {
		return s.given.NATSURL
	}
	return s.nats.URL()
}

// TemporalAddress is the given one, or that of the Temporal run here.
func (s *Stack) TemporalAddress() string {
	if s.temporal == nil {
		return s.given.TemporalAddress
	}
	return s.temporal.Address()
}
