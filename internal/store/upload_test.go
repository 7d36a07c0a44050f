package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestUploadStoresBytesVersionAndMessage(t *testing.T) {
	f := setUp(t, store.Options{})
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	u := text("reports/q3.txt", "profits rose")
	u.Title, u.Labels = "Third quarter", []string{"finance", "board", "finance"}
	u.Metadata = schema.Metadata{"year": 2024.0, "draft": false, "due": "2024-10-01", "region": []any{"emea", "apac"}, "share": 0.25, "nested": map[string]any{"x": 1.0}}
	got, err := f.Upload(ctx, f.a, f.collection, []schema.Upload{u})
	if err != nil {
		t.Fatal(err)
	}
	up := got[0]
	if up.ExternalID != "reports/q3.txt" || up.State != schema.StateQueued || up.Unchanged || up.Document == uuid.Nil {
		t.Fatalf("%+v", up)
	}
	doc, err := f.Document(ctx, f.a, up.Document)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("profits rose"))
	if doc.State != schema.StateQueued || doc.Version != 1 || doc.Attempt != 1 || doc.Title != "Third quarter" || doc.SHA256 != hex.EncodeToString(sum[:]) ||
		doc.Bytes != 12 || doc.MediaType != "text/plain" || !slices.Equal(doc.Labels, []string{"board", "finance"}) || doc.Metadata["year"] != 2024.0 || doc.Live {
		t.Errorf("%+v", doc)
	}

	type row struct {
		Key, Text string
		Int       *int64
		Time      *string
	}
	var rows []row
	var payload []byte
	var messageID, trail string
	err = f.AsTenant(ctx, f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		list, err := tx.Query(ctx, `SELECT key, text_value, int_value, to_char(time_value, 'YYYY-MM-DD') FROM version_metadata WHERE version_id = $1 ORDER BY key, ordinal`, up.Version)
		if err != nil {
			return err
		}
		if rows, err = pgx.CollectRows(list, pgx.RowToStructByPos[row]); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT payload, message_id, trace FROM outbox WHERE subject = $1`, wire.IngestSubject(f.a.Tenant)).Scan(&payload, &messageID, &trail)
	})
	if err != nil {
		t.Fatal(err)
	}
	encoded, _ := json.Marshal(rows)
	const want = `[{"Key":"draft","Text":"false","Int":null,"Time":null},{"Key":"due","Text":"2024-10-01","Int":null,"Time":"2024-10-01"},` +
		`{"Key":"region","Text":"emea","Int":null,"Time":null},{"Key":"region","Text":"apac","Int":null,"Time":null},` +
		`{"Key":"share","Text":"0.25","Int":null,"Time":null},{"Key":"year","Text":"2024","Int":2024,"Time":null}]`
	if string(encoded) != want {
		t.Errorf("metadata rows\n%s\nwant\n%s", encoded, want)
	}
	m, err := wire.Decode[wire.IngestMessage](payload)
	if err != nil {
		t.Fatal(err)
	}
	if messageID != wire.IngestMessageID(up.Version, 1) || m.Version != up.Version || m.Document != up.Document || m.Collection != f.collection ||
		m.Tenant != f.a.Tenant || m.Attempt != 1 || m.Bytes != 12 || !strings.Contains(m.Trace, span.TraceID().String()) || trail != m.Trace {
		t.Errorf("message %s %+v, trace %s", messageID, m, trail)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM outbox WHERE subject = $1`, wire.EventSubject(f.a.Tenant, "version.queued")); n != 1 {
		t.Errorf("%d events", n)
	}
	if got := readBlob(t, f, f.a, sum[:]); string(got) != "profits rose" {
		t.Errorf("blob %q", got)
	}
}

func readBlob(t *testing.T, f *fixture, p schema.Principal, sum []byte) []byte {
	t.Helper()
	b, err := f.OpenBlob(t.Context(), p.Tenant, sum)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(b)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != b.Size() {
		t.Errorf("read %d of %d bytes", len(data), b.Size())
	}
	return data
}

func TestUploadOfTheSameChangesNothing(t *testing.T) {
	f := setUp(t, store.Options{})
	first := f.upload(t, f.a, f.collection, text("a.txt", "one"))
	rows := func() string {
		return one[string](t, f, f.a, `SELECT (SELECT count(*) FROM versions) || ' ' || (SELECT count(*) FROM outbox) || ' ' || (SELECT count(*) FROM audit)`)
	}
	before := rows()
	again := f.upload(t, f.a, f.collection, text("a.txt", "one"))
	if !again.Unchanged || again.Version != first.Version || again.State != schema.StateQueued {
		t.Errorf("%+v", again)
	}
	if after := rows(); after != before {
		t.Errorf("wrote rows: %s, before %s", after, before)
	}
	// Attributes count, the file name does not.
	named := text("a.txt", "one")
	named.FileName = "other.txt"
	if !f.upload(t, f.a, f.collection, named).Unchanged {
		t.Error("another file name is another upload")
	}
	labelled := text("a.txt", "one")
	labelled.Labels = []string{"x"}
	if up := f.upload(t, f.a, f.collection, labelled); up.Unchanged || up.Version == first.Version {
		t.Errorf("%+v", up)
	}
	// The first content again, which is not the newest version's any more.
	if up := f.upload(t, f.a, f.collection, text("a.txt", "one")); up.Unchanged {
		t.Error("an older version's content counted as unchanged")
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM blobs`); n != 1 {
		t.Errorf("%d blobs of one content", n)
	}
	// No upload equals a failed version.
	failed := f.upload(t, f.a, f.collection, text("b.txt", "two"))
	f.fail(t, f.a, failed.Version)
	if f.upload(t, f.a, f.collection, text("b.txt", "two")).Unchanged {
		t.Error("an upload equalled a failed version")
	}
}

func TestUploadOfLargeContent(t *testing.T) {
	f := setUp(t, store.Options{})
	random := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{0, 1, 1 << 20, 1<<20 + 1, 3<<20 + 7, 12 << 20} {
		data := make([]byte, size)
		_, _ = random.Read(data)
		sum := sha256.Sum256(data)
		// Readers that return one byte, or half of what is requested, at a time.
		var r io.Reader = iotest.HalfReader(bytes.NewReader(data))
		if size < 2 {
			r = iotest.OneByteReader(bytes.NewReader(data))
		}
		up := f.upload(t, f.a, f.collection, schema.Upload{ExternalID: fmt.Sprint(size), Content: r, SHA256: hex.EncodeToString(sum[:])})
		if up.State != schema.StateQueued {
			t.Errorf("%d bytes: %+v", size, up)
		}
		if !bytes.Equal(readBlob(t, f, f.a, sum[:]), data) {
			t.Errorf("%d bytes came back changed", size)
		}
	}
	// Several that do not fit into memory together.
	var many []schema.Upload
	for i := range 6 {
		many = append(many, schema.Upload{ExternalID: fmt.Sprintf("many/%d", i), Content: bytes.NewReader(bytes.Repeat([]byte{byte(i)}, 2<<20))})
	}
	if _, err := f.Upload(t.Context(), f.a, f.collection, many); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		data := bytes.Repeat([]byte{byte(i)}, 2<<20)
		sum := sha256.Sum256(data)
		if !bytes.Equal(readBlob(t, f, f.a, sum[:]), data) {
			t.Errorf("document %d came back changed", i)
		}
	}
}

func TestUploadOverTheLimitFailsAlone(t *testing.T) {
	f := setUp(t, store.Options{})
	f.maxBytes = 2 << 20
	big := make([]byte, 2<<20+1)
	sum := sha256.Sum256(big)
	got, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{
		text("ok.txt", "fine"),
		{ExternalID: "big.bin", Content: bytes.NewReader(big), SHA256: hex.EncodeToString(sum[:])},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got[0].State != schema.StateQueued || got[1].State != schema.StateFailed || got[1].Reason.Code != schema.ReasonTooLarge || !strings.Contains(got[1].Reason.Message, "2 MB") {
		t.Errorf("%+v", got)
	}
	list, _, err := f.Documents(t.Context(), f.a, f.collection, schema.DocumentQuery{State: schema.StateFailed})
	if err != nil || len(list) != 1 || list[0].ExternalID != "big.bin" || list[0].Reason == nil || list[0].Reason.Code != schema.ReasonTooLarge {
		t.Errorf("%+v, %v", list, err)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM blobs`); n != 1 {
		t.Errorf("%d blobs; the large one's bytes are not to be kept", n)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM outbox WHERE subject = $1`, wire.IngestSubject(f.a.Tenant)); n != 1 {
		t.Errorf("%d queued", n)
	}
	fingerprint, _ := schema.Fingerprint(hex.EncodeToString(sum[:]), schema.Attributes{})
	c, err := f.Compare(t.Context(), f.a, f.collection, []schema.Known{{ExternalID: "big.bin", Fingerprint: fingerprint}})
	if err != nil || !slices.Equal(c.Failed, []string{"big.bin"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := f.RetryDocument(t.Context(), f.a, got[1].Document); !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), "upload it again") {
		t.Error(err)
	}
	if n, err := f.RetryFailed(t.Context(), f.a, f.collection); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func TestUploadRefusesBadInputWhole(t *testing.T) {
	f := setUp(t, store.Options{})
	deep := any("x")
	for range 20 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		field  string
		change func(*schema.Upload)
	}{
		{"external_id", func(u *schema.Upload) { u.ExternalID = "" }},
		{"external_id", func(u *schema.Upload) { u.ExternalID = "a\x00b" }},
		{"external_id", func(u *schema.Upload) { u.ExternalID = "a\xffb" }},
		{"external_id", func(u *schema.Upload) { u.ExternalID = strings.Repeat("x", 1025) }},
		{"external_id", func(u *schema.Upload) { u.ExternalID = "fine" }}, // twice
		{"title", func(u *schema.Upload) { u.Title = "\x00" }},
		{"file_name", func(u *schema.Upload) { u.FileName = "\xff" }},
		{"media_type", func(u *schema.Upload) { u.MediaType = "\x00" }},
		{"labels[1]", func(u *schema.Upload) { u.Labels = []string{"ok", "\x00"} }},
		{"labels[0]", func(u *schema.Upload) { u.Labels = []string{""} }},
		{"metadata.k", func(u *schema.Upload) { u.Metadata = schema.Metadata{"k": "\x00"} }},
		{"metadata.k", func(u *schema.Upload) { u.Metadata = schema.Metadata{"k": deep} }},
		{"metadata.k.x[1]", func(u *schema.Upload) { u.Metadata = schema.Metadata{"k": map[string]any{"x": []any{"", "\xfe"}}} }},
		{"metadata", func(u *schema.Upload) { u.Metadata = schema.Metadata{"k\x00": 1.0} }},
		{"metadata", func(u *schema.Upload) { u.Metadata = schema.Metadata{strings.Repeat("k", 129): 1.0} }},
		{"content", func(u *schema.Upload) { u.Content = nil }},
		{"sha256", func(u *schema.Upload) { u.SHA256 = "abc" }},
		{"sha256", func(u *schema.Upload) { u.SHA256 = strings.Repeat("0", 64) }},
	} {
		u := text("bad", "content")
		c.change(&u)
		_, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text("fine", "content"), u})
		var field *schema.FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(field.Field, "documents[1]."+c.field) {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	broken := schema.Upload{ExternalID: "broken", Content: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("connection reset")))}
	if _, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text("fine", "content"), broken}); err == nil || !strings.Contains(err.Error(), "connection reset") {
		t.Error(err)
	}
	if n := one[int](t, f, f.a, `SELECT (SELECT count(*) FROM documents) + (SELECT count(*) FROM blobs) + (SELECT count(*) FROM outbox)`); n != 0 {
		t.Errorf("%d rows were half written", n)
	}
	// Long and odd, but fine.
	u := text(strings.Repeat("ü", 512), "x")
	u.Metadata = schema.Metadata{"abstract": strings.Repeat("long ", 5000), "empty": []any{}, "null": nil, "huge": 1e300, "when": "9999-12-31", "big": json.Number("9223372036854775807")}
	f.upload(t, f.a, f.collection, u)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM version_metadata WHERE key = 'abstract'`); n != 0 {
		t.Error("a value too long for an index was indexed")
	}
	if n := one[int64](t, f, f.a, `SELECT int_value FROM version_metadata WHERE key = 'big'`); n != 9223372036854775807 {
		t.Error(n)
	}
}

func TestUploadIntoForeignOrMissingCollection(t *testing.T) {
	f := setUp(t, store.Options{})
	deleted, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.DeleteCollection(t.Context(), f.a, deleted.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uuid.UUID{f.foreign, schema.NewID(), deleted.ID} {
		if _, err := f.Upload(t.Context(), f.a, id, []schema.Upload{text("x", "y")}); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("upload: %v", err)
		}
		if _, err := f.Compare(t.Context(), f.a, id, nil); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("compare: %v", err)
		}
	}
}

func TestCompare(t *testing.T) {
	f := setUp(t, store.Options{})
	known := func(id, content string) schema.Known {
		sum := sha256.Sum256([]byte(content))
		fingerprint, err := schema.Fingerprint(hex.EncodeToString(sum[:]), schema.Attributes{})
		if err != nil {
			t.Fatal(err)
		}
		return schema.Known{ExternalID: id, Fingerprint: fingerprint}
	}
	for _, id := range []string{"same", "live", "failed", "deleted", "changed"} {
		up := f.upload(t, f.a, f.collection, text(id, "content of "+id))
		switch id {
		case "live":
			f.goLive(t, f.a, up.Document, up.Version)
		case "failed":
			f.fail(t, f.a, up.Version)
		case "deleted":
			if err := f.DeleteDocument(t.Context(), f.a, up.Document); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.upload(t, f.b, f.foreign, text("of b", "content of b"))
	got, err := f.Compare(t.Context(), f.a, f.collection, []schema.Known{
		known("same", "content of same"), known("live", "content of live"), known("failed", "content of failed"), known("failed2", "content of failed"),
		known("deleted", "content of deleted"), known("changed", "new"), known("of b", "content of b"), known("new", "content of same"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Unchanged, []string{"same", "live"}) || !slices.Equal(got.Failed, []string{"failed"}) ||
		!slices.Equal(got.Changed, []string{"failed2", "deleted", "changed", "of b", "new"}) {
		t.Errorf("%+v", got)
	}
}

func TestQuotas(t *testing.T) {
	f := setUp(t, store.Options{})
	two, ten := int64(2), int64(10)
	if _, err := f.SetQuotas(t.Context(), schema.Principal{}, f.a.Tenant, &two, &ten); err != nil {
		t.Fatal(err)
	}
	f.upload(t, f.a, f.collection, text("1", "aaaa"))
	f.upload(t, f.a, f.collection, text("2", "aaaa"))
	for _, u := range []schema.Upload{text("3", "aaaa"), text("2", "bbbbbbb")} {
		if _, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{u}); !errors.Is(err, schema.ErrQuota) {
			t.Errorf("%s: %v", u.ExternalID, err)
		}
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM versions`); n != 2 {
		t.Errorf("%d versions: something was half written", n)
	}
	f.upload(t, f.a, f.collection, text("2", "bbbb"))
	list, _, err := f.Documents(t.Context(), f.a, f.collection, schema.DocumentQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.DeleteDocument(t.Context(), f.a, list[0].ID); err != nil {
		t.Fatal(err)
	}
	f.upload(t, f.a, f.collection, text("3", "aaaa"))
	if _, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text("1", "aaaa")}); !errors.Is(err, schema.ErrQuota) {
		t.Errorf("a document came back over the quota: %v", err)
	}
	// Concurrent uploads cannot exceed it together either.
	five := int64(5)
	if _, err := f.SetQuotas(t.Context(), schema.Principal{}, f.a.Tenant, &five, nil); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := f.Upload(context.Background(), f.a, f.collection, []schema.Upload{text(fmt.Sprint("at once ", i), "x")})
			if err != nil && !errors.Is(err, schema.ErrQuota) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := one[int](t, f, f.a, `SELECT count(*) FROM documents WHERE deleted_at IS NULL`); n != 5 {
		t.Errorf("%d documents under a quota of 5", n)
	}
}
