// Package sources keeps sources: remote folders and the like that collections are synchronized
// with, their items, and the results of runs. Package follow does the work.
package sources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/schema"
)

// SourceStore keeps the tenants' sources.
type SourceStore struct{ db *store.Store }

// New returns the SourceStore of a database.
func New(db *store.Store) *SourceStore { return &SourceStore{db} }

const (
	// maxSources bounds the sources of a tenant.
	maxSources = 200

	sourceColumns = `s.id, s.collection_id, s.name, s.driver, s.settings, s.secret_fields, s.include, s.exclude, s.labels, s.max_bytes, s.max_items,
       s.max_shorter, s.every, s.state, s.problem, s.problem_at, s.tries, CASE WHEN s.state NOT IN ('running', 'removing') THEN s.due_at END, s.created_at`

	insertSourceSQL = `
INSERT INTO sources (tenant_id, id, collection_id, name, driver, settings, secrets, secret_fields, include, exclude, labels, max_bytes, max_items,
                     max_shorter, every, state, due_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, CASE $16 WHEN 'waiting' THEN now() END)`

	sourceSQL      = `SELECT ` + sourceColumns + ` FROM sources s WHERE s.tenant_id = $1 AND s.id = $2`
	listSourcesSQL = `SELECT ` + sourceColumns + ` FROM sources s WHERE s.tenant_id = $1 AND ($2::uuid IS NULL OR s.collection_id = $2)
   AND ($3::uuid IS NULL OR s.id < $3) ORDER BY s.id DESC LIMIT $4`

	countsSQL = `
SELECT count(*) FILTER (WHERE pending <> 'delete'), count(*) FILTER (WHERE document_id IS NOT NULL), count(*) FILTER (WHERE pending <> '')
FROM source_items WHERE tenant_id = $1 AND source_id = $2`

	runColumns = `id, state, whole, before, seen, added, changed, unchanged, moved, deleted, skipped, fetched, bytes, problem, started_at, finished_at`

	lastRunSQL  = `SELECT ` + runColumns + ` FROM source_runs WHERE tenant_id = $1 AND source_id = $2 ORDER BY id DESC LIMIT 1`
	listRunsSQL = `SELECT ` + runColumns + ` FROM source_runs WHERE tenant_id = $1 AND source_id = $2 AND ($3::uuid IS NULL OR id < $3) ORDER BY id DESC LIMIT $4`
)

func scanSource(row pgx.CollectableRow) (schema.Source, error) {
	var s schema.Source
	err := row.Scan(&s.ID, &s.CollectionID, &s.Name, &s.Driver, &s.Settings, &s.Secrets, &s.Include, &s.Exclude, &s.Labels, &s.MaxBytes, &s.MaxItems,
		&s.MaxShorter, &s.Every, &s.State, &s.Problem, &s.ProblemSince, &s.Tries, &s.NextAt, &s.CreatedAt)
	return s, err
}

func scanRun(row pgx.CollectableRow) (schema.SourceRun, error) {
	var r schema.SourceRun
	err := row.Scan(&r.ID, &r.State, &r.Whole, &r.Before, &r.Seen, &r.Added, &r.Changed, &r.Unchanged, &r.Moved, &r.Deleted, &r.Skipped, &r.Fetched,
		&r.Bytes, &r.Problem, &r.StartedAt, &r.FinishedAt)
	return r, err
}

// CreateSource stores a source. Its first run is due at once, unless it is paused.
func (s *SourceStore) CreateSource(ctx context.Context, p schema.Principal, n schema.NewSource) (schema.Source, error) {
	var out schema.Source
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := store.CollectionExists(ctx, tx, p.Tenant, n.CollectionID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('sources ' || $1::text, 0))`, p.Tenant); err != nil {
			return err
		}
		var count int
		var nameTaken bool
		if err := tx.QueryRow(ctx, `SELECT count(*), coalesce(bool_or(name = $2), false) FROM sources WHERE tenant_id = $1`, p.Tenant, n.Name).Scan(&count, &nameTaken); err != nil {
			return err
		}
		switch {
		case nameTaken:
			return fmt.Errorf("a source %q exists already: %w", n.Name, schema.ErrConflict)
		case count >= maxSources:
			return fmt.Errorf("a tenant may have at most %d sources: %w", maxSources, schema.ErrQuota)
		}
		state := schema.SourceWaiting
		if n.Paused {
			state = schema.SourcePaused
		}
		if _, err := tx.Exec(ctx, insertSourceSQL, p.Tenant, n.ID, n.CollectionID, n.Name, n.Driver, n.Settings, n.Sealed, store.EmptyNotNull(n.SecretFields),
			store.EmptyNotNull(n.Include), store.EmptyNotNull(n.Exclude), store.EmptyNotNull(n.Labels), n.MaxBytes, n.MaxItems, n.MaxShorter, n.Every,
			string(state)); err != nil {
			return err
		}
		if n.Settings[source.PermissionsSetting] == source.FollowPermissions {
			if err := access.Follow(ctx, tx, p.Tenant, n.ID); err != nil {
				return err
			}
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, "source.create", n.ID.String(), map[string]any{"name": n.Name, "driver": n.Driver, "collection": n.CollectionID}); err != nil {
			return err
		}
		var err error
		out, err = getSource(ctx, tx, p.Tenant, n.ID)
		return err
	})
	return out, store.Wrap(err, "add a source")
}

// getSource reads a source with its counts and its newest run.
func getSource(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID) (schema.Source, error) {
	rows, err := tx.Query(ctx, sourceSQL, tenant, id)
	if err != nil {
		return schema.Source{}, err
	}
	out, err := pgx.CollectExactlyOneRow(rows, scanSource)
	if err != nil {
		return out, store.Named(err, "source", id)
	}
	if err := tx.QueryRow(ctx, countsSQL, tenant, id).Scan(&out.Items, &out.Documents, &out.Pending); err != nil {
		return out, err
	}
	if rows, err = tx.Query(ctx, lastRunSQL, tenant, id); err != nil {
		return out, err
	}
	run, err := pgx.CollectExactlyOneRow(rows, scanRun)
	if store.IsNoRows(err) {
		return out, nil
	}
	out.Run = &run
	return out, err
}

// Source returns a source with its counts.
func (s *SourceStore) Source(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error) {
	var out schema.Source
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = getSource(ctx, tx, p.Tenant, id)
		return err
	})
	return out, store.Wrap(err, "show a source")
}

// ResolveSource returns the id of a source by its name or id.
func (s *SourceStore) ResolveSource(ctx context.Context, p schema.Principal, nameOrID string) (id uuid.UUID, err error) {
	if id, err := uuid.Parse(nameOrID); err == nil {
		return id, nil
	}
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		return store.Named(tx.QueryRow(ctx, `SELECT id FROM sources WHERE tenant_id = $1 AND name = $2`, p.Tenant, nameOrID).Scan(&id), "source", nameOrID)
	})
	return id, store.Wrap(err, "find a source")
}

// ListSources lists a page of the tenant's sources, newest first, of one collection, or of all when
// collection is uuid.Nil.
func (s *SourceStore) ListSources(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.PageQuery) ([]schema.Source, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var of *uuid.UUID
	if collection != uuid.Nil {
		of = &collection
	}
	var out []schema.Source
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, listSourcesSQL, p.Tenant, of, pg.After, pg.Limit+1)
		if err != nil {
			return err
		}
		if out, err = pgx.CollectRows(rows, scanSource); err != nil {
			return err
		}
		for i := range out {
			if out[i], err = getSource(ctx, tx, p.Tenant, out[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("list sources: %w", err)
	}
	out, next := store.Cut(pg, out, func(s schema.Source) uuid.UUID { return s.ID })
	return out, next, nil
}

// Other settings may include items that were skipped, and may lead to other folders: everything is
// listed again.
const (
	changeSourceSQL = `
UPDATE sources SET settings = $3, secrets = $4, secret_fields = $5, include = $6, exclude = $7, labels = $8, max_bytes = $9, max_items = $10,
       max_shorter = $11, every = $12, changes = '', due_at = CASE WHEN state = 'waiting' THEN now() END
WHERE tenant_id = $1 AND id = $2`
	retrySkippedSQL = `UPDATE source_items SET version = '', reason = '' WHERE tenant_id = $1 AND source_id = $2 AND reason <> ''`
	// An item that is still to be fetched is described first, as one that moved: the source may say
	// that its content has not changed.
	relabelSQL = `
UPDATE source_items SET pending = CASE pending WHEN 'fetch' THEN 'fetch' ELSE 'describe' END, moved = moved OR pending = 'fetch'
WHERE tenant_id = $1 AND source_id = $2 AND pending IN ('', 'fetch') AND document_id IS NOT NULL`
)

// ChangeSource sets the settings of a source to what to makes of the source and its sealed secrets,
// which are locked meanwhile, and cancels its current run. The next run is due at once, unless the
// source is paused. A source that was stopped because of its settings continues.
func (s *SourceStore) ChangeSource(ctx context.Context, p schema.Principal, id uuid.UUID, to func(have schema.Source, sealed []byte) (schema.SourceSettings, error)) (schema.Source, error) {
	return s.change(ctx, p, id, "source.change", func(ctx context.Context, tx pgx.Tx, have schema.Source) error {
		var sealed []byte
		if err := tx.QueryRow(ctx, `SELECT secrets FROM sources WHERE tenant_id = $1 AND id = $2`, p.Tenant, id).Scan(&sealed); err != nil {
			return err
		}
		c, err := to(have, sealed)
		if err != nil {
			return err
		}
		if err := endRun(ctx, tx, p.Tenant, id, "cancelled", ""); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, changeSourceSQL, p.Tenant, id, c.Settings, c.Sealed, store.EmptyNotNull(c.SecretFields), store.EmptyNotNull(c.Include),
			store.EmptyNotNull(c.Exclude), store.EmptyNotNull(c.Labels), c.MaxBytes, c.MaxItems, c.MaxShorter, c.Every); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, retrySkippedSQL, p.Tenant, id); err != nil {
			return err
		}
		if slices.Equal(c.Labels, have.Labels) {
			return nil
		}
		_, err = tx.Exec(ctx, relabelSQL, p.Tenant, id)
		return err
	})
}

// change locks a source, calls do, and returns the source as it is then.
func (s *SourceStore) change(ctx context.Context, p schema.Principal, id uuid.UUID, action string, do func(ctx context.Context, tx pgx.Tx, current schema.Source) error) (schema.Source, error) {
	var out schema.Source
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		// Not FOR UPDATE, which waits for uploads.
		if _, err := tx.Exec(ctx, `SELECT FROM sources WHERE tenant_id = $1 AND id = $2 FOR NO KEY UPDATE`, p.Tenant, id); err != nil {
			return err
		}
		current, err := getSource(ctx, tx, p.Tenant, id)
		if err != nil {
			return err
		}
		if current.State == schema.SourceRemoving {
			return fmt.Errorf("the source is being removed: %w", schema.ErrConflict)
		}
		if err := do(ctx, tx, current); err != nil {
			if errors.Is(err, errUnchanged) {
				out = current
				return nil
			}
			return err
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, action, id.String(), map[string]any{"name": current.Name}); err != nil {
			return err
		}
		out, err = getSource(ctx, tx, p.Tenant, id)
		return err
	})
	return out, store.Wrap(err, "%s %s", action, id)
}

// errUnchanged means that there is nothing to change.
var errUnchanged = errors.New("nothing to change")

const (
	resumeSQL = `
UPDATE sources SET state = CASE WHEN run_id IS NULL THEN 'waiting' ELSE 'running' END, due_at = now(), problem = '', problem_at = NULL, tries = 0
WHERE tenant_id = $1 AND id = $2`
	endRunSQL   = `UPDATE source_runs SET state = $3, problem = $4, finished_at = now() WHERE tenant_id = $1 AND id = $2 AND finished_at IS NULL`
	undeleteSQL = `UPDATE source_items SET pending = '' WHERE tenant_id = $1 AND source_id = $2 AND pending = 'delete'`
	clearRunSQL = `
UPDATE sources SET run_id = NULL, attempt = attempt + 1, state = CASE WHEN state = 'paused' THEN 'paused' ELSE 'waiting' END, problem = '', problem_at = NULL, tries = 0,
       due_at = CASE WHEN state <> 'paused' AND every > 0 THEN now() + every * interval '1 minute' END
WHERE tenant_id = $1 AND id = $2`
)

// RunSource makes a source due now. A current run continues, a source that waits after a failure
// retries at once, and one that asks for confirmation lists again.
func (s *SourceStore) RunSource(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error) {
	return s.change(ctx, p, id, "source.run", func(ctx context.Context, tx pgx.Tx, have schema.Source) error {
		switch have.State {
		case schema.SourceRunning:
			return errUnchanged
		case schema.SourcePaused:
			return fmt.Errorf("the source is paused; resume it: %w", schema.ErrConflict)
		case schema.SourceAsking:
			if err := endRun(ctx, tx, p.Tenant, id, "cancelled", ""); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, resumeSQL, p.Tenant, id)
		return err
	})
}

// endRun ends the current run, and keeps the documents that it was about to delete.
func endRun(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID, state, problem string) error {
	var run *uuid.UUID
	if err := tx.QueryRow(ctx, `SELECT run_id FROM sources WHERE tenant_id = $1 AND id = $2`, tenant, id).Scan(&run); err != nil {
		return err
	}
	if run != nil {
		if _, err := tx.Exec(ctx, endRunSQL, tenant, *run, state, problem); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, undeleteSQL, tenant, id); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, clearRunSQL, tenant, id)
	return err
}

// CancelSource cancels the current run. Its effects remain; the next run follows the schedule.
func (s *SourceStore) CancelSource(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error) {
	return s.change(ctx, p, id, "source.cancel", func(ctx context.Context, tx pgx.Tx, have schema.Source) error {
		if have.Run == nil || have.Run.FinishedAt != nil {
			return errUnchanged
		}
		return endRun(ctx, tx, p.Tenant, id, "cancelled", "")
	})
}

// PauseSource interrupts a source.
func (s *SourceStore) PauseSource(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error) {
	return s.change(ctx, p, id, "source.pause", func(ctx context.Context, tx pgx.Tx, have schema.Source) error {
		switch have.State {
		case schema.SourcePaused:
			return errUnchanged
		case schema.SourceAsking:
			return fmt.Errorf("the source waits for its deletions to be confirmed, and does nothing until then: %w", schema.ErrConflict)
		}
		_, err := tx.Exec(ctx, `UPDATE sources SET state = 'paused', due_at = NULL, attempt = attempt + 1 WHERE tenant_id = $1 AND id = $2`, p.Tenant, id)
		return err
	})
}

// ResumeSource continues a source that was paused, or stopped because of a problem.
func (s *SourceStore) ResumeSource(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error) {
	return s.change(ctx, p, id, "source.resume", func(ctx context.Context, tx pgx.Tx, have schema.Source) error {
		switch have.State {
		case schema.SourcePaused, schema.SourceRefused, schema.SourceInvalid, schema.SourceRetrying, schema.SourceLimited:
			_, err := tx.Exec(ctx, resumeSQL, p.Tenant, id)
			return err
		case schema.SourceAsking:
			return fmt.Errorf("the source waits for its deletions to be confirmed; confirm them, or run the source to list again: %w", schema.ErrConflict)
		}
		return errUnchanged
	})
}

// ConfirmSource lets the run that asks for confirmation delete the documents of items that are
// gone. The error is schema.ErrConflict when run is not that run; uuid.Nil means any.
func (s *SourceStore) ConfirmSource(ctx context.Context, p schema.Principal, id, run uuid.UUID) (schema.Source, error) {
	return s.change(ctx, p, id, "source.confirm", func(ctx context.Context, tx pgx.Tx, have schema.Source) error {
		if have.State != schema.SourceAsking || have.Run == nil || run != uuid.Nil && have.Run.ID != run {
			return fmt.Errorf("no run of the source waits for a confirmation: %w", schema.ErrConflict)
		}
		if err := deleteUnseen(ctx, tx, p.Tenant, id, have.Run.ID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, resumeSQL, p.Tenant, id)
		return err
	})
}

// RemoveSource removes a source. If keep, its documents stay.
func (s *SourceStore) RemoveSource(ctx context.Context, p schema.Principal, id uuid.UUID, keepDocuments bool) (schema.Source, error) {
	var out schema.Source
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE sources SET state = 'removing', keep_documents = $3, due_at = now(), attempt = attempt + 1, problem = '', problem_at = NULL
			WHERE tenant_id = $1 AND id = $2`, p.Tenant, id, keepDocuments)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("no source %s: %w", id, schema.ErrNotFound)
		}
		if out, err = getSource(ctx, tx, p.Tenant, id); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "source.remove", id.String(), map[string]any{"name": out.Name, "keep_documents": keepDocuments})
	})
	return out, store.Wrap(err, "remove source %s", id)
}
