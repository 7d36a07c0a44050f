package auth

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

func TestRotatedKeysOverlap(t *testing.T) {
	a, s, admin, clock := setUp(t)
	ends := clock.Add(48 * time.Hour).Truncate(time.Microsecond)
	old, oldKey, err := a.CreateKey(t.Context(), admin, schema.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}, Groups: []string{"staff"}, ExpiresAt: &ends})
	if err != nil {
		t.Fatal(err)
	}
	self, err := a.Authenticate(t.Context(), oldKey)
	if err != nil {
		t.Fatal(err)
	}
	// Rotates twice, like a client that lost the first reply: both new keys have their full
	// lifetime.
	var keys []string
	for range 2 {
		next, key, err := a.RotateKey(t.Context(), self, old.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if next.ID == old.ID || next.Name != "k" || next.Groups[0] != "staff" || next.Scopes[0] != schema.ScopeQuery || !next.ExpiresAt.Equal(ends) {
			t.Errorf("made %+v", next)
		}
		keys = append(keys, key)
	}
	for _, key := range append(keys, oldKey) {
		if _, err := a.Authenticate(t.Context(), key); err != nil {
			t.Errorf("during the overlap: %v", err)
		}
	}
	if _, _, err := a.RotateKey(t.Context(), admin, old.ID, 24*time.Hour); err != nil { // does not extend it
		t.Fatal(err)
	}
	*clock = clock.Add(time.Hour)
	if _, err := a.Authenticate(t.Context(), oldKey); !errors.Is(err, schema.ErrUnauthorized) {
		t.Errorf("after the overlap: %v", err)
	}
	if _, _, err := a.RotateKey(t.Context(), admin, old.ID, 0); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("one that ended was rotated: %v", err)
	}
	p, err := a.Authenticate(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.RotateKey(t.Context(), p, p.Key, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), keys[0]); !errors.Is(err, schema.ErrUnauthorized) {
		t.Errorf("without an overlap: %v", err)
	}
	list, _, err := s.Audit(t.Context(), admin, schema.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if e := list[0]; e.Action != "key.rotate" || e.Target != p.Key.String() || e.Actor != "key:"+p.Key.String() {
		t.Errorf("the log says %+v", e)
	}
}

func TestWhoMayRotate(t *testing.T) {
	a, s, admin, _ := setUp(t)
	system := schema.Principal{Tenant: admin.Tenant}
	operator, _, err := a.create(t.Context(), system, admin.Tenant, schema.NewKey{Name: "o", Scopes: []schema.Scope{schema.ScopeOperator}})
	if err != nil {
		t.Fatal(err)
	}
	as := func(k schema.Key) schema.Principal {
		return schema.Principal{Tenant: admin.Tenant, Key: k.ID, Scopes: k.Scopes, Groups: k.Groups}
	}
	query, _, err := a.CreateKey(t.Context(), admin, schema.NewKey{Name: "q", Scopes: []schema.Scope{schema.ScopeQuery, schema.ScopeImpersonate}})
	if err != nil {
		t.Fatal(err)
	}
	person, grouped := as(query), as(query)
	person.Person = "ann"
	grouped.Scopes = []schema.Scope{schema.ScopeQuery} // as when groups are passed
	for name, c := range map[string]struct {
		p    schema.Principal
		id   uuid.UUID
		want error
	}{
		"an admin, an operator's":        {admin, operator.ID, schema.ErrForbidden},
		"an operator alone, an admin's":  {as(operator), admin.Key, schema.ErrForbidden},
		"a query key, another":           {as(query), admin.Key, schema.ErrForbidden},
		"a person, the key that acts":    {person, query.ID, schema.ErrForbidden},
		"with groups, the key that acts": {grouped, query.ID, schema.ErrForbidden},
		"an admin, no key":               {admin, uuid.New(), schema.ErrNotFound},
		"an operator, itself":            {as(operator), operator.ID, nil},
		"an admin, a query key":          {admin, query.ID, nil},
	} {
		_, key, err := a.RotateKey(t.Context(), c.p, c.id, time.Hour)
		if !errors.Is(err, c.want) || (key != "") != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, _, err := s.Keys(t.Context(), admin, schema.PageQuery{})
	if err != nil || len(list) != 5 {
		t.Errorf("%d keys, %v", len(list), err)
	}
	for _, overlap := range []time.Duration{-time.Second, maxOverlap + time.Second} {
		var wrong *schema.FieldError
		if _, _, err := a.RotateKey(t.Context(), admin, query.ID, overlap); !errors.As(err, &wrong) || wrong.Field != "overlap_seconds" {
			t.Errorf("%v: %v", overlap, err)
		}
	}
}
