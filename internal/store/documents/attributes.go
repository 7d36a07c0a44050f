package documents

// This file turns a document's labels and metadata into rows.

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/documents"
)

const (
	insertLabelsSQL = `
INSERT INTO version_labels (tenant_id, version_id, label) SELECT $1, * FROM unnest($2::uuid[], $3::text[])`
	insertMetadataSQL = `
INSERT INTO version_metadata (tenant_id, version_id, key, ordinal, text_value, int_value, time_value)
SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::int[], $5::text[], $6::bigint[], $7::timestamptz[])`
)

// attributeRows collects the labels and values of several versions as columns.
type attributeRows struct {
	labelled, valued []uuid.UUID
	labels           []string
	keys, texts      []string
	ordinals         []int
	wholes           []*int64
	times            []*time.Time
}

func (r *attributeRows) add(version uuid.UUID, a documents.Attributes) {
	for _, label := range a.Labels {
		r.labelled, r.labels = append(r.labelled, version), append(r.labels, label)
	}
	for _, v := range a.Values {
		r.valued, r.keys, r.ordinals = append(r.valued, version), append(r.keys, v.Key), append(r.ordinals, v.Ordinal)
		r.texts, r.wholes, r.times = append(r.texts, v.Text), append(r.wholes, v.Whole), append(r.times, v.Time)
	}
}

func (r *attributeRows) queue(batch *pgx.Batch, tenant uuid.UUID) {
	if len(r.labels) > 0 {
		batch.Queue(insertLabelsSQL, tenant, r.labelled, r.labels)
	}
	if len(r.keys) > 0 {
		batch.Queue(insertMetadataSQL, tenant, r.valued, r.keys, r.ordinals, r.texts, r.wholes, r.times)
	}
}

const attributesSQL = `
SELECT id, encode(sha256, 'hex'), given_title, metadata,
       ARRAY(SELECT l.label FROM version_labels l WHERE l.tenant_id = v.tenant_id AND l.version_id = v.id ORDER BY l.label)
FROM versions v WHERE tenant_id = $1 AND id = ANY ($2) ORDER BY id FOR UPDATE`

const setFingerprintSQL = `UPDATE versions SET fingerprint = $3 WHERE tenant_id = $1 AND id = $2`
