package documents

// This file stores uploads: for each document its bytes, a new version and the messages that queue
// it, in one transaction, so that a document is either queued or not stored at all. The number of
// round trips does not depend on the number of documents: rows are sent as columns, and statements
// in batches. All transactions lock in this order: collection, documents, source, blobs, quota.

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/internal/store/blobs"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// Without it the check of each row's foreign keys would be planned again (store.OnePlanSQL).
	onePlanSQL = `SELECT ` + store.OnePlanSQL
	// A shared lock: uploads run concurrently, and DeleteCollection waits for them.
	shareCollectionSQL = `
SELECT t.max_documents, t.max_bytes FROM collections c JOIN tenants t ON t.id = c.tenant_id
WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL FOR SHARE OF c`
	// A document that is added has its first version, which the transaction adds later.
	addDocumentsSQL = `
INSERT INTO documents (tenant_id, id, collection_id, external_id, last_version_id, last_number)
SELECT $1, n.id, $2, n.external_id, n.version_id, 1 FROM unnest($3::uuid[], $4::text[], $5::uuid[]) AS n (id, external_id, version_id)
ON CONFLICT (tenant_id, collection_id, external_id) DO NOTHING`
	lockDocumentsSQL = `
SELECT id FROM documents WHERE tenant_id = $1 AND collection_id = $2 AND external_id = ANY ($3) ORDER BY id FOR UPDATE`
	// A statement of its own after the locks, so that it sees what earlier transactions wrote.
	currentVersionsSQL = `
SELECT d.external_id, d.id, d.last_number, d.last_version_id, d.deleted_at IS NOT NULL, v.id, v.state, v.fingerprint
FROM documents d
LEFT JOIN LATERAL (
    SELECT v.id, v.state, v.fingerprint FROM versions v
    WHERE v.tenant_id = d.tenant_id AND v.document_id = d.id AND v.state IN ('received', 'queued', 'processing', 'ready')
    ORDER BY v.number DESC LIMIT 1
) AS v ON d.deleted_at IS NULL
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.external_id = ANY ($3)`

	// The update locks an existing blob, so that purge cannot remove it before this transaction's
	// versions refer to it.
	addBlobsSQL = `
INSERT INTO blobs AS b (tenant_id, sha256, bytes, object)
SELECT $1, n.sha256, n.bytes, n.object FROM unnest($2::bytea[], $3::bigint[], $4::uuid[]) AS n (sha256, bytes, object) ORDER BY n.sha256
ON CONFLICT (tenant_id, sha256) DO UPDATE SET created_at = b.created_at
RETURNING b.sha256, b.xmax = 0`
	addChunksSQL = `
INSERT INTO blob_chunks (tenant_id, sha256, ordinal, data) SELECT $1, * FROM unnest($2::bytea[], $3::int[], $4::bytea[])`

	addVersionsSQL = `
INSERT INTO versions (tenant_id, collection_id, trace, id, document_id, number, state, reason_code, reason, title, given_title, file_name,
                      media_type, sha256, bytes, fingerprint, metadata, queued_at, finished_at)
SELECT $1, $2, nullif($3, ''), n.id, n.document_id, n.number, n.state, n.reason_code, n.reason, n.title, n.title, n.file_name,
       n.media_type, n.sha256, n.bytes, n.fingerprint, n.metadata,
       CASE n.state WHEN 'queued' THEN now() END, CASE n.state WHEN 'failed' THEN now() END
FROM unnest($4::uuid[], $5::uuid[], $6::int[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
            $12::text[], $13::bytea[], $14::bigint[], $15::text[], $16::text[]::jsonb[])
     AS n (id, document_id, number, state, reason_code, reason, title, file_name, media_type, sha256, bytes, fingerprint, metadata)`
	setNewestSQL = `
UPDATE documents SET updated_at = now(), deleted_at = NULL,
    (last_version_id, last_number) = (SELECT ($3::uuid[])[n], ($4::int[])[n] FROM array_position($2::uuid[], id) AS n)
WHERE tenant_id = $1 AND id = ANY ($2)`
	// The previous versions of documents that have any.
	unsetNewestSQL = `
WITH before AS (
    SELECT id FROM versions WHERE tenant_id = $1 AND document_id = ANY ($2) AND newest AND NOT id = ANY ($3) ORDER BY id FOR UPDATE
)
UPDATE versions v SET newest = false FROM before WHERE v.tenant_id = $1 AND v.id = before.id`

	maxChunksAtOnce = 4 // of 1 MB, in one statement
	maxRewrites     = 8 // retries for objects that were purged before a row named them

	isCollectionSQL = `SELECT true FROM collections WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`
)

// item is one version to be stored.
type item struct {
	*documents.NewVersion

	document uuid.UUID
	number   int
	version  uuid.UUID
	added    bool // the document did not exist
	fresh    bool // the document counts as new: it did not exist, or was deleted
	result   schema.Uploaded
}

// AddVersions implements documents.Store.
func (s *DocumentStore) AddVersions(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []*documents.NewVersion) ([]schema.Uploaded, error) {
	items := make([]*item, len(versions))
	for i, v := range versions {
		items[i] = &item{NewVersion: v}
	}
	err := s.addVersions(ctx, p, collection, items)
	for range maxRewrites {
		if !errors.Is(err, blobs.ErrUnwritten) {
			break
		}
		err = s.addVersions(ctx, p, collection, items)
	}
	if err != nil {
		return nil, err
	}
	out := make([]schema.Uploaded, len(items))
	for i, it := range items {
		out[i] = it.result
	}
	return out, nil
}

// addVersions first writes the objects, if bytes are stored as objects: so the objects that the
// transaction names exist, and nobody waits for them while it holds locks.
func (s *DocumentStore) addVersions(ctx context.Context, p schema.Principal, collection uuid.UUID, items []*item) (err error) {
	var written *blobs.Written
	if s.bytes.InObjects() {
		if err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			return store.Named(tx.QueryRow(ctx, isCollectionSQL, p.Tenant, collection).Scan(nil), "collection", collection)
		}); err != nil {
			return err
		}
		var contents []blobs.Unwritten
		for _, c := range contentsOf(items) {
			contents = append(contents, blobs.Unwritten{SHA256: c.SHA256, Bytes: c.Content.Bytes, Open: c.Content.Open})
		}
		if written, err = s.bytes.Write(ctx, p.Tenant, contents); err != nil {
			return err
		}
		defer func() { written.Release(ctx, err != nil) }()
	}
	return s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		w := uploadRun{tx: tx, principal: p, collection: collection, trace: store.Traceparent(ctx), inObjects: s.bytes.InObjects(), written: written}
		return w.run(ctx, items)
	})
}

// contentsOf returns the versions with bytes to be stored, one for each content.
func contentsOf(items []*item) []*item {
	seen := map[string]bool{}
	var out []*item
	for _, it := range items {
		if it.Content.TooLarge || seen[string(it.SHA256)] {
			continue
		}
		seen[string(it.SHA256)] = true
		out = append(out, it)
	}
	return out
}

// uploadRun is one attempt of AddVersions' transaction.
type uploadRun struct {
	tx         pgx.Tx
	principal  schema.Principal
	collection uuid.UUID
	trace      string
	inObjects  bool           // new bytes are objects
	written    *blobs.Written // the objects that were written for it

	maxDocuments, maxBytes *int64
	chunkOf                [][]byte // the columns of chunks not sent yet
	chunkOrdinal           []int
	chunkData              [][]byte
	chunkBytes             int // of chunkData
}

// run stores items, which are sorted by external id.
func (w *uploadRun) run(ctx context.Context, items []*item) error {
	if err := w.lock(ctx, items); err != nil {
		return err
	}
	if err := holdSource(ctx, w.tx, w.principal); err != nil {
		return err
	}
	for _, it := range items {
		if w.principal.Writes == nil {
			break
		}
		if err := access.MayLabel(ctx, w.tx, w.principal, it.ExternalID, it.Attributes.Labels); err != nil {
			return err
		}
	}
	var changed []*item
	for _, it := range items {
		if !it.result.Unchanged {
			changed = append(changed, it)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	newBlobs, err := w.addBlobs(ctx, changed)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	w.queueChunks(batch)
	if err := w.queueVersions(ctx, batch, changed); err != nil {
		return err
	}
	if err := w.tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("add versions: %w", err)
	}
	detail := map[string]any{"documents": len(items), "changed": len(changed)}
	n, err := w.narrow(ctx, changed)
	if err != nil {
		return err
	}
	if n > 0 {
		detail["narrowed"] = n
	}
	if err := store.Audit(ctx, w.tx, w.principal.Tenant, w.principal, "documents.upload", w.collection.String(), detail); err != nil {
		return err
	}
	fresh := slices.ContainsFunc(changed, func(it *item) bool { return it.fresh })
	return w.checkQuotas(ctx, fresh, newBlobs > 0)
}

// lock creates and locks the documents, and finds which uploads are unchanged.
func (w *uploadRun) lock(ctx context.Context, items []*item) error {
	tenant := w.principal.Tenant
	ids, names, versions := make([]uuid.UUID, len(items)), make([]string, len(items)), make([]uuid.UUID, len(items))
	byName := make(map[string]*item, len(items))
	for i, it := range items {
		it.version = schema.NewID()
		ids[i], names[i], versions[i] = schema.NewID(), it.ExternalID, it.version
		byName[it.ExternalID] = it
	}
	batch := &pgx.Batch{}
	batch.Queue(onePlanSQL)
	batch.Queue(shareCollectionSQL, tenant, w.collection)
	batch.Queue(addDocumentsSQL, tenant, w.collection, ids, names, versions)
	batch.Queue(lockDocumentsSQL, tenant, w.collection, names)
	batch.Queue(currentVersionsSQL, tenant, w.collection, names)
	results := w.tx.SendBatch(ctx, batch)
	defer results.Close() //nolint:errcheck // what failed was reported by its statement

	if _, err := results.Exec(); err != nil {
		return fmt.Errorf("set how an upload is planned: %w", err)
	}
	if err := results.QueryRow().Scan(&w.maxDocuments, &w.maxBytes); err != nil {
		return store.Named(err, "collection", w.collection)
	}
	for _, what := range []string{"add", "lock"} {
		if _, err := results.Exec(); err != nil {
			return fmt.Errorf("%s documents: %w", what, err)
		}
	}
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("read documents: %w", err)
	}
	var (
		name        string
		document    uuid.UUID
		number      int
		last        *uuid.UUID
		deleted     bool
		version     *uuid.UUID
		state       *schema.State
		fingerprint *string
		found       int
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &document, &number, &last, &deleted, &version, &state, &fingerprint}, func() error {
		it := byName[name]
		found++
		it.document, it.added = document, last != nil && *last == it.version
		it.fresh = it.added || number == 0 || deleted
		if it.number = number; !it.added {
			it.number++
		}
		it.result = schema.Uploaded{ExternalID: name, Document: document, Version: it.version, State: schema.StateQueued}
		switch {
		case fingerprint != nil && *fingerprint == it.Fingerprint:
			it.result = schema.Uploaded{ExternalID: name, Document: document, Version: *version, State: *state, Unchanged: true}
		case it.Reason != nil:
			it.result.State, it.result.Reason = schema.StateFailed, it.Reason
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read documents: %w", err)
	}
	if found < len(items) {
		return store.ErrRepeat // purge removed a deleted document between two statements
	}
	return nil
}

// addBlobs stores the bytes that the tenant does not have yet, and returns the number of new blobs.
// It leaves the last chunks for queueChunks.
func (w *uploadRun) addBlobs(ctx context.Context, items []*item) (int, error) {
	byHash := map[string]*documents.Content{}
	var hashes [][]byte
	var sizes []int64
	var objects []*uuid.UUID
	for _, it := range contentsOf(items) {
		byHash[string(it.SHA256)] = it.Content
		hashes, sizes = append(hashes, it.SHA256), append(sizes, it.Content.Bytes)
		var object *uuid.UUID
		if id := w.written.ID(it.SHA256); id != uuid.Nil {
			object = &id
		}
		objects = append(objects, object)
	}
	if len(hashes) == 0 {
		return 0, nil
	}
	rows, err := w.tx.Query(ctx, addBlobsSQL, w.principal.Tenant, hashes, sizes, objects)
	if err != nil {
		return 0, fmt.Errorf("add blobs: %w", err)
	}
	var fresh [][]byte
	var hash []byte
	var added bool
	if _, err := pgx.ForEachRow(rows, []any{&hash, &added}, func() error {
		if added {
			fresh = append(fresh, slices.Clone(hash))
		}
		return nil
	}); err != nil {
		return 0, fmt.Errorf("add blobs: %w", err)
	}
	if w.inObjects {
		return len(fresh), w.nameObjects(ctx, fresh)
	}
	for _, hash := range fresh {
		c := byHash[string(hash)]
		for i := range c.Chunks() {
			data, err := c.Chunk(i)
			if err != nil {
				return 0, err
			}
			w.chunkOf, w.chunkOrdinal, w.chunkData = append(w.chunkOf, hash), append(w.chunkOrdinal, i), append(w.chunkData, data)
			if w.chunkBytes += len(data); w.chunkBytes >= maxChunksAtOnce*documents.ChunkBytes {
				batch := &pgx.Batch{}
				w.queueChunks(batch)
				if err := w.tx.SendBatch(ctx, batch).Close(); err != nil {
					return 0, fmt.Errorf("add chunks: %w", err)
				}
			}
		}
	}
	return len(fresh), nil
}

// nameObjects removes the objects of new blobs from the list of loose ones, which are purged.
func (w *uploadRun) nameObjects(ctx context.Context, fresh [][]byte) error {
	ids := make([]uuid.UUID, len(fresh))
	for i, hash := range fresh {
		if ids[i] = w.written.ID(hash); ids[i] == uuid.Nil {
			return fmt.Errorf("blob %x was purged meanwhile: %w", hash, blobs.ErrUnwritten)
		}
	}
	return w.written.Name(ctx, w.tx, ids)
}

func (w *uploadRun) queueChunks(batch *pgx.Batch) {
	if len(w.chunkOf) > 0 {
		batch.Queue(addChunksSQL, w.principal.Tenant, w.chunkOf, w.chunkOrdinal, w.chunkData)
		w.chunkOf, w.chunkOrdinal, w.chunkData, w.chunkBytes = nil, nil, nil, 0
	}
}

// queueVersions queues the statements that add the new versions, and the messages about them.
func (w *uploadRun) queueVersions(ctx context.Context, batch *pgx.Batch, items []*item) error {
	var (
		tenant                            = w.principal.Tenant
		ids, of                           []uuid.UUID
		numbers                           []int
		newer, newerIDs                   []uuid.UUID // documents that existed before, and their new versions
		newerNumbers                      []int
		states                            []string
		codes, reasons                    []*string
		titles, names, types, fingerprint []string
		hashes                            [][]byte
		sizes                             []int64
		metadata                          []*string
		attributes                        attributeRows
	)
	out := store.Outbox{NoWebhooks: true} // the reply reports what is refused
	for _, it := range items {
		ids, of, numbers = append(ids, it.version), append(of, it.document), append(numbers, it.number)
		if !it.added {
			newer, newerIDs, newerNumbers = append(newer, it.document), append(newerIDs, it.version), append(newerNumbers, it.number)
		}
		titles, names, types = append(titles, it.Title), append(names, it.FileName), append(types, it.MediaType)
		hashes, sizes, fingerprint = append(hashes, it.SHA256), append(sizes, it.Content.Bytes), append(fingerprint, it.Fingerprint)
		states = append(states, string(it.result.State))
		var code, reason, encoded *string
		if it.result.Reason != nil {
			code, reason = &it.result.Reason.Code, &it.result.Reason.Message
		}
		if it.Attributes.Metadata != nil {
			text := string(it.Attributes.Metadata)
			encoded = &text
		}
		codes, reasons, metadata = append(codes, code), append(reasons, reason), append(metadata, encoded)
		attributes.add(it.version, it.Attributes)
		if it.result.State == schema.StateQueued {
			err := out.Ingest(wire.IngestMessage{Tenant: tenant, Collection: w.collection, Document: it.document, Version: it.version, Attempt: 1,
				Bytes: it.Content.Bytes, Trace: w.trace})
			if err != nil {
				return err
			}
		}
		err := out.Event(wire.Event{
			Kind: "version." + string(it.result.State), Tenant: tenant, Collection: w.collection, Document: it.document, Version: it.version,
			ExternalID: it.ExternalID, State: it.result.State, Reason: it.result.Reason,
		}, w.trace)
		if err != nil {
			return err
		}
	}
	batch.Queue(addVersionsSQL, tenant, w.collection, w.trace, ids, of, numbers, states, codes, reasons, titles, names, types,
		hashes, sizes, fingerprint, metadata)
	attributes.queue(batch, tenant)
	if len(newer) > 0 {
		batch.Queue(setNewestSQL, tenant, newer, newerIDs, newerNumbers)
		batch.Queue(unsetNewestSQL, tenant, newer, newerIDs)
	}
	out.Queue(ctx, batch)
	return nil
}

// narrow removes at once the rights that the labels of uploads remove from earlier versions, and
// returns how many versions it changed.
func (w *uploadRun) narrow(ctx context.Context, items []*item) (int, error) {
	var list []narrowing
	var fresh []uuid.UUID
	for _, it := range items {
		if it.number > 1 {
			list, fresh = append(list, narrowing{it.document, it.Attributes.Labels}), append(fresh, it.version)
		}
	}
	return narrow(ctx, w.tx, w.principal.Tenant, w.collection, list, fresh)
}

// checkQuotas returns an error when the transaction exceeds a quota of the tenant. Its lock
// serializes the uploads of a tenant with quotas; it is the last lock of the transaction.
func (w *uploadRun) checkQuotas(ctx context.Context, moreDocuments, moreBytes bool) error {
	moreDocuments, moreBytes = moreDocuments && w.maxDocuments != nil, moreBytes && w.maxBytes != nil
	if !moreDocuments && !moreBytes {
		return nil
	}
	tenant := w.principal.Tenant
	if _, err := w.tx.Exec(ctx, store.LockStoredSQL, tenant); err != nil {
		return fmt.Errorf("lock the tenant's quota: %w", err)
	}
	documents, bytes, counted, err := store.Stored(ctx, w.tx, tenant)
	if err == nil && !counted {
		documents, bytes, _, err = store.Recount(ctx, w.tx, tenant)
	}
	if err != nil {
		return err
	}
	for _, c := range []struct {
		applies bool
		have    int64
		limit   *int64
		what    string
	}{{moreDocuments, documents, w.maxDocuments, "documents"}, {moreBytes, bytes, w.maxBytes, "bytes"}} {
		if c.applies && c.have > *c.limit {
			return fmt.Errorf("the tenant would have %d %s, its quota is %d: %w", c.have, c.what, *c.limit, schema.ErrQuota)
		}
	}
	return nil
}
