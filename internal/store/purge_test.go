package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// purgeAll purges until nothing is left to do.
func (f *fixture) purgeAll(t *testing.T) int {
	t.Helper()
	for total := 0; ; {
		n, err := f.PurgeOnce(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		if total += n; n == 0 {
			return total
		}
	}
}

// ask stores a question of p, its retrieval from a version's text, and an
// answer that quotes it.
func (f *fixture) ask(t *testing.T, p schema.Principal, collection uuid.UUID, version uuid.UUID, quote bool) uuid.UUID {
	t.Helper()
	id := schema.NewID()
	span := fmt.Sprintf(`[{"text": "hello", "spans": [{"version": %q, "section": %q, "start": 0, "end": 5}]}]`, version, uuid.NewString())
	err := f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO questions (tenant_id, id, collection_id, question, plan, key_id, async, state) VALUES ($1, $2, $3, 'why?', 'naive', $4, false, 'answered')`, p.Tenant, id, collection, p.Key)
		batch.Queue(`INSERT INTO retrievals (tenant_id, question_id, round, candidates, trace) VALUES ($1, $2, 0, $3, '[]')`, p.Tenant, id, span)
		batch.Queue(`INSERT INTO answers (tenant_id, question_id, answer, supported, plan, trace, usage, notes) VALUES ($1, $2, 'hello', true, 'naive', '[{"stage": "dense"}]', '{}', '{hello}')`, p.Tenant, id)
		if quote {
			batch.Queue(`INSERT INTO citations (tenant_id, question_id, ordinal, document_id, external_id, title, location, version_id, section_id, start_byte, end_byte, quote)
				SELECT $1, $2, 0, document_id, 'a', '', '', id, $4, 0, 5, 'hello' FROM versions WHERE id = $3`, p.Tenant, id, version, uuid.New())
		}
		batch.Queue(`INSERT INTO llm_calls (tenant_id, question_id, round, step, item, task, provider, model, input_tokens, output_tokens, millis, request_hash, reply)
			VALUES ($1, $2, 0, 'answer', 0, 'answer', 'extractive', 'x', 1, 1, 1, '\x01', '{"text": "hello"}')`, p.Tenant, id)
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

const heldSQL = `SELECT concat_ws(' ', (SELECT count(*) FROM sections WHERE version_id = $1), (SELECT count(*) FROM passages WHERE version_id = $1),
	(SELECT count(*) FROM vectors_256 WHERE version_id = $1), (SELECT count(*) FROM artifacts WHERE version_id = $1),
	(SELECT count(*) FROM version_labels WHERE version_id = $1), (SELECT count(*) FROM version_metadata WHERE version_id = $1))`

const answerSQL = `SELECT concat_ws(' ', (SELECT answer FROM answers WHERE question_id = $1),
	(SELECT supported FROM answers WHERE question_id = $1), (SELECT trace FROM answers WHERE question_id = $1),
	(SELECT purged_at IS NOT NULL FROM answers WHERE question_id = $1), (SELECT count(*) FROM citations WHERE question_id = $1),
	(SELECT count(*) FROM retrievals WHERE question_id = $1), (SELECT reply FROM llm_calls WHERE question_id = $1))`

func TestPurgeRemovesWhatADeletedDocumentHeld(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	labelled := func(id, content string) schema.Upload {
		u := text(id, content)
		u.Labels, u.Metadata = []string{"x"}, schema.Metadata{"k": "v"}
		return u
	}
	gone := f.upload(t, f.a, f.collection, labelled("gone", "secret"))
	f.goLive(t, f.a, gone.Document, gone.Version)
	stays := f.upload(t, f.a, f.collection, labelled("stays", "public"))
	f.goLive(t, f.a, stays.Document, stays.Version)
	quoting := f.ask(t, f.a, f.collection, gone.Version, true)
	unanswered := f.ask(t, f.a, f.collection, gone.Version, false)
	other := f.ask(t, f.a, f.collection, stays.Version, true)
	theirs := f.upload(t, f.b, f.foreign, text("theirs", "secret")) // the same bytes, another tenant
	f.goLive(t, f.b, theirs.Document, theirs.Version)

	if n := f.purgeAll(t); n != 0 {
		t.Fatalf("purged %d living versions", n)
	}
	for _, shown := range []uuid.UUID{gone.Document, stays.Document} { // as a retry's reply shows them
		shows := schema.Reply{Status: 200, Body: fmt.Appendf(nil, `{"id": %q, "metadata": {"k": "v"}}`, shown)}
		if _, err := f.Store.Once(t.Context(), f.a, shown.String(), "retry-document", []byte("h"), func(context.Context) *schema.Reply { return &shows }); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.DeleteDocument(t.Context(), f.a, gone.Document); err != nil {
		t.Fatal(err)
	}
	if n := f.purgeAll(t); n != 1 {
		t.Errorf("purged %d versions, want 1", n)
	}
	const removed = "Removed: a document that this answer was built on was deleted. f [] t 0 0 {}"
	for _, c := range []struct {
		what, sql string
		id        uuid.UUID
		want      string
	}{
		{"the deleted one's rows", heldSQL, gone.Version, "0 0 0 0 0 0"},
		{"the other's rows", heldSQL, stays.Version, "1 1 1 1 1 1"},
		{"the answer that quotes it", answerSQL, quoting, removed},
		{"the answer that read it", answerSQL, unanswered, removed},
		{"the answer from another document", answerSQL, other, `hello t [{"stage": "dense"}] f 1 1 {"text": "hello"}`},
		{"its document", `SELECT count(*)::text FROM documents WHERE id = $1`, gone.Document, "0"},
		{"replies that show it or the other", `SELECT string_agg(key, ' ') FROM idempotency WHERE $1::uuid IS NOT NULL`, uuid.Nil, stays.Document.String()},
		{"its versions", `SELECT count(*)::text FROM versions WHERE document_id = $1`, gone.Document, "0"},
	} {
		if got := one[string](t, f, f.a, c.sql, c.id); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	secret := sha256.Sum256([]byte("secret"))
	if _, err := f.OpenBlob(t.Context(), f.a.Tenant, secret[:]); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("its bytes: %v", err)
	}
	if got := readBlob(t, f, f.b, secret[:]); string(got) != "secret" {
		t.Errorf("another tenant's bytes: %q", got)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM blob_chunks`); n != 1 {
		t.Errorf("%d chunks", n)
	}
	// The name is free for a new document.
	if up := f.upload(t, f.a, f.collection, text("gone", "secret")); up.Document == gone.Document {
		t.Error("the purged document came back")
	}
	if n := one[int](t, f, f.a, `SELECT count(*)::int FROM answers WHERE purged_at IS NOT NULL AND notes <> '{}'`); n > 0 {
		t.Errorf("%d purged answers have notes", n)
	}
}

func TestPurgeKeepsWhatOthersNeed(t *testing.T) {
	f := setUp(t, store.Options{}) // superseded text is kept for 10 minutes
	v1 := f.upload(t, f.a, f.collection, text("a", "shared"))
	f.goLive(t, f.a, v1.Document, v1.Version)
	answered := f.ask(t, f.a, f.collection, v1.Version, true)
	f.upload(t, f.a, f.collection, text("b", "shared"))
	failed := f.upload(t, f.a, f.collection, text("a", "broken"))
	f.fail(t, f.a, failed.Version)
	if n := f.purgeAll(t); n != 0 {
		t.Fatalf("purged %d: a failed newest version can still be retried", n)
	}
	v3 := f.upload(t, f.a, f.collection, text("a", "three"))
	f.goLive(t, f.a, v3.Document, v3.Version)
	if n := f.purgeAll(t); n != 1 {
		t.Errorf("purged %d, want the failed version, which a newer one has made pointless", n)
	}
	if got := one[string](t, f, f.a, heldSQL, v1.Version); got != "1 1 1 1 0 0" {
		t.Errorf("a superseded version's text was purged at once: %s", got)
	}
	execAs(t, f, f.a, `UPDATE versions SET retired_at = now() - interval '11 minutes' WHERE id = $1`, v1.Version)
	if n := f.purgeAll(t); n != 1 {
		t.Errorf("purged %d", n)
	}
	if got := one[string](t, f, f.a, heldSQL, v1.Version); got != "0 0 0 0 0 0" {
		t.Errorf("held: %s", got)
	}
	const record = `hello t [{"stage": "dense"}] f 1 1 {"text": "hello"}`
	if got := one[string](t, f, f.a, answerSQL, answered); got != record {
		t.Errorf("an answer from a replaced version: %s", got)
	}
	shared := sha256.Sum256([]byte("shared"))
	if got := readBlob(t, f, f.a, shared[:]); string(got) != "shared" {
		t.Error("bytes that another document has were purged")
	}
	versions, err := f.Versions(t.Context(), f.a, v1.Document)
	if err != nil || len(versions) != 3 || versions[2].State != schema.StateSuperseded {
		t.Errorf("the history is gone: %+v, %v", versions, err)
	}
	if f.purgeAll(t) != 0 {
		t.Error("purged twice")
	}
	if err := f.DeleteDocument(t.Context(), f.a, v1.Document); err != nil {
		t.Fatal(err)
	}
	execAs(t, f, f.a, `UPDATE versions SET retired_at = now() - interval '11 minutes' WHERE document_id = $1`, v1.Document)
	f.purgeAll(t)
	if got := one[string](t, f, f.a, answerSQL, answered); got == record {
		t.Error("an answer from an older version of a deleted document stays")
	}
}

func TestPurgeOldReplies(t *testing.T) {
	f := setUp(t, store.Options{})
	for i, age := range []string{"1 hour", "25 hours", "3 days"} {
		key := fmt.Sprint(i)
		if _, err := f.Store.Once(t.Context(), f.a, key, "POST /x", []byte("h"), func(context.Context) *schema.Reply { return &schema.Reply{Status: 200} }); err != nil {
			t.Fatal(err)
		}
		execAs(t, f, f.a, `UPDATE idempotency SET created_at = now() - $2::interval WHERE key = $1`, key, age)
	}
	if n := f.purgeAll(t); n != 2 {
		t.Errorf("purged %d", n)
	}
	if key := one[string](t, f, f.a, `SELECT key FROM idempotency`); key != "0" {
		t.Error(key)
	}
}

// Purges run while the same bytes are uploaded again and again: no version that may still be
// processed loses its bytes.
func TestPurgeDuringUploads(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	ctx := context.Background()
	var uploaders, purgers sync.WaitGroup
	done := make(chan struct{})
	for u := range 4 {
		uploaders.Go(func() {
			for i := range 25 {
				ups, err := f.Upload(ctx, f.a, f.collection, []schema.Upload{text(fmt.Sprintf("%d", u), fmt.Sprintf("content %d", i%3)), text(fmt.Sprintf("%d/2", u), "same")})
				if err != nil {
					t.Errorf("upload: %v", err)
					return
				}
				for _, up := range ups {
					if err := f.DeleteDocument(ctx, f.a, up.Document); err != nil {
						t.Errorf("delete: %v", err)
						return
					}
				}
			}
			if _, err := f.Upload(ctx, f.a, f.collection, []schema.Upload{text(fmt.Sprintf("%d", u), "content 0"), text(fmt.Sprintf("%d/2", u), "same")}); err != nil {
				t.Errorf("last upload: %v", err)
			}
		})
	}
	for range 2 {
		purgers.Go(func() {
			for {
				if _, err := f.PurgeOnce(ctx, 10); err != nil {
					t.Errorf("purge: %v", err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	uploaders.Wait()
	close(done)
	purgers.Wait()
	f.purgeAll(t)
	got := one[string](t, f, f.a, `SELECT concat_ws(' ', (SELECT count(*) FROM documents), (SELECT count(*) FROM blobs),
		(SELECT count(*) FROM blob_chunks),
		(SELECT count(*) FROM versions v WHERE state = 'queued' AND NOT EXISTS (SELECT 1 FROM blob_chunks c WHERE c.sha256 = v.sha256)))`)
	if got != "8 2 2 0" {
		t.Errorf("documents, blobs, chunks, versions without bytes: %s, want 8 2 2 0", got)
	}
}

// TestAReplyAfterThePurgeIsRemoved: the model was asked before the purge, and its reply quotes the
// deleted document.
func TestAReplyAfterThePurgeIsRemoved(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	for _, deleted := range []bool{false, true} {
		u := f.upload(t, f.a, f.collection, text(fmt.Sprint(deleted), "hello"))
		f.goLive(t, f.a, u.Document, u.Version)
		_, in := f.question(t, f.a, true)
		if _, err := f.SaveRetrieval(t.Context(), in, 1, answer.Retrieval{
			Candidates: []schema.Candidate{{Text: "hello", Spans: []schema.Span{{Version: u.Version, Section: uuid.New(), End: 5}}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.LedgerStore.Once(t.Context(), call(f, in), func(ctx context.Context) (wire.LLMReply, error) {
			if deleted {
				if err := f.DeleteDocument(ctx, f.a, u.Document); err != nil {
					t.Error(err)
				}
			}
			f.purgeAll(t)
			return wire.LLMReply{Text: "hello"}, nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Retrieval(t.Context(), in, 1); errors.Is(err, schema.ErrNotFound) != deleted {
			t.Errorf("its document deleted: %t, its retrieval: %v", deleted, err)
		}
		if err := f.Fail(t.Context(), in, schema.Reason{Code: string(schema.CodeNotFound), Message: "deleted"}); err != nil {
			t.Fatal(err)
		}
		if emptied := one[bool](t, f, f.a, `SELECT reply = '{}' FROM llm_calls WHERE question_id = $1`, in.Question); emptied != deleted {
			t.Errorf("its document deleted: %t, its reply emptied: %t", deleted, emptied)
		}
	}
}

// TestPurgersShareWhatThereIs: purgers skip what another one has locked, and do not wait.
func TestPurgersShareWhatThereIs(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	var documents, versions []uuid.UUID
	for i := range 12 {
		up := f.upload(t, f.a, f.collection, text(fmt.Sprintf("%d", i), "x"))
		f.goLive(t, f.a, up.Document, up.Version)
		if err := f.DeleteDocument(t.Context(), f.a, up.Document); err != nil {
			t.Fatal(err)
		}
		documents, versions = append(documents, up.Document), append(versions, up.Version)
	}
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		// Locked as by another purger: the oldest; and a document that another transaction has
		// locked.
		for _, lock := range []struct {
			sql string
			ids []uuid.UUID
		}{{`SELECT FROM versions WHERE id = ANY ($1) FOR UPDATE`, versions[:4]}, {`SELECT FROM documents WHERE id = ANY ($1) FOR UPDATE`, documents[11:]}} {
			if _, err := tx.Exec(ctx, lock.sql, lock.ids); err != nil {
				return err
			}
		}
		n, err := f.PurgeOnce(context.WithoutCancel(t.Context()), 4)
		if err != nil || n != 4 {
			t.Errorf("beside another purger %d were purged, %v", n, err)
		}
		if n := f.purgeAll(t); n != 3 {
			t.Errorf("then %d", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := f.purgeAll(t); n != 5 {
		t.Errorf("of what was held %d were purged", n)
	}
}
