package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Tries every operation on a document or collection with another tenant's ids.
func TestForeignIDsAreNotFound(t *testing.T) {
	f := setUp(t, store.Options{})
	up := f.upload(t, f.b, f.foreign, text("b.txt", "of b"))
	f.fail(t, f.b, up.Version)
	labels := []string{"x"}
	description := "mine"
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Document":       func() error { _, err := f.Document(ctx, f.a, up.Document); return err },
		"DocumentNamed":  func() error { _, err := f.DocumentNamed(ctx, f.a, f.foreign, "b.txt"); return err },
		"Documents":      func() error { _, _, err := f.Documents(ctx, f.a, f.foreign, schema.DocumentQuery{}); return err },
		"Versions":       func() error { _, err := f.Versions(ctx, f.a, up.Document); return err },
		"DocumentText":   func() error { _, _, err := f.DocumentText(ctx, f.a, up.Document, schema.TextQuery{}); return err },
		"OpenContent":    func() error { _, _, err := f.OpenContent(ctx, f.a, up.Document, uuid.Nil); return err },
		"DeleteDocument": func() error { return f.DeleteDocument(ctx, f.a, up.Document) },
		"RetryDocument":  func() error { _, err := f.RetryDocument(ctx, f.a, up.Document); return err },
		"RetryFailed":    func() error { _, err := f.RetryFailed(ctx, f.a, f.foreign); return err },
		"UpdateDocument": func() error {
			_, err := f.UpdateDocument(ctx, f.a, up.Document, schema.DocumentChange{Labels: &labels})
			return err
		},
		"Collection":        func() error { _, err := f.Collection(ctx, f.a, f.foreign.String()); return err },
		"ResolveCollection": func() error { _, err := f.ResolveCollection(ctx, f.a, f.foreign.String()); return err },
		"UpdateCollection": func() error {
			_, err := f.UpdateCollection(ctx, f.a, f.foreign, schema.CollectionChange{Description: &description})
			return err
		},
		"DeleteCollection": func() error { return f.DeleteCollection(ctx, f.a, f.foreign) },
		"OpenBlob": func() error {
			_, err := f.OpenBlob(ctx, f.a.Tenant, one[[]byte](t, f, f.b, `SELECT sha256 FROM blobs`))
			return err
		},
		"RotateKey": func() error {
			_, err := f.RotateKey(ctx, f.a, one[uuid.UUID](t, f, f.b, `SELECT id FROM api_keys`), schema.SealedKey{},
				time.Now(), time.Now(), func(schema.Key) error { return nil })
			return err
		},
		"RevokeKey": func() error {
			_, err := f.RevokeKey(ctx, f.a, one[uuid.UUID](t, f, f.b, `SELECT id FROM api_keys`))
			return err
		},
	} {
		if err := call(); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	doc, err := f.Document(ctx, f.b, up.Document)
	if err != nil || doc.State != schema.StateFailed || doc.Attempt != 1 || len(doc.Labels) != 0 {
		t.Errorf("B's document changed: %+v, %v", doc, err)
	}
}

func TestDocumentsPageFilterAndPrefix(t *testing.T) {
	f := setUp(t, store.Options{})
	var uploads []schema.Upload
	for i := range 25 {
		uploads = append(uploads, text(fmt.Sprintf("%s/%02d", []string{"even", "odd"}[i%2], i), fmt.Sprint(i)))
	}
	ups, err := f.Upload(t.Context(), f.a, f.collection, uploads)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 25; i += 5 {
		f.fail(t, f.a, ups[i].Version)
	}
	f.goLive(t, f.a, ups[1].Document, ups[1].Version)
	all := func(q schema.DocumentQuery) (ids []string, pages int) {
		t.Helper()
		for {
			list, next, err := f.Documents(t.Context(), f.a, f.collection, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range list {
				ids = append(ids, d.ExternalID)
			}
			if pages++; next == "" {
				return ids, pages
			}
			q.Cursor = next
		}
	}
	ids, pages := all(schema.DocumentQuery{PageQuery: schema.PageQuery{Limit: 10}})
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 25 || pages != 3 {
		t.Errorf("%d documents on %d pages", len(ids), pages)
	}
	if ids, _ := all(schema.DocumentQuery{State: schema.StateFailed, PageQuery: schema.PageQuery{Limit: 2}}); len(ids) != 5 {
		t.Errorf("failed: %v", ids)
	}
	if ids, _ := all(schema.DocumentQuery{State: schema.StateReady}); !slices.Equal(ids, []string{"odd/01"}) {
		t.Errorf("ready: %v", ids)
	}
	if ids, _ := all(schema.DocumentQuery{Prefix: "odd/"}); len(ids) != 12 {
		t.Errorf("prefix: %v", ids)
	}
	if ids, _ := all(schema.DocumentQuery{Prefix: "%"}); len(ids) != 0 {
		t.Errorf("a prefix is no pattern: %v", ids)
	}
	for _, q := range []schema.DocumentQuery{{State: "odd"}, {Prefix: "\x00"}, {PageQuery: schema.PageQuery{Cursor: "x"}}, {PageQuery: schema.PageQuery{Limit: -1}}} {
		if _, _, err := f.Documents(t.Context(), f.a, f.collection, q); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	c, err := f.Collection(t.Context(), f.a, "papers")
	if err != nil {
		t.Fatal(err)
	}
	want := map[schema.State]int64{schema.StateFailed: 5, schema.StateReady: 1, schema.StateQueued: 19}
	if !maps.Equal(c.Counts, want) || c.Passages != 1 || c.Bytes != 40 || c.ID != f.collection || c.Language != "en" {
		t.Errorf("%+v", c)
	}
}

func TestLabelsHideDocumentsFromQueryKeys(t *testing.T) {
	f := setUp(t, store.Options{})
	secret := text("secret", "x")
	secret.Labels = []string{"board"}
	up := f.upload(t, f.a, f.collection, secret)
	f.upload(t, f.a, f.collection, text("open", "x"))
	query := schema.Principal{Tenant: f.a.Tenant, Key: schema.NewID(), Scopes: []schema.Scope{schema.ScopeQuery}}
	for _, c := range []struct {
		groups []string
		want   int
	}{{nil, 1}, {[]string{"staff"}, 1}, {[]string{"staff", "board"}, 2}} {
		query.Groups = c.groups
		list, _, err := f.Documents(t.Context(), query, f.collection, schema.DocumentQuery{})
		if err != nil || len(list) != c.want {
			t.Errorf("groups %v: %d documents, %v", c.groups, len(list), err)
		}
		_, err = f.Document(t.Context(), query, up.Document)
		if (c.want == 1) != errors.Is(err, schema.ErrNotFound) {
			t.Errorf("groups %v: %v", c.groups, err)
		}
		_, _, err = f.OpenContent(t.Context(), query, up.Document, uuid.Nil)
		if (c.want == 1) != errors.Is(err, schema.ErrNotFound) {
			t.Errorf("groups %v: %v", c.groups, err)
		}
	}
}

func TestDeleteHidesAtOnceAndUploadBringsBack(t *testing.T) {
	f := setUp(t, store.Options{})
	v1 := f.upload(t, f.a, f.collection, text("a", "one"))
	f.goLive(t, f.a, v1.Document, v1.Version)
	v2 := f.upload(t, f.a, f.collection, text("a", "two"))
	execAs(t, f, f.a, `INSERT INTO leases (tenant_id, subject_id, kind, attempt, holder, expires_at) VALUES ($1, $2, 'version', 1, 'w', now())`, f.a.Tenant, v2.Version)
	if err := f.DeleteDocument(t.Context(), f.a, v1.Document); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Document(t.Context(), f.a, v1.Document); !errors.Is(err, schema.ErrNotFound) {
		t.Error(err)
	}
	if err := f.DeleteDocument(t.Context(), f.a, v1.Document); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	got := one[string](t, f, f.a, `SELECT string_agg(state, ' ' ORDER BY number) FROM versions`)
	if got != "superseded cancelled" {
		t.Errorf("states %s", got)
	}
	if n := one[int](t, f, f.a, `SELECT (SELECT count(*) FROM leases) + (SELECT count(*) FROM documents WHERE live_version_id IS NOT NULL)`); n != 0 {
		t.Error("a lease or a live version is left")
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM outbox WHERE subject = $1`, wire.EventSubject(f.a.Tenant, "document.deleted")); n != 1 {
		t.Errorf("%d events", n)
	}
	if s := one[string](t, f, f.a, `SELECT actor || ' ' || target FROM audit WHERE action = 'document.delete'`); s != "key:"+f.a.Key.String()+" "+v1.Document.String() {
		t.Error(s)
	}
	back := f.upload(t, f.a, f.collection, text("a", "one"))
	if back.Unchanged || back.Document != v1.Document {
		t.Errorf("%+v", back)
	}
	doc, err := f.Document(t.Context(), f.a, v1.Document)
	if err != nil || doc.State != schema.StateQueued || doc.Version != 3 || doc.Live {
		t.Errorf("%+v, %v", doc, err)
	}
	// An upload equals no content from before the deletion.
	f.fail(t, f.a, back.Version)
	if f.upload(t, f.a, f.collection, text("a", "one")).Unchanged {
		t.Error("an upload equalled a version from before the deletion")
	}
}

// TestDeletingIsAnEventOfEachVersion: the live version is superseded, and unfinished ones are
// cancelled.
func TestDeletingIsAnEventOfEachVersion(t *testing.T) {
	f := setUp(t, store.Options{})
	live := f.upload(t, f.a, f.collection, text("a", "one"))
	f.goLive(t, f.a, live.Document, live.Version)
	next := f.upload(t, f.a, f.collection, text("a", "two"))
	if err := f.DeleteDocument(t.Context(), f.a, live.Document); err != nil {
		t.Fatal(err)
	}
	for kind, version := range map[string]uuid.UUID{"version.superseded": live.Version, "version.cancelled": next.Version} {
		e := messages[wire.Event](t, f, wire.EventSubject(f.a.Tenant, kind))
		if len(e) != 1 || e[0].Version != version || e[0].Document != live.Document || e[0].ExternalID != "a" || "version."+string(e[0].State) != kind {
			t.Errorf("%s: %+v", kind, e)
		}
	}
}

func TestRetry(t *testing.T) {
	f := setUp(t, store.Options{})
	up := f.upload(t, f.a, f.collection, text("a", "one"))
	if _, err := f.RetryDocument(t.Context(), f.a, up.Document); !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), "queued") {
		t.Errorf("retry of a queued document: %v", err)
	}
	f.fail(t, f.a, up.Version)
	doc, err := f.RetryDocument(t.Context(), f.a, up.Document)
	if err != nil || doc.State != schema.StateQueued || doc.Attempt != 2 || doc.Reason != nil {
		t.Fatalf("%+v, %v", doc, err)
	}
	if n := one[int](t, f, f.a, `SELECT parses FROM versions`); n != 0 {
		t.Errorf("%d parses: the third crash would come too early", n)
	}
	ids := one[string](t, f, f.a, `SELECT string_agg(message_id, ' ' ORDER BY id) FROM outbox WHERE subject = $1`, wire.IngestSubject(f.a.Tenant))
	if ids != wire.IngestMessageID(up.Version, 1)+" "+wire.IngestMessageID(up.Version, 2) {
		t.Error(ids)
	}

	var uploads []schema.Upload
	for i := range 600 {
		uploads = append(uploads, text(fmt.Sprint("many/", i), "x"))
	}
	if _, err := f.Upload(t.Context(), f.a, f.collection, uploads); err != nil {
		t.Fatal(err)
	}
	execAs(t, f, f.a, `UPDATE versions SET state = 'failed', reason_code = 'model', reason = 'x' WHERE state = 'queued' AND id <> $1`, up.Version)
	var wg sync.WaitGroup
	var total [4]int
	for i := range total {
		wg.Go(func() {
			n, err := f.RetryFailed(context.Background(), f.a, f.collection)
			if total[i] = n; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if sum := total[0] + total[1] + total[2] + total[3]; sum != 600 {
		t.Errorf("retried %v", total)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM versions WHERE state = 'queued' AND attempt = 2`); n != 601 {
		t.Errorf("%d are queued again", n)
	}
}

func TestUpdateDocument(t *testing.T) {
	f := setUp(t, store.Options{})
	u := text("a", "one")
	u.Labels, u.Metadata, u.Title = []string{"old"}, schema.Metadata{"year": 2020.0}, "Given"
	v1 := f.upload(t, f.a, f.collection, u)
	f.goLive(t, f.a, v1.Document, v1.Version)
	v2 := f.upload(t, f.a, f.collection, text("a", "two"))
	labels, metadata := []string{"new", "new"}, schema.Metadata{"year": 2024.0, "list": []any{"x", 2.0}}
	doc, err := f.UpdateDocument(t.Context(), f.a, v1.Document, schema.DocumentChange{Labels: &labels, Metadata: &metadata})
	if err != nil || !slices.Equal(doc.Labels, []string{"new"}) || doc.Metadata["year"] != 2024.0 {
		t.Fatalf("%+v, %v", doc, err)
	}
	// The live version, which answers questions, changes too.
	for _, v := range []uuid.UUID{v1.Version, v2.Version} {
		got := one[string](t, f, f.a, `SELECT (SELECT string_agg(label, ',') FROM version_labels WHERE version_id = $1) || ' ' ||
			(SELECT string_agg(key || '=' || text_value, ',' ORDER BY key, ordinal) FROM version_metadata WHERE version_id = $1)`, v)
		if got != "new list=x,list=2,year=2024" {
			t.Errorf("version %s: %s", v, got)
		}
	}
	// An upload equal to the changed document is unchanged; one with the old attributes is not.
	same := text("a", "two")
	same.Labels, same.Metadata = []string{"new"}, metadata
	if !f.upload(t, f.a, f.collection, same).Unchanged {
		t.Error("an upload with the changed attributes is not unchanged")
	}
	if f.upload(t, f.a, f.collection, text("a", "two")).Unchanged {
		t.Error("an upload with the attributes before is unchanged")
	}
	none, empty := []string{}, schema.Metadata{}
	doc, err = f.UpdateDocument(t.Context(), f.a, v1.Document, schema.DocumentChange{Labels: &none, Metadata: &empty})
	if err != nil || len(doc.Labels) != 0 || doc.Metadata != nil {
		t.Errorf("%+v, %v", doc, err)
	}
	bad := []string{"\x00"}
	if _, err := f.UpdateDocument(t.Context(), f.a, v1.Document, schema.DocumentChange{Labels: &bad}); !errors.Is(err, schema.ErrInvalid) {
		t.Error(err)
	}
}

func TestVersionsAndContent(t *testing.T) {
	f := setUp(t, store.Options{})
	v1 := f.upload(t, f.a, f.collection, text("a", "one"))
	f.goLive(t, f.a, v1.Document, v1.Version)
	v2 := f.upload(t, f.a, f.collection, text("a", "two"))
	f.fail(t, f.a, v2.Version)
	versions, err := f.Versions(t.Context(), f.a, v1.Document)
	if err != nil || len(versions) != 2 {
		t.Fatal(versions, err)
	}
	if v := versions[0]; v.ID != v2.Version || v.Number != 2 || v.State != schema.StateFailed || v.Reason == nil || v.Reason.Code != "broken" || v.ReadyAt != nil {
		t.Errorf("%+v", v)
	}
	if v := versions[1]; v.ID != v1.Version || v.Number != 1 || v.State != schema.StateReady || v.Reason != nil || v.ReadyAt == nil {
		t.Errorf("%+v", v)
	}
	doc, err := f.DocumentNamed(t.Context(), f.a, f.collection, "a")
	if err != nil || !doc.Live || doc.State != schema.StateFailed {
		t.Errorf("a failed update hides the old version: %+v, %v", doc, err)
	}
	for version, want := range map[uuid.UUID]string{uuid.Nil: "two", v2.Version: "two", v1.Version: "one"} {
		content, mediaType, err := f.OpenContent(t.Context(), f.a, doc.ID, version)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(content); string(data) != want || mediaType != "text/plain" || err != nil {
			t.Errorf("version %s: %q of %s, %v", version, data, mediaType, err)
		}
	}
}

// TestContentOfAVersion: a version must be its document's, is protected by its own labels and by
// the live one's, and is gone once it is purged.
func TestContentOfAVersion(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	labelled := func(content string, labels ...string) schema.Uploaded {
		u := text("a", content)
		u.Labels = labels
		up := f.upload(t, f.a, f.collection, u)
		f.goLive(t, f.a, up.Document, up.Version)
		return up
	}
	secret := labelled("secret", "board")
	open := labelled("open")
	other := f.upload(t, f.a, f.collection, text("b", "of another document"))
	theirs := f.upload(t, f.b, f.foreign, text("a", "of another tenant"))
	check := func(who string, p schema.Principal, version uuid.UUID, want error) {
		t.Helper()
		_, _, err := f.OpenContent(t.Context(), p, open.Document, version)
		if !errors.Is(err, want) || errors.Is(err, schema.ErrNotFound) && !strings.Contains(err.Error(), version.String()) {
			t.Errorf("%s: %v, want %v", who, err, want)
		}
	}
	check("a reader, the open version", f.reader(), open.Version, nil)
	check("a reader, the labelled version", f.reader(), secret.Version, schema.ErrForbidden)
	check("who lists it, the labelled version", f.a, secret.Version, schema.ErrForbidden)
	check("a reader of the group, the labelled version", f.reader("board"), secret.Version, nil)
	check("another document's", f.a, other.Version, schema.ErrNotFound)
	check("another tenant's", f.a, theirs.Version, schema.ErrNotFound)
	check("nobody's", f.a, uuid.New(), schema.ErrNotFound)

	// The same bytes stay stored for the next document.
	f.upload(t, f.a, f.collection, text("c", "secret"))
	f.purgeAll(t)
	check("a purged one", f.reader("board"), secret.Version, schema.ErrNotFound)
	check("the open version after the purge", f.reader(), open.Version, nil)

	labels := []string{"board"}
	if _, err := f.UpdateDocument(t.Context(), f.a, open.Document, schema.DocumentChange{Labels: &labels}); err != nil {
		t.Fatal(err)
	}
	check("once it is labelled", f.a, open.Version, schema.ErrForbidden)
	check("once it is labelled, a reader of the group", f.reader("board"), open.Version, nil)
	if _, _, err := f.OpenContent(t.Context(), f.reader(), open.Document, open.Version); !errors.Is(err, schema.ErrNotFound) || !strings.Contains(err.Error(), open.Document.String()) {
		t.Errorf("once it is labelled, a reader: %v", err)
	}
}

func TestCollections(t *testing.T) {
	f := setUp(t, store.Options{})
	ctx := t.Context()
	for _, c := range []schema.NewCollection{{Name: ""}, {Name: "a b"}, {Name: "ok", Language: "klingon!"}, {Name: "ok", Description: "\x00"}, {Name: strings.Repeat("x", 129)},
		{Name: "ok", Segmentation: schema.Segmentation{By: "sage"}}, {Name: "ok", Segmentation: schema.Segmentation{Threshold: 0.5}}} {
		if _, err := f.CreateCollection(ctx, f.a, c); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := f.CreateCollection(ctx, f.a, schema.NewCollection{Name: "papers"}); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("a name twice: %v", err)
	}
	c, err := f.CreateCollection(ctx, f.a, schema.NewCollection{Name: "laws", Description: "d", Language: "de"})
	if err != nil || c.Name != "laws" || c.Language != "de" || c.Segmentation.By != schema.BySegmenter || c.Generation != 1 || len(c.Counts) != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	// A collection's name may be another one's id.
	if _, err := f.CreateCollection(ctx, f.a, schema.NewCollection{Name: c.ID.String()}); err != nil {
		t.Fatal(err)
	}
	if id, err := f.ResolveCollection(ctx, f.a, c.ID.String()); id != c.ID || err != nil {
		t.Error(id, err)
	}
	changed := "new words"
	if c, err = f.UpdateCollection(ctx, f.a, c.ID, schema.CollectionChange{Description: &changed}); err != nil || c.Description != changed {
		t.Errorf("%+v, %v", c, err)
	}
	list, next, err := f.Collections(ctx, f.a, schema.PageQuery{Limit: 2})
	if err != nil || len(list) != 2 || next == "" {
		t.Fatal(list, next, err)
	}
	if list, next, err = f.Collections(ctx, f.a, schema.PageQuery{Limit: 2, Cursor: next}); err != nil || len(list) != 1 || next != "" {
		t.Fatal(list, next, err)
	}

	up := f.upload(t, f.a, c.ID, text("a", "one"))
	f.goLive(t, f.a, up.Document, up.Version)
	if err := f.DeleteCollection(ctx, f.a, c.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Document(ctx, f.a, up.Document); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("a document of a deleted collection: %v", err)
	}
	if _, err := f.Collection(ctx, f.a, "laws"); !errors.Is(err, schema.ErrNotFound) {
		t.Error(err)
	}
	if _, err := f.CreateCollection(ctx, f.a, schema.NewCollection{Name: "laws"}); err != nil {
		t.Errorf("the name of a deleted collection is not free: %v", err)
	}
}
