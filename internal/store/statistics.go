package store

// This file keeps the planner's statistics up to date with bulk writes, where autovacuum is late or
// off.

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
	// Looks at no table's size, while analyzeGrownSQL looks at all. The number is some seconds
	// late.
	insertedSQL = `SELECT pg_stat_get_db_tuples_inserted(oid) FROM pg_database WHERE datname = current_database()`
)

const (
	// maxAnalyzed bounds the tables that one call analyses.
	maxAnalyzed = 64
	// analyzeAfter is how many versions a process writes between two calls of AnalyzeGrown.
	analyzeAfter = 500
	// analyzeAnyway is after how long AnalyzeChanged looks at the tables even if the number of rows
	// is unchanged: statistics of activity may be off.
	analyzeAnyway = time.Minute
)

// sizeCheck is when the sizes of tables were last checked.
type sizeCheck struct {
	mu       sync.Mutex
	at       time.Time
	inserted int64 // rows that had been inserted before
}

// AnalyzeChanged is AnalyzeGrown for periodic calls: while no rows are inserted it checks the
// tables once a minute.
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

// AnalyzeGrown analyses the tables that have at least twice as many pages as when they were last
// analysed. Several processes may call it at once: one does the work.
func (s *Store) AnalyzeGrown(ctx context.Context) error {
	for range maxAnalyzed {
		var table *string
		err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, analyzeGrownSQL).Scan(&table)
		})
		if lockNotGiven(err) {
			return nil // a table is being created or dropped; the next call is soon enough
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

// CountWritten counts written versions, and calls AnalyzeGrown after every analyzeAfter of them. A
// failure only leaves statistics old.
func (s *Store) CountWritten(ctx context.Context, versions int) {
	if n := s.written.Add(int64(versions)); n < analyzeAfter || !s.written.CompareAndSwap(n, 0) {
		return
	}
	if err := s.AnalyzeGrown(ctx); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot update the database's statistics", "error", err)
	}
}
