package documents

// This file lists documents, in several orders. A page's cursor is the position of its last
// document in the order. Each order has an index (migration 83), of the newest versions or of the
// documents, so the cost of a page does not depend on the number of documents; a search for a part
// of a name may scan all names of the collection.

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

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

var (
	// $4 collection. A list scans documents, or their newest versions, and looks up the other by
	// primary key. A condition that was not asked for is left out, so that the planner need not
	// guess.
	byDocumentSQL = documentColumns + ` FROM documents d JOIN versions v ON v.tenant_id = d.tenant_id AND v.id = d.last_version_id` + documentVisible + `
  AND d.collection_id = $4`
	byVersionSQL = documentColumns + ` FROM documents d JOIN versions v ON v.tenant_id = d.tenant_id AND v.document_id = d.id` + documentVisible + `
  AND v.collection_id = $4 AND v.newest`
	// Except for a search for a part of a name, these fix which table is scanned, whatever the
	// statistics say: they may date from when the collection was small, or the tenant not there.
	walkDocumentsSQL = documentColumns + ` FROM documents d CROSS JOIN LATERAL (
    SELECT * FROM versions WHERE tenant_id = d.tenant_id AND id = d.last_version_id OFFSET 0) v` + documentVisible
	walkVersionsSQL = documentColumns + ` FROM versions v CROSS JOIN LATERAL (
    SELECT * FROM documents WHERE tenant_id = v.tenant_id AND id = v.document_id OFFSET 0) d` + documentVisible + `
  AND v.tenant_id = $1 AND v.collection_id = $4 AND v.newest`
	// Makes the planner scan the index of the list's order.
	walkPlanSQL = `
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('enable_incremental_sort', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`
	// A column that equals a constant is dropped from the sort order: with the order by id alone,
	// the planner may scan all documents of the tenant. A column between a value and itself remains
	// in the order, and only the order's own index has it. %[1]s is the column, %[2]s the value.
	betweenSQL = ` AND %[1]s >= %[2]s AND %[1]s <= %[2]s`
)

const (
	inStateSQL = ` AND v.state = %[1]s`
	// When a state has few documents, they are sorted; when it has many, a scan in the list's order
	// soon finds enough.
	fewInStateSQL = ` AND v.id = ANY (ARRAY(
      SELECT f.id FROM versions f WHERE f.tenant_id = $1 AND f.collection_id = $4 AND f.state = %[1]s AND f.newest))`
	countInStateSQL = `
SELECT count(*) FROM (SELECT FROM versions WHERE tenant_id = $1 AND collection_id = $2 AND state = $3 AND newest LIMIT $4) AS counted`
	fewInState = 1000
	// The index by name can use the range; in bytes no text is greater than U+10FFFF.
	prefixSQL = ` AND d.external_id COLLATE "C" >= %[1]s AND d.external_id COLLATE "C" < %[1]s || chr(1114111) AND starts_with(d.external_id, %[1]s)`
	// Uses the rules of "C", which only know the case of A to Z: this takes half the time of the
	// rules for all languages.
	partSQL = ` AND position(lower(%[1]s COLLATE "C") IN lower(d.external_id COLLATE "C")) > 0`
	// The planner can't know how many names contain a part: scanning in the list's order until it
	// finds enough, it may look up every version one by one.
	partPlanSQL = `SELECT set_config('enable_nestloop', 'off', true)`
	labelledSQL = ` AND EXISTS (SELECT 1 FROM version_labels f WHERE f.tenant_id = v.tenant_id AND f.version_id = v.id AND f.label = %[1]s)`
)

// documentOrders are the orders of documents: the ORDER BY expressions, and the condition for what
// comes after a cursor with the key %[1]s and the id %[2]s. %[3]s is the document's id in the table
// that is scanned.
var documentOrders = map[schema.DocumentSort]struct {
	order, after string
	byVersion    bool // an index of versions has the order
	key          func(schema.Document) string
}{
	schema.SortOldest: {`%[3]s`, ` AND %[3]s > %[2]s`, false, nil},
	schema.SortNewest: {`%[3]s DESC`, ` AND %[3]s < %[2]s`, false, nil},
	schema.SortName: {`d.external_id COLLATE "C"`, ` AND d.external_id COLLATE "C" > %[1]s`, false,
		func(d schema.Document) string { return d.ExternalID }},
	schema.SortLargest:  {`v.bytes DESC, v.document_id DESC`, ` AND (v.bytes, v.document_id) < (%[1]s::bigint, %[2]s)`, true, sizeKey},
	schema.SortSmallest: {`v.bytes, v.document_id`, ` AND (v.bytes, v.document_id) > (%[1]s::bigint, %[2]s)`, true, sizeKey},
	schema.SortState: {`v.state, v.document_id`, ` AND (v.state, v.document_id) > (%[1]s, %[2]s)`, true,
		func(d schema.Document) string { return string(d.State) }},
}

func sizeKey(d schema.Document) string { return strconv.FormatInt(d.Bytes, 10) }

// documentCursor is the end of a page.
type documentCursor struct {
	Sort schema.DocumentSort `json:"s"`
	Key  string              `json:"k,omitempty"`
	ID   uuid.UUID           `json:"i"`
}

func (c documentCursor) String() string {
	out, err := json.Marshal(c)
	if err != nil { // cannot happen: two strings and an id
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
	if err != nil || c.Sort != sort || schema.CheckText("cursor", c.Key) != nil {
		return c, schema.Invalid("cursor", "is not the cursor of a previous page in this order")
	}
	return c, nil
}

// Documents returns a page of a collection's documents, and the next cursor.
func (s *DocumentStore) Documents(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.DocumentQuery) ([]schema.Document, string, error) {
	limits, err := store.PageOf(schema.PageQuery{Limit: q.Limit})
	if err != nil {
		return nil, "", err
	}
	if _, _, err := documentList(p, collection, q, limits.Limit+1, false); err != nil {
		return nil, "", err
	}
	var out []schema.Document
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := store.CollectionExists(ctx, tx, p.Tenant, collection); err != nil {
			return err
		}
		few, err := fewAreInState(ctx, tx, p.Tenant, collection, q)
		if err != nil {
			return err
		}
		switch {
		case q.Part != "":
			_, err = tx.Exec(ctx, partPlanSQL)
		case walks(q, few):
			_, err = tx.Exec(ctx, walkPlanSQL)
		}
		if err != nil {
			return err
		}
		sql, args, err := documentList(p, collection, q, limits.Limit+1, few)
		if err != nil {
			return err
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
	if len(out) <= limits.Limit {
		return out, "", nil
	}
	out = out[:limits.Limit]
	last := out[len(out)-1]
	end := documentCursor{Sort: cmp.Or(q.Sort, schema.SortOldest), ID: last.ID}
	if key := documentOrders[end.Sort].key; key != nil {
		end.Key = key(last)
	}
	return out, end.String(), nil
}

// fewAreInState reports whether q filters by state in an order without an index for that, and few
// documents are in the state.
func fewAreInState(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID, q schema.DocumentQuery) (bool, error) {
	if q.State == "" || q.Part != "" || !slices.Contains([]schema.DocumentSort{schema.SortName, schema.SortLargest, schema.SortSmallest}, q.Sort) {
		return false, nil
	}
	var n int
	err := tx.QueryRow(ctx, countInStateSQL, tenant, collection, q.State, fewInState).Scan(&n)
	return n < fewInState, err
}

// walks reports whether q is answered by a scan of the index of its order.
func walks(q schema.DocumentQuery, few bool) bool { return q.Part == "" && q.Prefix == "" && !few }

// documentList returns the statement of a page, with its parameters. few says that few documents
// are in the state.
func documentList(p schema.Principal, collection uuid.UUID, q schema.DocumentQuery, limit int, few bool) (string, []any, error) {
	sort := cmp.Or(q.Sort, schema.SortOldest)
	order, known := documentOrders[sort]
	if !known {
		return "", nil, schema.Invalid("sort", "%q is not one of oldest, newest, name, largest, smallest, state", string(sort))
	}
	if err := errors.Join(schema.CheckText("prefix", q.Prefix), schema.CheckText("contains", q.Part), schema.CheckText("label", q.Label), checkState(q.State)); err != nil {
		return "", nil, err
	}
	args := visibleTo(p, collection)
	param := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	// Documents of a state in the order of ids: an index of versions has this order.
	sql, walk, by := byDocumentSQL, walkDocumentsSQL, "d.id"
	if order.byVersion || few || q.State != "" && sort != schema.SortName {
		sql, walk, by = byVersionSQL, walkVersionsSQL, "v.document_id"
	}
	inState := inStateSQL
	if few {
		inState = fewInStateSQL
	}
	byID := sort == schema.SortOldest || sort == schema.SortNewest
	switch walking := walks(q, few); {
	case walking && q.State != "" && (byID || sort == schema.SortState):
		column, value := "v.state", param(string(q.State))+"::text"
		sql, inState = walk+fmt.Sprintf(betweenSQL, column, value), ""
		order.order, order.after = idOrder(sort, column, value)
		order.key = nil
	case walking && byID:
		column, value := "d.collection_id", "$4"
		sql = walk + fmt.Sprintf(betweenSQL, column, value)
		order.order, order.after = idOrder(sort, column, value)
	case q.Part == "" && walk == walkDocumentsSQL:
		sql = walk + ` AND d.collection_id = $4`
	case q.Part == "":
		sql = walk
	}
	for _, c := range []struct{ sql, value string }{{inState, string(q.State)}, {prefixSQL, q.Prefix}, {partSQL, q.Part}, {labelledSQL, q.Label}} {
		if c.sql != "" && c.value != "" {
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
	return strings.ReplaceAll(sql+" ORDER BY "+order.order, "%[3]s", by) + " LIMIT " + param(limit), args, nil
}

// idOrder returns the order by id of the rows with value in column, and the condition for what
// comes after a cursor, in the form of documentOrders.
func idOrder(sort schema.DocumentSort, column, value string) (order, after string) {
	if sort == schema.SortNewest {
		return column + ` DESC, %[3]s DESC`, ` AND (` + column + `, %[3]s) < (` + value + `, %[2]s)`
	}
	return column + `, %[3]s`, ` AND (` + column + `, %[3]s) > (` + value + `, %[2]s)`
}

func checkState(state schema.State) error {
	if state != "" && !slices.Contains(schema.States, state) {
		return schema.Invalid("state", "%q is not one of %v", string(state), schema.States)
	}
	return nil
}
