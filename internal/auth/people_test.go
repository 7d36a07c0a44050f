package auth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

var ann = schema.Person{Subject: "https://login.example|u-1", Name: "Ann Example", Scopes: []schema.Scope{schema.ScopeQuery}, Groups: []string{"staff"}}

// session returns a new session that lasts an hour.
func session(clock *time.Time) schema.NewSession {
	return schema.NewSession{ExpiresAt: clock.Add(time.Hour).Truncate(time.Microsecond), Address: "192.0.2.1", Agent: "a browser"}
}

func TestPeopleKeepTheirRowAcrossSessions(t *testing.T) {
	a, s, admin, clock := setUp(t)
	elsewhere := New(s) // another process
	elsewhere.now = a.now
	first, made, secret, err := a.SignIn(t.Context(), admin.Tenant, ann, session(clock))
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != ann.Name || made.Key != first.Key || made.Address != "192.0.2.1" || made.Agent != "a browser" || made.EndedAt != nil {
		t.Errorf("the session is %+v", made)
	}
	p, err := a.Authenticate(t.Context(), secret)
	if err != nil || p.Tenant != admin.Tenant || p.Key != first.Key || p.Name != ann.Name || !p.Has(schema.ScopeQuery) || p.Has(schema.ScopeIngest) || len(p.Groups) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if id, err := a.Session(t.Context(), secret); err != nil || id != made.ID {
		t.Errorf("the secret is of session %v, %v", id, err)
	}
	// The person's rights have changed by the second sign-in, which applies to both sessions.
	later := ann
	later.Name, later.Scopes, later.Groups = "Ann Married", []schema.Scope{schema.ScopeQuery, schema.ScopeIngest}, []string{"legal"}
	second, _, _, err := a.SignIn(t.Context(), admin.Tenant, later, session(clock))
	if err != nil || second.Key != first.Key {
		t.Fatalf("%+v, %v", second, err)
	}
	if p, err = a.Authenticate(t.Context(), secret); err != nil || p.Name != "Ann Married" || !p.Has(schema.ScopeIngest) || p.Groups[0] != "legal" {
		t.Errorf("the first session, after the second sign-in: %+v, %v", p, err)
	}
	bob := ann
	bob.Subject = "https://login.example|u-2"
	if other, _, _, err := a.SignIn(t.Context(), admin.Tenant, bob, session(clock)); err != nil || other.Key == first.Key {
		t.Errorf("somebody else of that name: %+v, %v", other, err)
	}
	mine, _, err := a.Sessions(t.Context(), first, false, schema.PageQuery{})
	if err != nil || len(mine) != 2 || mine[1].ID != made.ID || mine[1].LastUsedAt == nil {
		t.Errorf("own sessions: %+v, %v", mine, err)
	}
	if all, _, err := a.Sessions(t.Context(), admin, true, schema.PageQuery{}); err != nil || len(all) != 3 {
		t.Errorf("all sessions: %+v, %v", all, err)
	}
	if _, _, err := a.Sessions(t.Context(), first, true, schema.PageQuery{}); !errors.Is(err, schema.ErrForbidden) {
		t.Errorf("a reader sees all sessions: %v", err)
	}
	// Revoking the row ends all sessions, and keeps the person from signing in.
	if _, err := elsewhere.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := a.RevokeKey(t.Context(), admin, first.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), secret); !errors.Is(err, schema.ErrUnauthorized) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("where it was revoked: %v", err)
	}
	*clock = clock.Add(cacheTTL)
	if _, err := elsewhere.Authenticate(t.Context(), secret); !errors.Is(err, schema.ErrUnauthorized) {
		t.Errorf("elsewhere: %v", err)
	}
	if _, _, _, err := a.SignIn(t.Context(), admin.Tenant, ann, session(clock)); !errors.Is(err, schema.ErrForbidden) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("signing in again: %v", err)
	}
	if mine, _, err := a.Sessions(t.Context(), first, false, schema.PageQuery{}); err != nil || len(mine) != 2 || mine[0].EndedAt == nil || mine[1].EndedAt == nil {
		t.Errorf("sessions of one who was revoked: %+v, %v", mine, err)
	}
}

func TestSessionsEnd(t *testing.T) {
	a, _, admin, clock := setUp(t)
	signIn := func(who schema.Person) (schema.Principal, schema.PersonSession, string) {
		t.Helper()
		p, s, secret, err := a.SignIn(t.Context(), admin.Tenant, who, session(clock))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		return p, s, secret
	}
	bob := ann
	bob.Subject = "https://login.example|u-2"
	p, own, secret := signIn(ann)
	other, foreign, otherSecret := signIn(bob)
	over := func(what, secret, word string) {
		t.Helper()
		if _, err := a.Authenticate(t.Context(), secret); !errors.Is(err, schema.ErrUnauthorized) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, id := range map[string]uuid.UUID{"another's session": foreign.ID, "no session": uuid.New()} {
		if err := a.EndSession(t.Context(), p, id); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stranger := schema.Principal{Tenant: uuid.New(), Scopes: admin.Scopes}
	if err := a.EndSession(t.Context(), stranger, own.ID); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("another tenant's admin: %v", err)
	}
	if err := a.EndSession(t.Context(), p, own.ID); err != nil {
		t.Fatal(err)
	}
	over("ended by its person", secret, "ended")
	if err := a.EndSession(t.Context(), admin, foreign.ID); err != nil {
		t.Fatal(err)
	}
	over("ended by an admin", otherSecret, "ended")

	_, _, secret = signIn(ann)
	if tenant, err := a.SignOut(t.Context(), secret); err != nil || tenant != admin.Tenant {
		t.Errorf("signing out: %v, %v", tenant, err)
	}
	over("signed out", secret, "ended")
	_, key, err := a.CreateKey(t.Context(), admin, schema.NewKey{Name: "k", Scopes: admin.Scopes})
	if err != nil {
		t.Fatal(err)
	}
	if tenant, err := a.SignOut(t.Context(), key); err != nil || tenant != uuid.Nil {
		t.Errorf("signing out a key: %v, %v", tenant, err)
	}
	if _, err := a.Authenticate(t.Context(), key); err != nil {
		t.Errorf("signing out ended the key: %v", err)
	}

	_, _, secret = signIn(ann)
	if ended, err := a.EndSessionsElsewhere(t.Context(), ann.Subject, []uuid.UUID{admin.Tenant}); err != nil || len(ended) != 0 {
		t.Errorf("with access: %v, %v", ended, err)
	}
	if ended, err := a.EndSessionsElsewhere(t.Context(), ann.Subject, nil); err != nil || len(ended) != 1 || ended[0] != admin.Tenant {
		t.Errorf("without access: %v, %v", ended, err)
	}
	over("without access any more", secret, "ended")

	_, _, secret = signIn(bob)
	*clock = clock.Add(time.Hour)
	over("expired", secret, "expired")
	if _, _, err := a.RotateKey(t.Context(), admin, other.Key, time.Hour); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("a person was made a key: %v", err)
	}
}

func TestPeopleAreNoKeys(t *testing.T) {
	a, s, _, clock := setUp(t)
	tenant, err := s.TenantNamed(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	operator := ann
	operator.Scopes = []schema.Scope{schema.ScopeOperator, schema.ScopeAdmin}
	if _, _, _, err := a.SignIn(t.Context(), tenant.ID, operator, session(clock)); err != nil {
		t.Fatal(err)
	}
	if key, made, err := a.EnsureBootstrap(t.Context(), "acme"); err != nil || !made || key == "" {
		t.Errorf("with an operator who signs in alone there is no bootstrap key: %v, %v", made, err)
	}
	for name, who := range map[string]schema.Person{
		"scopes":      {Subject: ann.Subject, Name: "Ann"},
		"groups[0]":   {Subject: ann.Subject, Name: "Ann", Scopes: ann.Scopes, Groups: []string{schema.NobodyLabel}},
		"collections": {Subject: ann.Subject, Name: "Ann", Collections: make([]schema.CollectionScopes, schema.MaxKeyCollections+1)},
	} {
		var wrong *schema.FieldError
		if _, _, _, err := a.SignIn(t.Context(), tenant.ID, who, session(clock)); !errors.As(err, &wrong) || wrong.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
