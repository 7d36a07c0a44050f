package tenants

// This file keeps people who sign in at an identity provider, as rows among the keys, and their
// sessions: hashes of secrets, never the secrets themselves.

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// The hash in a person's row is random, and changes with each sign-in (00243).
	putPersonSQL = `INSERT INTO api_keys (tenant_id, id, name, prefix, hash, scopes, groups, subject, collections) VALUES ($1, $2, $3, '', $4, $5, $6, $7, $8)
ON CONFLICT (subject, tenant_id) WHERE subject IS NOT NULL DO UPDATE SET name = excluded.name, scopes = excluded.scopes, groups = excluded.groups,
    collections = excluded.collections, hash = excluded.hash
RETURNING ` + keyColumns

	sessionColumns = `s.id, s.key_id, k.name, s.created_at, s.expires_at, s.ended_at, s.last_used_at, s.address, s.agent`
	ofSessions     = ` FROM sessions s JOIN api_keys k ON k.tenant_id = s.tenant_id AND k.id = s.key_id `

	insertSessionSQL = `INSERT INTO sessions (tenant_id, id, key_id, hash, expires_at, address, agent) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	// Hides the sessions of a person without scopes in the tenant as a whole from programs that are
	// older than 00243.
	hideSessionsSQL = `UPDATE sessions SET hash = hash || '\x00'::bytea WHERE tenant_id = $1 AND key_id = $2 AND length(hash) = 32`
	oneSessionSQL   = `SELECT ` + sessionColumns + ofSessions + `WHERE s.tenant_id = $1 AND s.id = $2 AND ($3::uuid IS NULL OR s.key_id = $3)`
	sessionPageSQL  = `SELECT ` + sessionColumns + ofSessions + `
WHERE s.tenant_id = $1 AND ($2::uuid IS NULL OR s.id < $2) AND ($4::uuid IS NULL OR s.key_id = $4) ORDER BY s.id DESC LIMIT $3`
	sessionByHashSQL = `SELECT tenant_id, id, key_id, '', created_at, expires_at, ended_at, last_used_at, address, agent FROM sessions WHERE substr(hash, 1, 32) = $1`
	keyOfSessionSQL  = `SELECT ` + keyColumns + ` FROM api_keys WHERE tenant_id = $1 AND id = $2`
	// A session that was ended or has expired keeps its end.
	endSessionSQL = `UPDATE sessions SET ended_at = now() WHERE tenant_id = $1 AND id = $2 AND ended_at IS NULL AND expires_at > now()`
	// All sessions of a person, by the person's row.
	endSessionsSQL    = `UPDATE sessions SET ended_at = now() WHERE tenant_id = $1 AND key_id = $2 AND ended_at IS NULL AND expires_at > now()`
	forgetSessionsSQL = `DELETE FROM sessions WHERE tenant_id = $1 AND key_id = $2 AND least(expires_at, ended_at) < now() - $3::interval`
	sessionUsedSQL    = `UPDATE sessions SET last_used_at = now() WHERE tenant_id = $1 AND id = $2 AND (last_used_at IS NULL OR last_used_at < now() - $3::interval)`
	rowsOfPersonSQL   = `SELECT k.tenant_id, k.id FROM api_keys k WHERE k.subject = $1
AND EXISTS (SELECT FROM sessions s WHERE s.tenant_id = k.tenant_id AND s.key_id = k.id AND s.ended_at IS NULL AND s.expires_at > now())`
)

// sessionsKept is how long a person's ended sessions stay in the list.
const sessionsKept = 30 * 24 * time.Hour

// SignIn creates a session of a person in a tenant. At the first sign-in it creates the person's
// row, and later it updates the row's name, scopes, collections and groups. The error is
// schema.ErrForbidden if the row was revoked; the row stays as it was then.
func (s *TenantStore) SignIn(ctx context.Context, tenant uuid.UUID, person schema.Person, session schema.SealedSession) (schema.Key, schema.PersonSession, error) {
	unknown := make([]byte, 32)
	if _, err := rand.Read(unknown); err != nil {
		return schema.Key{}, schema.PersonSession{}, fmt.Errorf("no randomness for a person's row: %w", err)
	}
	person.Scopes, person.Groups = store.EmptyNotNull(person.Scopes), store.EmptyNotNull(person.Groups)
	collections := store.EmptyNotNull(unnamed(person.Collections))
	var row schema.Key
	var created schema.PersonSession
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		row, err = keyRow(tx.Query(ctx, putPersonSQL, tenant, schema.NewID(), person.Name, unknown, person.Scopes, person.Groups, person.Subject, collections))
		if err != nil {
			return err
		}
		if row.RevokedAt != nil {
			return fmt.Errorf("an admin of the tenant revoked their access: %w", schema.ErrForbidden)
		}
		if _, err := tx.Exec(ctx, forgetSessionsSQL, tenant, row.ID, sessionsKept); err != nil {
			return err
		}
		id := schema.NewID()
		if _, err := tx.Exec(ctx, insertSessionSQL, tenant, id, row.ID, session.Hash, session.ExpiresAt, session.Address, session.Agent); err != nil {
			return err
		}
		if len(person.Scopes) == 0 {
			if _, err := tx.Exec(ctx, hideSessionsSQL, tenant, row.ID); err != nil {
				return err
			}
		}
		if created, err = sessionRow(tx.Query(ctx, oneSessionSQL, tenant, id, nil)); err != nil {
			return err
		}
		details := map[string]any{"name": person.Name, "scopes": person.Scopes, "groups": person.Groups, "address": session.Address}
		if len(row.Collections) > 0 {
			if err := nameCollections(ctx, tx, tenant, []schema.Key{row}); err != nil {
				return err
			}
			details["collections"] = row.Collections
		}
		return store.Audit(ctx, tx, tenant, schema.Principal{Tenant: tenant, Key: row.ID}, "session.begin", id.String(), details)
	})
	return row, created, store.Wrap(err, "sign in to tenant %s", tenant)
}

// SessionByHash returns the session with a hash, its tenant and the row of its person, including
// sessions that have ended. It works before any tenant is known.
func (s *TenantStore) SessionByHash(ctx context.Context, hash []byte) (uuid.UUID, schema.PersonSession, schema.Key, error) {
	type inTenant struct {
		Tenant uuid.UUID
		schema.PersonSession
	}
	var found inTenant
	var person schema.Key
	err := s.db.AsAuth(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sessionByHashSQL, hash)
		if err != nil {
			return err
		}
		if found, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[inTenant]); err != nil {
			return err
		}
		person, err = keyRow(tx.Query(ctx, keyOfSessionSQL, found.Tenant, found.Key))
		found.Name = person.Name
		return err
	})
	return found.Tenant, found.PersonSession, person, store.Wrap(err, "look up a session")
}

// SessionUsed records that a person's session is used now, unless that was recorded less than
// within ago.
func (s *TenantStore) SessionUsed(ctx context.Context, tenant, id, person uuid.UUID, within time.Duration) error {
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sessionUsedSQL, tenant, id, within); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, keyUsedSQL, tenant, person, within)
		return err
	})
	return store.Wrap(err, "note that session %s is used", id)
}

// Sessions returns a page of the sessions of one person of p's tenant, or of all for uuid.Nil,
// newest first, and the next cursor.
func (s *TenantStore) Sessions(ctx context.Context, p schema.Principal, of uuid.UUID, q schema.PageQuery) ([]schema.PersonSession, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.PersonSession
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sessionPageSQL, p.Tenant, pg.After, pg.Limit+1, store.NilIsNull(of))
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.PersonSession])
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list sessions: %w", err)
	}
	out, next := store.Cut(pg, out, func(s schema.PersonSession) uuid.UUID { return s.ID })
	return out, next, nil
}

// EndSession ends a session of one person of p's tenant, or of anybody there for uuid.Nil. It
// leaves a session that has ended as it is.
func (s *TenantStore) EndSession(ctx context.Context, p schema.Principal, id, of uuid.UUID) error {
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := sessionRow(tx.Query(ctx, oneSessionSQL, p.Tenant, id, store.NilIsNull(of))); err != nil {
			return store.Named(err, "session", id)
		}
		tag, err := tx.Exec(ctx, endSessionSQL, p.Tenant, id)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "session.end", id.String(), nil)
	})
	return store.Wrap(err, "end session")
}

// EndSessionsElsewhere ends the sessions of a person in all tenants but those in but, because the
// person has lost access there. It returns the tenants where there were any.
func (s *TenantStore) EndSessionsElsewhere(ctx context.Context, subject string, but []uuid.UUID) ([]uuid.UUID, error) {
	type row struct{ Tenant, ID uuid.UUID }
	var found []row
	err := s.db.AsAuth(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, rowsOfPersonSQL, subject)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up a person's sessions: %w", err)
	}
	var ended []uuid.UUID
	for _, r := range found {
		if slices.Contains(but, r.Tenant) {
			continue
		}
		err := s.db.AsTenant(ctx, r.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, endSessionsSQL, r.Tenant, r.ID); err != nil {
				return err
			}
			return store.Audit(ctx, tx, r.Tenant, schema.Principal{}, "session.end", r.ID.String(), map[string]any{"reason": "no rule gives access any more"})
		})
		if err != nil {
			return ended, fmt.Errorf("end a person's sessions in tenant %s: %w", r.Tenant, err)
		}
		ended = append(ended, r.Tenant)
	}
	return ended, nil
}

func sessionRow(rows pgx.Rows, err error) (schema.PersonSession, error) {
	if err != nil {
		return schema.PersonSession{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[schema.PersonSession])
}
