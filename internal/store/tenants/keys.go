package tenants

// This file keeps API keys: their hashes, never the keys themselves.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// A replaced key ends at replaced_until, or before.
	keyColumns = `id, name, prefix, scopes, groups, addresses, created_at, least(expires_at, replaced_until), revoked_at, last_used_at, coalesce(subject, ''), collections`

	// A key without scopes in the tenant as a whole is stored with the hash of its hash (00242).
	insertKeySQL = `INSERT INTO api_keys (tenant_id, id, name, prefix, hash, scopes, groups, addresses, expires_at, collections)
VALUES ($1, $2, $3, $4, CASE WHEN cardinality($6::text[]) > 0 THEN $5::bytea ELSE sha256($5) END, $6, $7, $8, $9, $10) RETURNING ` + keyColumns
	keyPageSQL = `SELECT ` + keyColumns + ` FROM api_keys WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3`
	// Revoking a key again keeps the first time.
	revokeKeySQL = `UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE tenant_id = $1 AND id = $2 RETURNING ` + keyColumns
	// Replacing a key repeatedly does not extend it; least ignores nulls.
	replaceKeySQL = `UPDATE api_keys SET replaced_until = least(replaced_until, $3) WHERE tenant_id = $1 AND id = $2`
	ownEndSQL     = `SELECT expires_at FROM api_keys WHERE tenant_id = $1 AND id = $2`
	lockedKeySQL  = `SELECT ` + keyColumns + ` FROM api_keys WHERE tenant_id = $1 AND id = $2 FOR UPDATE`
	keyUsedSQL    = `UPDATE api_keys SET last_used_at = now() WHERE tenant_id = $1 AND id = $2 AND (last_used_at IS NULL OR last_used_at < now() - $3::interval)`
	keyByHashSQL  = `SELECT tenant_id, ` + keyColumns + ` FROM api_keys WHERE hash IN ($1, sha256($1)) AND subject IS NULL`
)

// CreateKey stores a key of tenant. Package auth validates and seals keys. The error is
// schema.ErrNotFound for an unknown tenant.
func (s *TenantStore) CreateKey(ctx context.Context, p schema.Principal, tenant uuid.UUID, k schema.SealedKey) (schema.Key, error) {
	var out schema.Key
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = insertKey(ctx, tx, p, tenant, k)
		return err
	})
	return out, store.Wrap(err, "create key %q of tenant %s", k.Name, tenant)
}

func insertKey(ctx context.Context, tx pgx.Tx, p schema.Principal, tenant uuid.UUID, k schema.SealedKey) (schema.Key, error) {
	id := schema.NewID()
	groups, addresses := store.EmptyNotNull(k.Groups), store.EmptyNotNull(k.Addresses)
	scopes, collections := store.EmptyNotNull(k.Scopes), store.EmptyNotNull(unnamed(k.Collections))
	out, err := keyRow(tx.Query(ctx, insertKeySQL, tenant, id, k.Name, k.Prefix, k.Hash, scopes, groups, addresses, k.ExpiresAt, collections))
	if err != nil {
		return out, err
	}
	if err := nameCollections(ctx, tx, tenant, []schema.Key{out}); err != nil {
		return out, err
	}
	details := map[string]any{"name": k.Name, "scopes": scopes, "groups": groups}
	if len(out.Collections) > 0 {
		details["collections"] = out.Collections
	}
	if len(addresses) > 0 {
		details["addresses"] = addresses
	}
	return out, store.Audit(ctx, tx, tenant, p, "key.create", id.String(), details)
}

// Keys returns a page of p's tenant's keys, oldest first, and the next cursor.
func (s *TenantStore) Keys(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Key, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.Key
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, keyPageSQL, p.Tenant, pg.After, pg.Limit+1)
		if err != nil {
			return err
		}
		if out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.Key]); err != nil {
			return err
		}
		return nameCollections(ctx, tx, p.Tenant, out)
	})
	if err != nil {
		return nil, "", fmt.Errorf("list keys: %w", err)
	}
	out, next := store.Cut(pg, out, func(k schema.Key) uuid.UUID { return k.ID })
	return out, next, nil
}

// RevokeKey revokes a key of p's tenant for good.
func (s *TenantStore) RevokeKey(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Key, error) {
	var out schema.Key
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = keyRow(tx.Query(ctx, revokeKeySQL, p.Tenant, id))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, endSessionsSQL, p.Tenant, id); err != nil { // if the row is a person's
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "key.revoke", id.String(), nil)
	})
	if err != nil {
		return out, fmt.Errorf("revoke key: %w", store.Named(err, "key", id))
	}
	return out, nil
}

// RotateKey replaces a key of p's tenant by next, which gets its name, scopes, collections, groups
// and addresses, and its original end; the old key stays valid until until, or its own end.
// RotateKey first calls may with the old key, and returns its error. The error is
// schema.ErrConflict for a key that has ended.
func (s *TenantStore) RotateKey(ctx context.Context, p schema.Principal, id uuid.UUID, next schema.SealedKey,
	now, until time.Time, may func(old schema.Key) error) (schema.Key, error) {
	var out schema.Key
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		old, err := keyRow(tx.Query(ctx, lockedKeySQL, p.Tenant, id))
		if err != nil {
			return store.Named(err, "key", id)
		}
		if err := may(old); err != nil {
			return err
		}
		if old.RevokedAt != nil || old.ExpiresAt != nil && !old.ExpiresAt.After(now) {
			return fmt.Errorf("it has ended; create a new key: %w", schema.ErrConflict)
		}
		next.NewKey = schema.NewKey{Name: old.Name, Scopes: old.Scopes, Groups: old.Groups, Addresses: old.Addresses, Collections: old.Collections}
		if err := tx.QueryRow(ctx, ownEndSQL, p.Tenant, id).Scan(&next.ExpiresAt); err != nil {
			return err
		}
		if out, err = insertKey(ctx, tx, p, p.Tenant, next); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, replaceKeySQL, p.Tenant, id, until); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "key.rotate", id.String(), map[string]any{"by": out.ID, "until": until})
	})
	return out, store.Wrap(err, "rotate key %s", id)
}

// KeyByHash returns the key with a hash and its tenant, including revoked and expired keys. It
// works before any tenant is known.
func (s *TenantStore) KeyByHash(ctx context.Context, hash []byte) (uuid.UUID, schema.Key, error) {
	var found struct {
		Tenant uuid.UUID
		schema.Key
	}
	err := s.db.AsAuth(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, keyByHashSQL, hash)
		if err != nil {
			return err
		}
		found, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct {
			Tenant uuid.UUID
			schema.Key
		}])
		return err
	})
	if err != nil {
		return uuid.Nil, schema.Key{}, fmt.Errorf("look up a key: %w", err)
	}
	return found.Tenant, found.Key, nil
}

// KeyUsed records that a key is used now, unless that was recorded less than within ago.
func (s *TenantStore) KeyUsed(ctx context.Context, tenant, id uuid.UUID, within time.Duration) error {
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, keyUsedSQL, tenant, id, within)
		return err
	})
	return store.Wrap(err, "note that key %s is used", id)
}

func keyRow(rows pgx.Rows, err error) (schema.Key, error) {
	if err != nil {
		return schema.Key{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[schema.Key])
}
