package store_test

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// TestEntriesFromBeforeTheChainsAreChained migrates a database with an audit log without chains.
func TestEntriesFromBeforeTheChainsAreChained(t *testing.T) {
	f := setUp(t, store.Options{})
	f.upload(t, f.a, f.collection, text("1", "one"))
	f.upload(t, f.b, f.foreign, text("2", "two"))
	before := f.verify(t, f.a, schema.AuditChanges)
	downTo(t, f.owner, 229)
	if err := store.Migrate(t.Context(), f.owner, f.url, ""); err != nil {
		t.Fatal(err)
	}
	for _, p := range []schema.Principal{f.a, f.b} {
		if v := f.verify(t, p, schema.AuditChanges); v.Break != nil || v.Entries < 2 || p.Tenant == f.a.Tenant && v.Entries != before.Entries {
			t.Errorf("after the migration %+v, before it %+v", v, before)
		}
	}
	f.upload(t, f.a, f.collection, text("3", "three"))
	if v := f.verify(t, f.a, schema.AuditChanges); v.Break != nil || v.Entries != before.Entries+1 {
		t.Errorf("with one more %+v, before the migration %+v", v, before)
	}
}
