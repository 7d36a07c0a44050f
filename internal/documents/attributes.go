package documents

// This file checks a document's labels and metadata. Every value has a text form; whole numbers and
// times also have forms that filters compare by range.

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

const (
	maxMetadataKeys  = 256
	maxMetadataKey   = 128  // bytes
	maxMetadataList  = 1000 // values of one key
	maxIndexedValue  = 1024 // bytes; a longer value is kept, not indexed
	maxMetadataDepth = 16
)

// Attributes are the checked labels and metadata of a version.
type Attributes struct {
	Labels   []string // sorted, each once
	Metadata []byte   // JSON as uploaded; nil when empty
	Values   []MetadataValue
}

// MetadataValue is one of the values of a key, by which documents can be filtered.
type MetadataValue struct {
	Key     string
	Ordinal int
	Text    string
	Whole   *int64
	Time    *time.Time
}

// setLabels checks and sets labels. reserved allows labels that stand for permissions of a source.
func (a *Attributes) setLabels(field string, labels []string, reserved bool) error {
	if len(labels) > schema.MaxLabels {
		return schema.Invalid(field, "has %d labels; at most %d are allowed", len(labels), schema.MaxLabels)
	}
	for i, label := range labels {
		if err := schema.CheckLength(fmt.Sprintf("%s[%d]", field, i), label, 1, schema.MaxLabel); err != nil {
			return err
		}
		if schema.Reserved(label) && !reserved {
			return schema.Invalid(fmt.Sprintf("%s[%d]", field, i), "%q is reserved by the system", label)
		}
	}
	a.Labels = slices.Compact(slices.Sorted(slices.Values(labels)))
	return nil
}

func (a *Attributes) setMetadata(field string, m schema.Metadata) error {
	a.Metadata, a.Values = nil, nil
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
				a.Values = append(a.Values, newMetadataValue(key, i, text))
			}
		}
	}
	encoded, err := json.Marshal(m)
	if err != nil {
		return schema.Invalid(field, "cannot be stored as JSON: %v", err)
	}
	if len(encoded) > schema.MaxMetadata {
		return schema.Invalid(field, "has %d bytes; at most %d are allowed", len(encoded), schema.MaxMetadata)
	}
	a.Metadata = encoded
	return nil
}

// checkValue checks a value for contents that Postgres does not accept.
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

func newMetadataValue(key string, ordinal int, text string) MetadataValue {
	v := MetadataValue{Key: key, Ordinal: ordinal, Text: text}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		v.Whole = &n
	}
	if t, ok := schema.ParseTime(text); ok && t.Year() >= 0 {
		v.Time = &t
	}
	return v
}
