package store

// This file keeps the answers to requests that clients may repeat under an
// idempotency key, so that a repeat does nothing twice.

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

const (
	// KeepReplies is how long a repeat gets the stored reply.
	KeepReplies = 24 * time.Hour
	// abandonAfter is when a request that never completed (its server died) no
	// longer keeps its key: longer than any request takes, or a repeat would act
	// beside the first one.
	abandonAfter = 15 * time.Minute

	beginReplySQL = `
INSERT INTO idempotency (tenant_id, key, route, request_hash) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, key) DO UPDATE
SET route = excluded.route, request_hash = excluded.request_hash, status = NULL, content_type = NULL, body = NULL, created_at = now()
WHERE idempotency.created_at < now() - CASE WHEN idempotency.status IS NULL THEN $5::interval ELSE $6::interval END`
	replySQL    = `SELECT route, request_hash, status, content_type, body FROM idempotency WHERE tenant_id = $1 AND key = $2 FOR SHARE`
	completeSQL = `UPDATE idempotency SET status = $3, content_type = $4, body = $5 WHERE tenant_id = $1 AND key = $2 AND status IS NULL`
	abandonSQL  = `DELETE FROM idempotency WHERE tenant_id = $1 AND key = $2 AND status IS NULL`
)

// BeginRequest claims an idempotency key for the request with this route and
// hash. A nil reply means: go on, then call CompleteRequest or AbandonRequest.
// A reply is what the same request got before. schema.ErrConflict means that
// another request has the key, or that the same one still runs.
func (s *Store) BeginRequest(ctx context.Context, p schema.Principal, key, route string, hash []byte) (*schema.Reply, error) {
	if key == "" || len(key) > 255 {
		return nil, schema.Invalid("Idempotency-Key", "has 1 to 255 bytes")
	}
	if err := checkText("Idempotency-Key", key); err != nil {
		return nil, err
	}
	var reply *schema.Reply
	err := s.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		reply = nil
		tag, err := tx.Exec(ctx, beginReplySQL, p.Tenant, key, route, hash, abandonAfter, KeepReplies)
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
		var (
			haveRoute   string
			haveHash    []byte
			status      *int
			contentType *string
			body        []byte
		)
		if err := tx.QueryRow(ctx, replySQL, p.Tenant, key).Scan(&haveRoute, &haveHash, &status, &contentType, &body); err != nil {
			if isNoRows(err) {
				return errRepeat // abandoned between the two statements
			}
			return err
		}
		switch {
		case haveRoute != route || !bytes.Equal(haveHash, hash):
			return fmt.Errorf("the key was used for another request: %w", schema.ErrConflict)
		case status == nil:
			return fmt.Errorf("the first request with this key still runs: %w", schema.ErrConflict)
		}
		reply = &schema.Reply{Status: *status, Body: body}
		if contentType != nil {
			reply.ContentType = *contentType
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("begin request %q: %w", key, err)
	}
	return reply, nil
}

// CompleteRequest stores what repeats of the request get.
func (s *Store) CompleteRequest(ctx context.Context, p schema.Principal, key string, r schema.Reply) error {
	err := s.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, completeSQL, p.Tenant, key, r.Status, r.ContentType, r.Body)
		if err == nil && tag.RowsAffected() == 0 {
			return fmt.Errorf("no request of this key runs: %w", schema.ErrConflict)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("complete request %q: %w", key, err)
	}
	return nil
}

// AbandonRequest frees a key whose request failed in a way that a repeat may
// mend.
func (s *Store) AbandonRequest(ctx context.Context, p schema.Principal, key string) error {
	err := s.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, abandonSQL, p.Tenant, key)
		return err
	})
	if err != nil {
		return fmt.Errorf("abandon request %q: %w", key, err)
	}
	return nil
}
