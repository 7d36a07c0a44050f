package store

// This file keeps the replies to requests that clients may repeat under an idempotency key, so that
// a repeat has no effect. The reply is written in the transaction that makes all changes of its
// request.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

const (
	// KeepReplies is how long a repeat gets the stored reply.
	KeepReplies = 24 * time.Hour
	// abandonAfter is the time after which a request without a reply loses its key. Older builds
	// claimed a key before they acted: one of their requests may still run, but none takes that
	// long.
	abandonAfter = 15 * time.Minute

	// The lock is held until the transaction ends. An equal request that comes meanwhile fails at
	// once, instead of waiting with a connection.
	lockReplySQL  = `SELECT pg_try_advisory_xact_lock(hashtextextended('repeat ' || $1::text || ' ' || $2::text, 0))`
	claimReplySQL = `
INSERT INTO idempotency (tenant_id, key, route, request_hash) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, key) DO UPDATE
SET route = excluded.route, request_hash = excluded.request_hash, status = NULL, content_type = NULL, body = NULL,
    created_at = now()
WHERE idempotency.created_at < now() - CASE WHEN idempotency.status IS NULL THEN $5::interval ELSE $6::interval END`
	replySQL    = `SELECT route, request_hash, status, content_type, body FROM idempotency WHERE tenant_id = $1 AND key = $2`
	completeSQL = `UPDATE idempotency SET status = $3, content_type = $4, body = $5 WHERE tenant_id = $1 AND key = $2`
)

// errUndo rolls back a transaction whose request must leave nothing behind.
var errUndo = errors.New("the request is undone")

// Once runs act for the first request with an idempotency key, and stores its reply in the same
// transaction as everything that act does through s under its context: either both are committed,
// or neither. When act returns no reply, what it did is rolled back. act may run several times;
// only the last run counts.
//
// For a repeat Once returns the reply of the first request, without running act. Otherwise it
// returns nil, nil after act ran. The error is schema.ErrInProgress while the first request runs,
// and schema.ErrConflict when the key was used for another request.
func (s *Store) Once(ctx context.Context, p schema.Principal, key, route string, hash []byte,
	act func(ctx context.Context) *schema.Reply) (*schema.Reply, error) {
	if key == "" || len(key) > 255 {
		return nil, schema.Invalid("Idempotency-Key", "has 1 to 255 bytes")
	}
	if err := schema.CheckText("Idempotency-Key", key); err != nil {
		return nil, err
	}
	var before *schema.Reply
	err := s.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		if before, err = claimReply(ctx, tx, p, key, route, hash); err != nil || before != nil {
			return err
		}
		reply := act(within(ctx, outerTx{core: s.core, tx: tx, as: txScope{roleApp, p.Tenant.String(), s.lane}}))
		if reply == nil {
			return errUndo
		}
		_, err = tx.Exec(ctx, completeSQL, p.Tenant, key, reply.Status, reply.ContentType, reply.Body)
		return err
	})
	if err != nil && !errors.Is(err, errUndo) {
		return nil, fmt.Errorf("request %q: %w", key, err)
	}
	return before, nil
}

// claimReply claims key for this transaction, or returns the reply that is stored for it.
func claimReply(ctx context.Context, tx pgx.Tx, p schema.Principal, key, route string, hash []byte) (
	*schema.Reply, error) {
	var free bool
	if err := tx.QueryRow(ctx, lockReplySQL, p.Tenant, key).Scan(&free); err != nil {
		return nil, err
	}
	if !free {
		return nil, fmt.Errorf("a request with this key still runs: %w", schema.ErrInProgress)
	}
	tag, err := tx.Exec(ctx, claimReplySQL, p.Tenant, key, route, hash, abandonAfter, KeepReplies)
	if err != nil || tag.RowsAffected() == 1 {
		return nil, err
	}
	var (
		haveRoute   string
		haveHash    []byte
		status      *int
		contentType *string
		body        []byte
	)
	err = tx.QueryRow(ctx, replySQL, p.Tenant, key).Scan(&haveRoute, &haveHash, &status, &contentType, &body)
	if err != nil {
		if IsNoRows(err) {
			return nil, ErrRepeat // purged between the two statements
		}
		return nil, err
	}
	switch {
	case haveRoute != route || !bytes.Equal(haveHash, hash):
		return nil, fmt.Errorf("the key was used for another request: %w", schema.ErrConflict)
	case status == nil:
		return nil, fmt.Errorf("a request with this key still runs: %w", schema.ErrInProgress)
	}
	reply := &schema.Reply{Status: *status, Body: body}
	if contentType != nil {
		reply.ContentType = *contentType
	}
	return reply, nil
}
