package store

// This file lists documents, in several orders. A page's cursor is where its
// last document stands in its order. For every order there is an index
// (migration 83), of the newest versions or of the documents, so that a page
// costs the same however many documents there are; a search for a part of a name
// may go through all names of the collection.

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

// $4 collection. A condition that is not asked for is left out, so that the
// planner need not guess. Two conditions that join would have it take every
// join for one of few rows, and sort all of a collection for a page.
var documentListSQL = documentColumns + ` JOIN versions v ON v.tenant_id = d.tenant_id AND v.document_id = d.id AND v.newest` + documentVisible + `
  AND d.collection_id = $4 AND v.collection_id = $4`

const (
	inStateSQL = ` AND v.state = %[1]s`
	// The range is what the index by name knows; in bytes nothing that is text comes behind U+10FFFF.
	prefixSQL = ` AND d.external_id COLLATE "C" >= %[1]s AND d.external_id COLLATE "C" < %[1]s || chr(1114111) AND starts_with(d.external_id, %[1]s)`
	// By the rules of "C", which know the case of A to Z alone: half the time of all languages' rules.
	partSQL = ` AND position(lower(%[1]s COLLATE "C") IN lower(d.external_id COLLATE "C")) > 0`
	// How many names have a part the planner can't know: walking in the list's order
	// until enough are found, it may look up every version one by one.
	partPlanSQL = `SELECT set_config('enable_nestloop', 'off', true)`
	labelledSQL = ` AND EXISTS (SELECT 1 FROM version_labels f WHERE f.tenant_id = v.tenant_id AND f.version_id = v.id AND f.label = %[1]s)`
)

// documentOrders are the orders of documents: the order itself, and what comes
// after a cursor, whose key is %[1]s and whose id is %[2]s.
var documentOrders = map[schema.DocumentSort]struct {
	order, after string
	key          func(schema.Document) string
}{
	schema.SortOldest:   {`d.id`, ` AND d.id > %[2]s`, nil},
	schema.SortNewest:   {`d.id DESC`, ` AND d.id < %[2]s`, nil},
	schema.SortName:     {`d.external_id COLLATE "C"`, ` AND d.external_id COLLATE "C" > %[1]s`, func(d schema.Document) string { return d.ExternalID }},
	schema.SortLargest:  {`v.bytes DESC, v.document_id DESC`, ` AND (v.bytes, v.document_id) < (%[1]s::bigint, %[2]s)`, sizeKey},
	schema.SortSmallest: {`v.bytes, v.document_id`, ` AND (v.bytes, v.document_id) > (%[1]s::bigint, %[2]s)`, sizeKey},
	schema.SortState:    {`v.state, v.document_id`, ` AND (v.state, v.document_id) > (%[1]s, %[2]s)`, func(d schema.Document) string { return string(d.State) }},
}

func sizeKey(d schema.Document) string { return strconv.FormatInt(d.Bytes, 10) }

// documentCursor is where a page ended.
type documentCursor struct {
	Sort schema.DocumentSort `json:"s"`
	Key  string              `json:"k,omitempty"`
	ID   uuid.UUID           `json:"i"`
}

func (c documentCursor) String() string {
	out, err := json.Marshal(c)
	if err != nil { // cannot be: two strings and an id
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(out)
}

func readDocumentCursor(text string, sort schema.DocumentSort) (c documentCursor, err error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err == nil && (sort == schema.SortLargest || sort == schema.SortSmallest) {
		_, err = strconv.ParseInt(c.Key, 10, 64)
	}
	if err != nil || c.Sort != sort || checkText("cursor", c.Key) != nil {
		return c, schema.Invalid("cursor", "is not one that a page before gave, in this order")
	}
	return c, nil
}

// Documents returns a page of a collection's documents, and the next cursor.
func (s *Store) Documents(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.DocumentQuery) ([]schema.Document, string, error) {
	limits, err := pageOf(schema.PageQuery{Limit: q.Limit})
	if err != nil {
		return nil, "", err
	}
	sql, args, err := documentList(p, collection, q, limits.limit+1)
	if err != nil {
		return nil, "", err
	}
	var out []schema.Document
	err = s.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := collectionExists(ctx, tx, p.Tenant, collection); err != nil {
			return err
		}
		if q.Part != "" {
			if _, err := tx.Exec(ctx, partPlanSQL); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanDocument)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list documents: %w", err)
	}
	if len(out) <= limits.limit {
		return out, "", nil
	}
	out = out[:limits.limit]
	last := out[len(out)-1]
	end := documentCursor{Sort: cmp.Or(q.Sort, schema.SortOldest), ID: last.ID}
	if key := documentOrders[end.Sort].key; key != nil {
		end.Key = key(last)
	}
	return out, end.String(), nil
}

// documentList is the statement of a page, with its parameters.
func documentList(p schema.Principal, collection uuid.UUID, q schema.DocumentQuery, limit int) (string, []any, error) {
	sort := cmp.Or(q.Sort, schema.SortOldest)
	order, known := documentOrders[sort]
	if !known {
		return "", nil, schema.Invalid("sort", "%q is not one of oldest, newest, name, largest, smallest, state", string(sort))
	}
	if err := errors.Join(checkText("prefix", q.Prefix), checkText("contains", q.Part), checkText("label", q.Label), checkState(q.State)); err != nil {
		return "", nil, err
	}
	args := sight(p, collection)
	param := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	sql := documentListSQL
	for _, c := range []struct{ sql, value string }{{inStateSQL, string(q.State)}, {prefixSQL, q.Prefix}, {partSQL, q.Part}, {labelledSQL, q.Label}} {
		if c.value != "" {
			sql += fmt.Sprintf(c.sql, param(c.value)+"::text")
		}
	}
	if q.Cursor != "" {
		c, err := readDocumentCursor(q.Cursor, sort)
		if err != nil {
			return "", nil, err
		}
		after := order.after
		if order.key != nil {
			after = strings.ReplaceAll(after, "%[1]s", param(c.Key)+"::text")
		}
		if strings.Contains(after, "%[2]s") {
			after = strings.ReplaceAll(after, "%[2]s", param(c.ID)+"::uuid")
		}
		sql += after
	}
	return sql + " ORDER BY " + order.order + " LIMIT " + param(limit), args, nil
}

func checkState(state schema.State) error {
	if state != "" && !slices.Contains(schema.States, state) {
		return schema.Invalid("state", "%q is not one of %v", string(state), schema.States)
	}
	return nil
}
