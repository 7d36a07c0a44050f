package corpus

// This file is the outbox as its relay sees it.

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
)

// The subjects are found by skipping through the index, so that neither their
// rows nor those of a subject that is full cost anything.
const relaySQL = `
WITH RECURSIVE subjects AS (
    (SELECT subject FROM outbox WHERE subject > $1 ORDER BY subject LIMIT 1)
    UNION ALL
    SELECT (SELECT o.subject FROM outbox o WHERE o.subject > s.subject ORDER BY o.subject LIMIT 1)
    FROM subjects s WHERE s.subject IS NOT NULL
), chosen AS (
    SELECT subject FROM subjects WHERE subject IS NOT NULL AND subject <> ALL($2::text[]) LIMIT $4
)
SELECT r.id, r.subject, r.message_id, r.payload::text, coalesce(r.trace, ''), r.created_at
FROM chosen, LATERAL (
    SELECT o.* FROM outbox o WHERE o.subject = chosen.subject ORDER BY o.id LIMIT $3 FOR UPDATE SKIP LOCKED
) r`

// RelayOutbox locks the next rows of the outbox, gives them to publish, and
// deletes those whose ids publish returns. Rows that another process holds are
// passed over. It returns the last subject of the round (empty when the round
// reached the end), how many rows it found, and how many it deleted.
func (s *CorpusStore) RelayOutbox(ctx context.Context, round batch.Round, publish func(context.Context, []batch.Message) []int64) (after string, found, deleted int, err error) {
	subjects := max(round.Limit/round.PerSubject, 1)
	err = s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		after, found, deleted = "", 0, 0
		skip := round.Skip
		if skip == nil {
			skip = []string{}
		}
		rows, err := tx.Query(ctx, relaySQL, round.After, skip, round.PerSubject, subjects)
		if err != nil {
			return err
		}
		messages, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (batch.Message, error) {
			var m batch.Message
			err := row.Scan(&m.ID, &m.Subject, &m.MsgID, &m.Payload, &m.Trace, &m.Queued)
			return m, err
		})
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		found = len(messages)
		seen := 0
		for i, m := range messages {
			if i == 0 || m.Subject != messages[i-1].Subject {
				seen++
			}
		}
		if seen == subjects {
			after = messages[found-1].Subject
		}
		if found == 0 {
			return nil
		}
		sent := publish(ctx, messages)
		deleted = len(sent)
		if deleted == 0 {
			return nil
		}
		if _, err := tx.Exec(ctx, `DELETE FROM outbox WHERE id = ANY($1)`, sent); err != nil {
			return fmt.Errorf("delete published rows: %w", err)
		}
		return nil
	})
	return after, found, deleted, err
}

// outboxCounted bounds how many rows of the outbox are counted.
const outboxCounted = 100_000

// OutboxDepth returns how many messages wait to be published, up to 100,000, and
// since when the oldest does; the zero time when none does.
func (s *CorpusStore) OutboxDepth(ctx context.Context) (rows int64, oldest time.Time, err error) {
	err = s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var at *time.Time
		oldest = time.Time{}
		err := tx.QueryRow(ctx, `
			SELECT (SELECT count(*) FROM (SELECT id FROM outbox LIMIT $1) o), (SELECT created_at FROM outbox ORDER BY id LIMIT 1)`,
			outboxCounted).Scan(&rows, &at)
		if at != nil {
			oldest = *at
		}
		return err
	})
	return rows, oldest, store.Wrap(err, "measure the outbox")
}
