package store

// This file keeps the planner's statistics up with bulk writes, where
// autovacuum is late or off.

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	analyzeGrownSQL = `SELECT sluice_analyze_grown()`
	// Asks no table how large it is, which the other one asks all. It is some seconds late.
	insertedSQL = `SELECT pg_stat_get_db_tuples_inserted(oid) FROM pg_database WHERE datname = current_database()`
)

const (
	// mostAnalyzed bounds one call.
	mostAnalyzed = 64
	// analyzeAfter is how many versions a process writes between two looks.
	analyzeAfter = 500
	// analyzeAnyway is after how long AnalyzeChanged looks though no row seems to have come:
	// statistics of activity may be off.
	analyzeAnyway = time.Minute
)

// grownLook is the last look at how much tables have grown.
type grownLook struct {
	mu       sync.Mutex
	at       time.Time
	inserted int64 // rows that had come into the database before
}

// AnalyzeChanged is AnalyzeGrown for who calls it again and again: while no rows come it looks at
// the tables once a minute.
func (s *Store) AnalyzeChanged(ctx context.Context) error {
	now := time.Now()
	var inserted int64
	if err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, insertedSQL).Scan(&inserted)
	}); err != nil {
		return fmt.Errorf("count the rows that came: %w", err)
	}
	g := &s.grown
	g.mu.Lock()
	quiet := g.inserted == inserted && now.Sub(g.at) < analyzeAnyway
	g.mu.Unlock()
	if quiet {
		return nil
	}
	if err := s.AnalyzeGrown(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	g.at, g.inserted = now, inserted
	g.mu.Unlock()
	return nil
}

// AnalyzeGrown analyses the tables that have twice the pages that they had when
// they were last analysed. Several processes may call it at once: one does it.
func (s *Store) AnalyzeGrown(ctx context.Context) error {
	for range mostAnalyzed {
		var table *string
		err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, analyzeGrownSQL).Scan(&table)
		})
		if lockNotGiven(err) {
			return nil // a table is being made or dropped; the next look is soon enough
		}
		if err != nil {
			return fmt.Errorf("analyse tables that grew: %w", err)
		}
		if table == nil {
			return nil
		}
		slog.DebugContext(ctx, "analysed a table that grew", "table", *table)
	}
	return nil
}

// Wrote looks for tables that grew after every so many versions that were
// written. What was written stays when that fails.
func (s *Store) Wrote(ctx context.Context, versions int) {
	if n := s.written.Add(int64(versions)); n < analyzeAfter || !s.written.CompareAndSwap(n, 0) {
		return
	}
	if err := s.AnalyzeGrown(ctx); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "the database's statistics are old", "error", err)
	}
}
