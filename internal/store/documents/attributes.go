package documents

// This file turns a document's labels and metadata into rows. Every value has
// a text form; whole numbers and times also have theirs, so that filters can
// compare ranges.

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

const (
	maxLabels        = 100
	maxLabel         = 256 // bytes
	maxMetadata      = 64 << 10
	maxMetadataKeys  = 256
	maxMetadataKey   = 128  // bytes
	maxMetadataList  = 1000 // values of one key
	maxIndexedValue  = 1024 // bytes; a longer value is kept, not indexed
	maxMetadataDepth = 16

	insertLabelsSQL = `
INSERT INTO version_labels (tenant_id, version_id, label) SELECT $1, * FROM unnest($2::uuid[], $3::text[])`
	insertMetadataSQL = `
INSERT INTO version_metadata (tenant_id, version_id, key, ordinal, text_value, int_value, time_value)
SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::int[], $5::text[], $6::bigint[], $7::timestamptz[])`
)

// attributes is a version's labels and metadata, validated.
type attributes struct {
	labels   []string // sorted, each once
	metadata []byte   // JSON as uploaded; nil when empty
	values   []metadataValue
}

type metadataValue struct {
	key     string
	ordinal int
	text    string
	whole   *int64
	time    *time.Time
}

func (a *attributes) setLabels(field string, labels []string) error {
	if len(labels) > maxLabels {
		return schema.Invalid(field, "has %d labels; at most %d are allowed", len(labels), maxLabels)
	}
	for i, label := range labels {
		if err := schema.CheckLength(fmt.Sprintf("%s[%d]", field, i), label, 1, maxLabel); err != nil {
			return err
		}
		if label == schema.NobodyLabel {
			return schema.Invalid(fmt.Sprintf("%s[%d]", field, i), "%q is kept for what nobody may see", label)
		}
	}
	a.labels = slices.Compact(slices.Sorted(slices.Values(labels)))
	return nil
}

func (a *attributes) setMetadata(field string, m schema.Metadata) error {
	a.metadata, a.values = nil, nil
	if len(m) == 0 {
		return nil
	}
	if len(m) > maxMetadataKeys {
		return schema.Invalid(field, "has %d keys; at most %d are allowed", len(m), maxMetadataKeys)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := field + "." + key
		if err := schema.CheckLength(field, key, 1, maxMetadataKey); err != nil {
			return schema.Invalid(field, "key %q: 1 to %d bytes of UTF-8 without U+0000", key, maxMetadataKey)
		}
		if err := checkValue(at, m[key], 0); err != nil {
			return err
		}
		list, isList := m[key].([]any)
		if !isList {
			list = []any{m[key]}
		}
		if len(list) > maxMetadataList {
			return schema.Invalid(at, "has %d values; at most %d are allowed", len(list), maxMetadataList)
		}
		for i, value := range list {
			if text, ok := textOf(value); ok && len(text) <= maxIndexedValue {
				a.values = append(a.values, newMetadataValue(key, i, text))
			}
		}
	}
	encoded, err := json.Marshal(m)
	if err != nil {
		return schema.Invalid(field, "cannot be stored as JSON: %v", err)
	}
	if len(encoded) > maxMetadata {
		return schema.Invalid(field, "has %d bytes; at most %d are allowed", len(encoded), maxMetadata)
	}
	a.metadata = encoded
	return nil
}

// checkValue walks a value for what Postgres does not take.
func checkValue(field string, value any, depth int) error {
	if depth > maxMetadataDepth {
		return schema.Invalid(field, "is nested more than %d deep", maxMetadataDepth)
	}
	switch v := value.(type) {
	case string:
		return schema.CheckText(field, v)
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return schema.Invalid(field, "%q is not a number that can be stored", v.String())
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return schema.Invalid(field, "is not a finite number")
		}
	case []any:
		for i, e := range v {
			if err := checkValue(fmt.Sprintf("%s[%d]", field, i), e, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, e := range v {
			if err := schema.CheckText(field, key); err != nil {
				return err
			}
			if err := checkValue(field+"."+key, e, depth+1); err != nil {
				return err
			}
		}
	case nil, bool, int, int64:
	default:
		return schema.Invalid(field, "%T is not a JSON value", value)
	}
	return nil
}

// textOf returns the text form of a scalar.
func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case json.Number:
		if f, err := v.Float64(); err == nil {
			if _, err := v.Int64(); err == nil {
				return v.String(), true
			}
			return textOf(f)
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return strconv.FormatInt(int64(v), 10), true
		}
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}

func newMetadataValue(key string, ordinal int, text string) metadataValue {
	v := metadataValue{key: key, ordinal: ordinal, text: text}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		v.whole = &n
	}
	if t, ok := schema.ParseTime(text); ok && t.Year() >= 0 {
		v.time = &t
	}
	return v
}

// attributeRows collects the labels and values of several versions as columns.
type attributeRows struct {
	labelled, valued []uuid.UUID
	labels           []string
	keys, texts      []string
	ordinals         []int
	wholes           []*int64
	times            []*time.Time
}

func (r *attributeRows) add(version uuid.UUID, a attributes) {
	for _, label := range a.labels {
		r.labelled, r.labels = append(r.labelled, version), append(r.labels, label)
	}
	for _, v := range a.values {
		r.valued, r.keys, r.ordinals = append(r.valued, version), append(r.keys, v.key), append(r.ordinals, v.ordinal)
		r.texts, r.wholes, r.times = append(r.texts, v.text), append(r.wholes, v.whole), append(r.times, v.time)
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
