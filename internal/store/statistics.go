package store

// This file keeps the planner's statistics up with bulk writes, where
// autovacuum is late or off.

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

const analyzeGrownSQL = `SELECT sluice_analyze_grown()`

const (
	// mostAnalyzed bounds one call.
	mostAnalyzed = 64
	// analyzeAfter is how many versions a process writes between two looks.
	analyzeAfter = 500
)

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
