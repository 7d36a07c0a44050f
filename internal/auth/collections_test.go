package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

func TestScopesOfCollectionsAreOfTheLowerOnes(t *testing.T) {
	in := func(scopes ...schema.Scope) schema.NewKey {
		return schema.NewKey{Name: "k", Collections: []schema.CollectionScopes{{Collection: uuid.New(), Scopes: scopes}}}
	}
	if err := check(in(schema.ScopeQuery, schema.ScopeIngest, schema.ScopeCurate), time.Now()); err != nil {
		t.Error(err)
	}
	for _, wrong := range []schema.NewKey{{Name: "k"}, in(), in(schema.ScopeQuery, schema.ScopeAdmin), in(schema.ScopeOperator), in(schema.ScopeImpersonate)} {
		var field *schema.FieldError
		if err := check(wrong, time.Now()); !errors.As(err, &field) {
			t.Errorf("%+v: got %v", wrong, err)
		}
	}
}

// TestKeysOfCollectionsAreUnknownToProgramsOfBefore: programs of older versions look a key up by
// its hash, and would grant read access to one without scopes.
func TestKeysOfCollectionsAreUnknownToProgramsOfBefore(t *testing.T) {
	db, err := store.Open(t.Context(), localtest.Database(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s := stores.Of(db)
	a := New(s)
	_, first, err := a.CreateTenant(t.Context(), schema.Principal{Scopes: []schema.Scope{schema.ScopeOperator}}, schema.NewTenant{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := a.Authenticate(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	collection, err := s.CreateCollection(t.Context(), admin, schema.NewCollection{Name: "contracts"})
	if err != nil {
		t.Fatal(err)
	}
	made, key, err := a.CreateKey(t.Context(), admin, schema.NewKey{Name: "legal", Collections: []schema.CollectionScopes{{Collection: collection.ID, Scopes: []schema.Scope{schema.ScopeQuery}}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Authenticate(t.Context(), key)
	if err != nil || p.Key != made.ID || len(p.Scopes) != 0 || !p.In(collection.ID).Has(schema.ScopeQuery) || p.In(uuid.New()).Has(schema.ScopeQuery) {
		t.Errorf("got %+v, %v", p, err)
	}
	hash, known := sha256.Sum256([]byte(key)), true
	err = db.AsAuth(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM api_keys WHERE hash = $1)`, hash[:]).Scan(&known)
	})
	if err != nil || known {
		t.Errorf("its hash is there: %t, %v", known, err)
	}
	// An operator without the admin scope cannot give any of these scopes, and the key may rotate
	// itself.
	if _, _, err := a.CreateKey(t.Context(), schema.Principal{Tenant: admin.Tenant, Scopes: []schema.Scope{schema.ScopeOperator}}, schema.NewKey{Name: "k", Collections: made.Collections}); !errors.Is(err, schema.ErrForbidden) {
		t.Errorf("an operator gives a collection's scopes: %v", err)
	}
	next, _, err := a.RotateKey(t.Context(), p, made.ID, 0)
	if err != nil || len(next.Collections) != 1 || next.Collections[0].Collection != collection.ID {
		t.Errorf("rotated: %+v, %v", next, err)
	}
	if _, _, err := a.RotateKey(t.Context(), schema.Principal{Tenant: admin.Tenant, Key: uuid.New()}, next.ID, 0); !errors.Is(err, schema.ErrForbidden) {
		t.Errorf("another key rotates it: %v", err)
	}
}
