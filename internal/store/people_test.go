package store_test

// This file tests people who sign in with scopes in single collections.

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// sealedSession returns a new session of an hour whose secret is text.
func sealedSession(text string) schema.SealedSession {
	hash := sha256.Sum256([]byte(text))
	return schema.SealedSession{NewSession: schema.NewSession{ExpiresAt: time.Now().Add(time.Hour), Address: "192.0.2.1"}, Hash: hash[:]}
}

func TestCollectionsAreFoundByTheirNames(t *testing.T) {
	f := setUp(t, store.Options{})
	ctx := t.Context()
	made, err := f.CreateCollection(ctx, f.a, schema.NewCollection{Name: "contracts"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.CreateCollection(ctx, f.b, schema.NewCollection{Name: "of-another-tenant"}); err != nil {
		t.Fatal(err)
	}
	names := []string{"contracts", "of-another-tenant", made.ID.String(), "nonesuch"}
	if found, err := f.CollectionsNamed(ctx, f.a.Tenant, names); err != nil || !maps.Equal(found, map[string]uuid.UUID{"contracts": made.ID}) {
		t.Errorf("found %v, %v", found, err)
	}
	if err := f.DeleteCollection(ctx, f.a, made.ID); err != nil {
		t.Fatal(err)
	}
	if found, err := f.CollectionsNamed(ctx, f.a.Tenant, names); err != nil || len(found) != 0 {
		t.Errorf("deleted it is found: %v, %v", found, err)
	}
}

func TestPeopleHaveScopesOfCollections(t *testing.T) {
	f := setUp(t, store.Options{})
	ctx := t.Context()
	query := []schema.Scope{schema.ScopeQuery}
	inOne := []schema.CollectionScopes{{Collection: f.collection, Name: "as the rules call it", Scopes: query}}
	ann := schema.Person{Subject: "https://login.example|ann", Name: "Ann"}
	signIn := func(secret string, scopes []schema.Scope, collections []schema.CollectionScopes) schema.PersonSession {
		t.Helper()
		who := ann
		who.Scopes, who.Collections = scopes, collections
		_, session, err := f.SignIn(ctx, f.a.Tenant, who, sealedSession(secret))
		if err != nil {
			t.Fatal(err)
		}
		return session
	}
	person := func(secret string) schema.Key {
		t.Helper()
		_, _, k, err := f.SessionByHash(ctx, sealedSession(secret).Hash)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	// known reports whether an older program finds the session of a secret.
	known := func(secret string) (found bool) {
		t.Helper()
		err := f.AsAuth(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM sessions WHERE hash = $1)`, sealedSession(secret).Hash).Scan(&found)
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	signIn("first", query, inOne)
	if k := person("first"); !slices.Equal(k.Scopes, query) || len(k.Collections) != 1 || k.Collections[0].Collection != f.collection ||
		k.Collections[0].Name != "" || !slices.Equal(k.Collections[0].Scopes, query) {
		t.Errorf("stored %+v", k)
	}
	if !known("first") {
		t.Error("programs of before don't know the session of one who may read in the tenant")
	}
	began := signIn("second", nil, inOne)
	for _, secret := range []string{"first", "second"} {
		if k := person(secret); len(k.Scopes) != 0 || len(k.Collections) != 1 {
			t.Errorf("by the %s session they may %+v", secret, k)
		}
		if known(secret) {
			t.Errorf("programs of before know the %s session, and would take its person for one who may read", secret)
		}
	}
	list, _, err := f.Audit(ctx, f.a, schema.AuditQuery{})
	if err != nil || len(list) == 0 || list[0].Action != "session.begin" || list[0].Target != began.ID.String() || list[0].Detail["collections"] == nil {
		t.Errorf("the log says %+v, %v", list, err)
	}
	// A secret belongs to one session, whatever its person's rights.
	for _, scopes := range [][]schema.Scope{query, nil} {
		who := ann
		who.Scopes, who.Collections = scopes, inOne
		if _, _, err := f.SignIn(ctx, f.a.Tenant, who, sealedSession("first")); !errors.Is(err, schema.ErrConflict) {
			t.Errorf("with scopes %v the secret begins a second session: %v", scopes, err)
		}
	}
	// Rights that were lost end at the next sign-in.
	signIn("third", query, nil)
	if k := person("second"); !slices.Equal(k.Scopes, query) || len(k.Collections) != 0 {
		t.Errorf("after the third sign-in: %+v", k)
	}
	// An older program, which knows no collections, sets scopes by its own rules.
	signIn("fourth", nil, inOne)
	if err := f.AsTenant(ctx, f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE api_keys SET name = 'Ann', scopes = '{query,ingest}', groups = '{}' WHERE subject = $1`, ann.Subject)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if k := person("fourth"); len(k.Scopes) != 2 || len(k.Collections) != 0 {
		t.Errorf("after a sign-in through a program of before: %+v", k)
	}
}

func TestExplanationsTellOfScopesOfCollections(t *testing.T) {
	f := setUp(t, store.Options{})
	other, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	up := f.upload(t, f.a, f.collection, text("plain", "Plain."))
	f.goLive(t, f.a, up.Document, up.Version)
	query := []schema.Scope{schema.ScopeQuery}
	in := func(collection uuid.UUID) []schema.CollectionScopes {
		return []schema.CollectionScopes{{Collection: collection, Scopes: query}}
	}
	for name, c := range map[string]struct {
		who     schema.Person
		allowed bool
		reason  string
	}{
		"its collection":        {schema.Person{Collections: in(f.collection)}, true, "no labels"},
		"another one":           {schema.Person{Collections: in(other.ID)}, false, "their scopes apply to other collections"},
		"another and the whole": {schema.Person{Scopes: query, Collections: in(other.ID)}, true, "no labels"},
	} {
		c.who.Subject, c.who.Name = "https://login.example|"+name, name
		if _, _, err := f.SignIn(t.Context(), f.a.Tenant, c.who, sealedSession(name)); err != nil {
			t.Fatal(err)
		}
		e, err := f.ExplainAccess(t.Context(), f.a, up.Document, schema.AccessSubject{Kind: schema.AccessPerson, Value: c.who.Subject})
		if err != nil || e.Allowed != c.allowed || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func TestPeopleOfCollectionsSurviveTheMigrationBefore(t *testing.T) {
	f := setUp(t, store.Options{})
	ann := schema.Person{Subject: "https://login.example|ann", Name: "Ann",
		Collections: []schema.CollectionScopes{{Collection: f.collection, Scopes: []schema.Scope{schema.ScopeQuery}}}}
	if _, _, err := f.SignIn(t.Context(), f.a.Tenant, ann, sealedSession("first")); err != nil {
		t.Fatal(err)
	}
	downTo(t, f.owner, 242)
	var scopes []schema.Scope
	var revoked bool
	var sessions int
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT scopes, revoked_at IS NOT NULL, (SELECT count(*) FROM sessions) FROM api_keys WHERE subject = $1`, ann.Subject).
			Scan(&scopes, &revoked, &sessions)
	})
	if err != nil || !slices.Equal(scopes, []schema.Scope{schema.ScopeQuery}) || revoked || sessions != 0 {
		t.Errorf("they have scopes %v, revoked %t, and %d sessions: %v", scopes, revoked, sessions, err)
	}
	if err := store.Migrate(t.Context(), f.owner, f.url, localtest.VectorURL(t, f.url)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.SignIn(t.Context(), f.a.Tenant, ann, sealedSession("second")); err != nil {
		t.Errorf("signing in again: %v", err)
	}
}
