// Package erasures removes everything of a tenant: its rows in all tables, which it finds in the
// catalog, and its files in S3. It connects as a superuser of the database, since no program has
// the necessary rights.
package erasures

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const adminSetting = "SLUICE_DATABASE_ADMIN_URL"

// Options say in which database a tenant is erased.
type Options struct {
	URL      string        // of a superuser
	Objects  store.Objects // nil: none
	Progress func(string)  // nil: nobody
}

// Erased is what was removed.
type Erased struct {
	Tenant  uuid.UUID        `json:"tenant_id"`
	Name    string           `json:"tenant"`
	Rows    map[string]int64 `json:"rows"`    // by table
	Objects int64            `json:"objects"` // in S3
	Bytes   int64            `json:"bytes"`   // of documents
}

// eraser is one run. Each step is a transaction that also records what it removed, so that another
// run continues where this one ended.
type eraser struct {
	Options
	conn   *pgx.Conn
	tenant uuid.UUID
	name   string
}

// Once the tenant's row is gone programs can add no more rows, because all refer to it, directly or
// not; who begins a chain of reads, which does not, looks for the row. So it is deleted first, with
// the API keys; while the rest is deleted, foreign keys are not checked and triggers do not run.
const (
	// Only a superuser may set this.
	prepareSQL = `SELECT set_config('session_replication_role', 'replica', true), set_config('lock_timeout', '5s', true)`

	findSQL = `
SELECT id, name, true FROM public.tenants WHERE name = $1 OR id::text = $1
UNION ALL SELECT id, name, false FROM public.erasures WHERE finished_at IS NULL AND (name = $1 OR id::text = $1) LIMIT 1`
	beginSQL = `
INSERT INTO public.erasures (id, name, bytes)
SELECT id, name, (SELECT coalesce(sum(b.bytes), 0) FROM public.blobs b WHERE b.tenant_id = t.id) FROM public.tenants t WHERE id = $1
ON CONFLICT (id) DO NOTHING`
	dropKeysSQL   = `DELETE FROM public.api_keys WHERE tenant_id = $1`
	dropTenantSQL = `DELETE FROM public.tenants WHERE id = $1`
	// Waits for those who began a chain of reads before the tenant's row was gone.
	waitReadsSQL = `LOCK TABLE public.audit_read_chains IN SHARE MODE`
	noteSQL      = `
UPDATE public.erasures SET removed = removed || jsonb_build_object($2::text, coalesce((removed ->> $2::text)::bigint, 0) + $3::bigint) WHERE id = $1`
	noteObjectsSQL = `UPDATE public.erasures SET objects = objects + $2 WHERE id = $1`
	finishSQL      = `UPDATE public.erasures SET finished_at = now() WHERE id = $1 RETURNING removed, objects, bytes`

	tablesSQL = `
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('public', 'sluice_vectors') AND c.relkind = 'r'
  AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
ORDER BY c.relname = 'vector_shards', 1, 2` // it names the partitions, which are dropped before
	pagesSQL = `SELECT (pg_relation_size($1::text::regclass) + current_setting('block_size')::int - 1) / current_setting('block_size')::int`
	// Pages are read in their order: few indexes begin with the tenant, and those that do would be
	// read again for each chunk.
	readPagesSQL = `
SELECT set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true)`
	shardsSQL = `
SELECT 'vectors_' || dimension || '_' || replace(id::text, '-', '') FROM public.vector_shards WHERE tenant_id = $1 ORDER BY 1`

	needObjectsSQL = `
SELECT EXISTS (SELECT FROM public.blobs WHERE tenant_id = $1 AND object IS NOT NULL) OR EXISTS (SELECT FROM public.loose_objects WHERE tenant_id = $1)`
	objectsSQL = `
SELECT object, sha256 FROM public.blobs WHERE tenant_id = $1 AND object IS NOT NULL
UNION SELECT object, sha256 FROM public.loose_objects WHERE tenant_id = $1 LIMIT $2`
	dropBlobsSQL = `DELETE FROM public.blobs WHERE tenant_id = $1 AND object = ANY ($2)`
	dropLooseSQL = `DELETE FROM public.loose_objects WHERE tenant_id = $1 AND object = ANY ($2) AND (due_at <= now() OR doomed)`
	writingSQL   = `SELECT count(*), max(due_at) FROM public.loose_objects WHERE tenant_id = $1`

	chunkPages  = 1024 // of a table, in one transaction
	objectsPage = 200
)

// Erase removes the tenant with a name or id. confirm must be its name. After an interruption,
// calling Erase again continues. The error is schema.ErrNotFound when there is no such tenant.
func Erase(ctx context.Context, tenant, confirm string, o Options) (_ Erased, err error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	e := &eraser{Options: o}
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return Erased{}, &schema.FieldError{Field: adminSetting, Problem: err.Error()}
	}
	config.RuntimeParams["application_name"], config.RuntimeParams["statement_timeout"] = "sluice tenants erase", "0"
	if e.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return Erased{}, fmt.Errorf("connect (%s): %w", adminSetting, store.Translate(err))
	}
	defer func() {
		// The server releases the locks of a closed connection some time later; a backup that
		// begins at once would be refused.
		_, unlocking := e.conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock_all()`)
		if err == nil && unlocking != nil {
			err = fmt.Errorf("let backups begin again: %w", unlocking)
		}
		err = errors.Join(err, e.conn.Close(context.WithoutCancel(ctx)))
	}()
	if err := e.begin(ctx, tenant, confirm); err != nil {
		return Erased{}, err
	}
	r, err := e.run(ctx)
	return r, store.Wrap(err, "erase tenant %s", e.name)
}

// begin finds the tenant, and checks everything that may be wrong before anything is removed.
func (e *eraser) begin(ctx context.Context, tenant, confirm string) error {
	var super, alone, objects, exists bool
	if err := e.conn.QueryRow(ctx, `SELECT rolsuper FROM pg_roles WHERE rolname = current_user`).Scan(&super); err != nil {
		return fmt.Errorf("look up the rights of the login: %w", err)
	}
	if !super {
		return schema.Invalid(adminSetting, "login %q is not a superuser; only a superuser may remove entries of the audit log", e.conn.Config().User)
	}
	if err := e.conn.QueryRow(ctx, findSQL, tenant).Scan(&e.tenant, &e.name, &exists); err != nil {
		return fmt.Errorf("find the tenant: %w", store.Named(err, "tenant", tenant))
	}
	if confirm != e.name {
		return schema.Invalid("confirm", "%q is not the tenant's name, which is %q; nothing was removed", confirm, e.name)
	}
	if err := e.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock_shared($1)`, store.ObjectsLock).Scan(&alone); err != nil {
		return fmt.Errorf("keep backups from beginning: %w", err)
	}
	if !alone {
		return fmt.Errorf("a backup runs; erase the tenant when it is done: %w", schema.ErrConflict)
	}
	if err := e.conn.QueryRow(ctx, needObjectsSQL, e.tenant).Scan(&objects); err != nil {
		return fmt.Errorf("look for files in S3: %w", err)
	}
	if objects && e.Objects == nil {
		return schema.Invalid("SLUICE_S3_ENDPOINT", "must be set: the tenant has files in S3")
	}
	return nil
}

func (e *eraser) run(ctx context.Context) (Erased, error) {
	r := Erased{Tenant: e.tenant, Name: e.name}
	e.Progress("closing the tenant")
	err := e.step(ctx, "public.api_keys", func(tx pgx.Tx) (int64, error) {
		if _, err := tx.Exec(ctx, beginSQL, e.tenant); err != nil {
			return 0, err
		}
		tag, err := tx.Exec(ctx, dropKeysSQL, e.tenant)
		return tag.RowsAffected(), err
	})
	if err != nil {
		return r, err
	}
	if err := e.step(ctx, "public.tenants", func(tx pgx.Tx) (int64, error) {
		tag, err := tx.Exec(ctx, dropTenantSQL, e.tenant)
		return tag.RowsAffected(), err
	}); err != nil {
		return r, err
	}
	if err := e.step(ctx, "public.audit_read_chains", func(tx pgx.Tx) (int64, error) {
		_, err := tx.Exec(ctx, waitReadsSQL)
		return 0, err
	}); err != nil {
		return r, err
	}
	if err := e.dropPartitions(ctx); err != nil {
		return r, err
	}
	if err := e.dropObjects(ctx); err != nil {
		return r, err
	}
	// Until nothing is left: a worker may have written rows of a version that it had locked.
	for {
		n, err := e.dropRows(ctx)
		if err != nil {
			return r, err
		}
		if n == 0 {
			break
		}
	}
	var writing int64
	var until *time.Time
	if err := e.conn.QueryRow(ctx, writingSQL, e.tenant).Scan(&writing, &until); err != nil {
		return r, fmt.Errorf("look for uploads: %w", err)
	}
	if writing > 0 {
		return r, fmt.Errorf("everything is erased but %d files that uploads may still be writing to S3; run it again after %s, when these uploads have ended: %w",
			writing, until.UTC().Format(time.RFC3339), schema.ErrConflict)
	}
	return r, e.conn.QueryRow(ctx, finishSQL, e.tenant).Scan(&r.Rows, &r.Objects, &r.Bytes)
}

// step removes rows of a table in a transaction, and records their number.
func (e *eraser) step(ctx context.Context, table string, remove func(pgx.Tx) (int64, error)) error {
	err := pgx.BeginFunc(ctx, e.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, prepareSQL); err != nil {
			return err
		}
		n, err := remove(tx)
		if err != nil || n == 0 {
			return err
		}
		_, err = tx.Exec(ctx, noteSQL, e.tenant, table, n)
		return err
	})
	return store.Wrap(store.Translate(err), "remove rows of %s", table)
}

// dropRows deletes from all tables once, and returns the number of rows.
func (e *eraser) dropRows(ctx context.Context) (int64, error) {
	rows, err := e.conn.Query(ctx, tablesSQL)
	if err != nil {
		return 0, fmt.Errorf("list tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (pgx.Identifier, error) {
		name := make(pgx.Identifier, 2)
		err := row.Scan(&name[0], &name[1])
		return name, err
	})
	if err != nil {
		return 0, fmt.Errorf("list tables: %w", err)
	}
	var all int64
	for _, table := range tables {
		var pages int64
		if err := e.conn.QueryRow(ctx, pagesSQL, table.Sanitize()).Scan(&pages); err != nil {
			return all, fmt.Errorf("read the size of %s: %w", table[1], err)
		}
		sql := `DELETE FROM ` + table.Sanitize() + ` WHERE ctid >= $2::text::tid AND ctid < $3::text::tid AND tenant_id = $1` +
			erasableCondition(table)
		for from := int64(0); from < pages; from += chunkPages {
			var n int64
			if err := e.step(ctx, table[0]+"."+table[1], func(tx pgx.Tx) (int64, error) {
				if _, err := tx.Exec(ctx, readPagesSQL); err != nil {
					return 0, err
				}
				tag, err := tx.Exec(ctx, sql, e.tenant, fmt.Sprintf("(%d,0)", from), fmt.Sprintf("(%d,0)", from+chunkPages))
				n = tag.RowsAffected()
				return n, err
			}); err != nil {
				return all, err
			}
			if all += n; n > 0 {
				e.Progress(fmt.Sprintf("removed %d rows of %s", n, table[1]))
			}
		}
	}
	return all, nil
}

// erasableCondition returns a condition that excludes rows which must wait: those of files that may
// still be written.
func erasableCondition(table pgx.Identifier) string {
	if table[1] == "loose_objects" {
		return ` AND (due_at <= now() OR doomed)`
	}
	return ""
}

// dropPartitions drops the partitions that only hold vectors of the tenant.
func (e *eraser) dropPartitions(ctx context.Context) error {
	rows, err := e.conn.Query(ctx, shardsSQL, e.tenant)
	if err != nil {
		return fmt.Errorf("list partitions of vectors: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list partitions of vectors: %w", err)
	}
	for _, name := range names {
		table := pgx.Identifier{"sluice_vectors", name}
		if err := e.step(ctx, "sluice_vectors."+name, func(tx pgx.Tx) (n int64, err error) {
			var exists bool
			if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table.Sanitize()).Scan(&exists); err != nil || !exists {
				return 0, err
			}
			if err := tx.QueryRow(ctx, `SELECT count(*) FROM `+table.Sanitize()).Scan(&n); err != nil {
				return 0, err
			}
			_, err = tx.Exec(ctx, `DROP TABLE `+table.Sanitize())
			return n, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// dropObjects deletes files in S3, and after each page of them the rows that name them.
func (e *eraser) dropObjects(ctx context.Context) error {
	if e.Objects == nil {
		return nil
	}
	for {
		rows, err := e.conn.Query(ctx, objectsSQL, e.tenant, objectsPage)
		if err != nil {
			return fmt.Errorf("list files in S3: %w", err)
		}
		page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Object, error) {
			o := store.Object{Tenant: e.tenant}
			err := row.Scan(&o.ID, &o.SHA256)
			return o, err
		})
		if err != nil {
			return fmt.Errorf("list files in S3: %w", err)
		}
		ids := make([]uuid.UUID, len(page))
		for i, o := range page {
			if err := e.Objects.Delete(ctx, o); err != nil {
				return fmt.Errorf("delete files in S3: %w", err)
			}
			ids[i] = o.ID
		}
		deleted := int64(0)
		for table, sql := range map[string]string{"public.blobs": dropBlobsSQL, "public.loose_objects": dropLooseSQL} {
			if err := e.step(ctx, table, func(tx pgx.Tx) (int64, error) {
				tag, err := tx.Exec(ctx, sql, e.tenant, ids)
				deleted += tag.RowsAffected()
				return tag.RowsAffected(), err
			}); err != nil {
				return err
			}
		}
		if _, err := e.conn.Exec(ctx, noteObjectsSQL, e.tenant, deleted); err != nil {
			return fmt.Errorf("record what was removed: %w", err)
		}
		if deleted == 0 { // the rest is still being written
			return nil
		}
		e.Progress(fmt.Sprintf("deleted %d files in S3", deleted))
	}
}
