package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

func TestMain(m *testing.M) {
	localtest.Main(m, localtest.Need{Postgres: true, Migrate: store.Migrate})
}

// setUp returns an Auth with a clock that the test sets, its store, and an admin of a tenant.
func setUp(t *testing.T) (a *Auth, s stores.All, admin schema.Principal, clock *time.Time) {
	t.Helper()
	db, err := store.Open(t.Context(), localtest.Database(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s = stores.Of(db)
	a = New(s)
	now := time.Now()
	a.now = func() time.Time { return now }
	_, key, err := a.CreateTenant(t.Context(), schema.Principal{Scopes: []schema.Scope{schema.ScopeOperator}}, schema.NewTenant{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if admin, err = a.Authenticate(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return a, s, admin, &now
}

func TestKeysAreMadeShownOnceAndAuthenticate(t *testing.T) {
	a, s, admin, _ := setUp(t)
	stored, key, err := a.CreateKey(t.Context(), admin, schema.NewKey{Name: "crawler", Scopes: []schema.Scope{schema.ScopeIngest}, Groups: []string{"staff"}})
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^slu_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}$`).MatchString(key) || !strings.HasPrefix(key, stored.Prefix+"_") {
		t.Errorf("key %s, prefix %s", key, stored.Prefix)
	}
	p, err := a.Authenticate(t.Context(), key)
	if err != nil || p.Tenant != admin.Tenant || p.Key != stored.ID || p.Name != "crawler" || !p.Has(schema.ScopeIngest) || p.Has(schema.ScopeAdmin) || len(p.Groups) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	list, _, err := s.Keys(t.Context(), admin, schema.PageQuery{})
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	for _, k := range list {
		if strings.Contains(k.Prefix, key[13:]) {
			t.Error("the list shows a secret")
		}
	}
	for _, bad := range []string{
		"", "slu_", key[:len(key)-1], key + "x", strings.Replace(key, "slu_", "SLU_", 1), key[:len(key)-1] + "\x00", key[:len(key)-1] + "-",
		flip(key), "slu_abcdefgh_" + strings.Repeat("a", 43),
	} {
		if _, err := a.Authenticate(t.Context(), bad); !errors.Is(err, schema.ErrUnauthorized) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// flip returns key with its last character changed.
func flip(key string) string {
	last := "a"
	if strings.HasSuffix(key, last) {
		last = "b"
	}
	return key[:len(key)-1] + last
}

func TestRevocationActs(t *testing.T) {
	a, s, admin, clock := setUp(t)
	elsewhere := New(s) // another process
	elsewhere.now = a.now
	stored, key, err := a.CreateKey(t.Context(), admin, schema.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Auth{a, elsewhere} {
		if _, err := x.Authenticate(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.RevokeKey(t.Context(), admin, stored.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), key); !errors.Is(err, schema.ErrUnauthorized) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("where it was revoked: %v", err)
	}
	told := New(s) // a third one, which is notified
	told.now = a.now
	told.keep(sha256.Sum256([]byte(key)), cachedPrincipal{principal: schema.Principal{Tenant: admin.Tenant}, until: clock.Add(cacheTTL)}, *clock)
	told.ForgetTenant(uuid.New())
	if _, err := told.Authenticate(t.Context(), key); err != nil {
		t.Errorf("told of another tenant: %v", err)
	}
	told.ForgetTenant(admin.Tenant)
	if _, err := told.Authenticate(t.Context(), key); !errors.Is(err, schema.ErrUnauthorized) {
		t.Errorf("told of it: %v", err)
	}
	*clock = clock.Add(cacheTTL)
	if _, err := elsewhere.Authenticate(t.Context(), key); !errors.Is(err, schema.ErrUnauthorized) {
		t.Errorf("elsewhere, %s later: %v", cacheTTL, err)
	}
	if err := a.RevokeKey(t.Context(), admin, uuid.New()); !errors.Is(err, schema.ErrNotFound) {
		t.Error(err)
	}
	list, _, err := s.Keys(t.Context(), admin, schema.PageQuery{})
	if err != nil || list[1].RevokedAt == nil {
		t.Fatal(list, err)
	}
	first := *list[1].RevokedAt
	if again, err := s.RevokeKey(t.Context(), admin, stored.ID); err != nil || !again.RevokedAt.Equal(first) {
		t.Errorf("revoked again: %+v, %v", again, err)
	}
}

func TestExpiryActs(t *testing.T) {
	a, _, admin, clock := setUp(t)
	soon := clock.Add(time.Second)
	_, key, err := a.CreateKey(t.Context(), admin, schema.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}, ExpiresAt: &soon})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	*clock = clock.Add(time.Second) // less than cacheTTL
	if _, err := a.Authenticate(t.Context(), key); !errors.Is(err, schema.ErrUnauthorized) || !strings.Contains(err.Error(), "expired") {
		t.Error(err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	a, s, admin, clock := setUp(t)
	past := clock.Add(-time.Second)
	query := []schema.Scope{schema.ScopeQuery}
	for field, k := range map[string]schema.NewKey{
		"name":       {Scopes: query},
		"scopes":     {Name: "k"},
		"scopes[1]":  {Name: "k", Scopes: []schema.Scope{schema.ScopeQuery, "root"}},
		"groups[0]":  {Name: "k", Scopes: query, Groups: []string{"a\x00"}},
		"expires_at": {Name: "k", Scopes: query, ExpiresAt: &past},
	} {
		_, _, err := a.CreateKey(t.Context(), admin, k)
		var wrong *schema.FieldError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, _, err := a.CreateKey(t.Context(), schema.Principal{Tenant: admin.Tenant, Scopes: query}, schema.NewKey{Name: "k", Scopes: query}); !errors.Is(err, schema.ErrForbidden) {
		t.Errorf("a query key made a key: %v", err)
	}
	if _, _, err := a.CreateKey(t.Context(), admin, schema.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeOperator}}); !errors.Is(err, schema.ErrForbidden) {
		t.Errorf("an admin made an operator: %v", err)
	}
	if _, _, err := a.CreateTenant(t.Context(), admin, schema.NewTenant{Name: "more"}); !errors.Is(err, schema.ErrForbidden) {
		t.Errorf("an admin made a tenant: %v", err)
	}
	list, _, err := s.Keys(t.Context(), admin, schema.PageQuery{})
	if err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	a := New(nil)
	now := time.Now()
	for i := range maxCached + 10 {
		a.keep([32]byte{byte(i), byte(i >> 8)}, cachedPrincipal{until: now.Add(cacheTTL)}, now)
	}
	if len(a.cache) > maxCached {
		t.Errorf("%d kept", len(a.cache))
	}
	if _, ok := a.recall([32]byte{byte((maxCached + 9) & 255), byte((maxCached + 9) >> 8)}, now); !ok {
		t.Error("the newest was forgotten")
	}
}

func TestBootstrap(t *testing.T) {
	_, s, _, _ := setUp(t)
	// Several processes of a new installation at once create only one key.
	var wg sync.WaitGroup
	keys := make([]string, 6)
	for i := range keys {
		wg.Go(func() {
			key, created, err := New(s).EnsureBootstrap(context.Background(), "default")
			if err != nil || created != (key != "") {
				t.Error(key, created, err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	var key string
	for _, k := range keys {
		if k != "" && key != "" {
			t.Error("two keys were made")
		}
		if k != "" {
			key = k
		}
	}
	a := New(s)
	p, err := a.Authenticate(t.Context(), key)
	if err != nil || !p.Has(schema.ScopeOperator) || !p.Has(schema.ScopeIngest) || !p.Has(schema.ScopeImpersonate) {
		t.Fatalf("%+v, %v", p, err)
	}
	renewed, err := a.RenewBootstrap(t.Context(), "default")
	if err != nil || renewed == key {
		t.Fatal(renewed, err)
	}
	if _, err := a.Authenticate(t.Context(), renewed); err != nil {
		t.Error(err)
	}
	if _, err := a.Authenticate(t.Context(), key); !errors.Is(err, schema.ErrUnauthorized) {
		t.Errorf("the lost key still works: %v", err)
	}
	// Without a valid key a new one is created.
	p, _ = a.Authenticate(t.Context(), renewed)
	if err := a.RevokeKey(t.Context(), p, p.Key); err != nil {
		t.Fatal(err)
	}
	if key, created, err := a.EnsureBootstrap(t.Context(), "default"); err != nil || !created || key == "" {
		t.Error(key, created, err)
	}
	if _, err := a.RenewBootstrap(t.Context(), "brand-new"); err != nil {
		t.Error(err)
	}
	if _, _, err := a.EnsureBootstrap(t.Context(), "Not A Name"); !errors.Is(err, schema.ErrInvalid) {
		t.Error(err)
	}
}
