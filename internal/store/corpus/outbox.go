package corpus

// This file implements the outbox for its relay.

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
)

// Finds the subjects by skipping through the index, so that rows of a subject cost nothing, and
// neither do subjects that are full or claimed by another relay. The walk ends when it has counted
// enough rows, so that relays share the work. Without OFFSET 0 Postgres would count three times,
// once for each use of the count. With subject = n.subject it might go through the rows of all
// subjects in the order of their ids.
const claimSubjectsSQL = `
WITH RECURSIVE walk (subject, rows, total, subjects) AS (
    SELECT $1::text, 0::bigint, 0::bigint, 0
    UNION ALL
    SELECT n.subject, c.rows, w.total + c.rows, w.subjects + (c.rows > 0)::int
    FROM walk w
    CROSS JOIN LATERAL (SELECT o.subject FROM outbox o WHERE o.subject > w.subject ORDER BY o.subject LIMIT 1) n
    CROSS JOIN LATERAL (
        SELECT CASE WHEN n.subject = ANY ($2::text[]) OR EXISTS (SELECT FROM outbox_claims k WHERE k.subject = n.subject AND k.until >= now()) THEN 0
               ELSE (SELECT count(*) FROM (
                   SELECT FROM outbox o WHERE o.subject >= n.subject AND o.subject <= n.subject ORDER BY o.subject, o.id LIMIT $3) some_rows) END AS rows
        OFFSET 0) c
    WHERE w.total < $4 AND w.subjects < $5
), claimed AS (
    INSERT INTO outbox_claims AS k (subject, holder, until)
    SELECT subject, $6, now() + $7::interval FROM walk WHERE rows > 0 ORDER BY subject
    ON CONFLICT (subject) DO UPDATE SET holder = excluded.holder, until = excluded.until WHERE k.until < now()
    RETURNING subject
)
SELECT subject, false FROM claimed
UNION ALL
SELECT max(subject), true FROM walk HAVING max(total) >= $4 OR max(subjects) >= $5`

// This statement runs after the claims, so that it sees which rows the previous holder of the
// subjects deleted.
const claimedRowsSQL = `
SELECT r.id, r.subject, r.message_id, r.payload::text, coalesce(r.trace, ''), r.created_at
FROM unnest($1::text[], $2::int[]) AS s (subject, most), LATERAL (
    SELECT o.* FROM outbox o WHERE o.subject >= s.subject AND o.subject <= s.subject ORDER BY o.subject, o.id LIMIT s.most
) r`

const (
	deletePublishedSQL = `DELETE FROM outbox WHERE id = ANY ($1)`
	releaseSQL         = `DELETE FROM outbox_claims WHERE subject = ANY ($1) AND holder = $2`
)

// notFlushedSQL makes a transaction's commit wait neither for the disk nor for a standby.
const notFlushedSQL = `set_config('synchronous_commit', 'off', true)`

// RelayOutbox settles a round that was published, and claims the next rows of the outbox. No other
// relay gets their subjects until these are settled or the lease expires, so the messages of a
// subject are published in order. A round without subjects claims nothing. No transaction stays
// open while rows are published.
func (s *CorpusStore) RelayOutbox(ctx context.Context, done batch.Relayed, round batch.Round) (batch.Taken, error) {
	var out batch.Taken
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		out = batch.Taken{}
		b := &pgx.Batch{}
		// What a crash or a failover undoes of this is relayed again.
		b.Queue(`SELECT ` + notFlushedSQL)
		if len(done.Sent) > 0 {
			b.Queue(deletePublishedSQL, done.Sent)
		}
		if len(done.Subjects) > 0 {
			b.Queue(releaseSQL, done.Subjects, done.Holder)
		}
		if round.Subjects > 0 {
			b.Queue(claimSubjectsSQL, round.After, store.EmptyNotNull(round.Skip), round.PerSubject, round.Limit, round.Subjects,
				round.Lease.Holder, round.Lease.TTL).Query(func(rows pgx.Rows) error { return claimedSubjects(rows, &out) })
		}
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("settle %d messages and claim the next: %w", len(done.Sent), err)
		}
		if len(out.Subjects) == 0 {
			return nil
		}
		rows, err := tx.Query(ctx, claimedRowsSQL, out.Subjects, rowsOf(out.Subjects, round))
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		out.Messages, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (batch.Message, error) {
			var m batch.Message
			err := row.Scan(&m.ID, &m.Subject, &m.MsgID, &m.Payload, &m.Trace, &m.Queued)
			return m, err
		})
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		return nil
	})
	return out, store.Wrap(err, "relay the outbox")
}

// rowsOf returns the most rows of each subject that a round takes.
func rowsOf(subjects []string, round batch.Round) []int {
	out := make([]int, len(subjects))
	for i, subject := range subjects {
		out[i] = max(round.PerSubject, round.Limit/len(subjects))
		if room, ok := round.Room[subject]; ok {
			out[i] = min(out[i], room)
		}
	}
	return out
}

// claimedSubjects reads what claimSubjectsSQL returns.
func claimedSubjects(rows pgx.Rows, out *batch.Taken) error {
	var subject string
	var last bool
	_, err := pgx.ForEachRow(rows, []any{&subject, &last}, func() error {
		if last {
			out.After = subject
		} else {
			out.Subjects = append(out.Subjects, subject)
		}
		return nil
	})
	return err
}

// outboxCounted is the most rows of the outbox that are counted.
const outboxCounted = 100_000

// OutboxDepth returns the number of messages that wait to be published, up to 100,000, and when the
// oldest was queued, the zero time if there is none.
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
