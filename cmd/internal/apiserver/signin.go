package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/httpapi"
	"github.com/sluice-rag/sluice/internal/oidc"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/schema"
)

const (
	leastSession = time.Minute
	mostSession  = 720 * time.Hour
	// maxNamed is how many groups a refusal names, and maxNamedBytes how long their names are together.
	maxNamed, maxNamedBytes = 20, 1000
)

// signInProvider is where people sign in; nil: nowhere.
func signInProvider(c config.HTTP, o config.OIDC) (*oidc.Provider, error) {
	if o.OIDCIssuer == "" {
		return nil, nil
	}
	if o.OIDCSession < leastSession || o.OIDCSession > mostSession {
		return nil, schema.Invalid("SLUICE_OIDC_SESSION", "%s: needs to be from %s to %s", o.OIDCSession, leastSession, mostSession)
	}
	secret := o.OIDCClientSecret
	if o.OIDCClientSecretFile != "" {
		if secret != "" {
			return nil, schema.Invalid("SLUICE_OIDC_CLIENT_SECRET_FILE", "is in place of SLUICE_OIDC_CLIENT_SECRET; set one of them")
		}
		data, err := os.ReadFile(o.OIDCClientSecretFile)
		if err != nil {
			return nil, fmt.Errorf("read the client's secret (SLUICE_OIDC_CLIENT_SECRET_FILE): %w", err)
		}
		if secret = strings.TrimSpace(string(data)); secret == "" {
			return nil, schema.Invalid("SLUICE_OIDC_CLIENT_SECRET_FILE", "%s is empty", o.OIDCClientSecretFile)
		}
	}
	seals, err := auth.NewSignIns(c.SessionSecret)
	if err != nil {
		return nil, err
	}
	return oidc.New(oidc.Options{Issuer: o.OIDCIssuer, Name: o.OIDCName, ClientID: o.OIDCClientID, ClientSecret: secret, Scopes: o.OIDCScopes,
		GroupsClaim: o.OIDCGroupsClaim, AccessFile: o.OIDCAccess, Audience: o.OIDCAudience, Seals: seals})
}

// peopleAPI keeps sessions through auth, and tells other processes of their ends.
type peopleAPI struct {
	*auth.Auth
	lookups *lookups
}

// EndSession implements httpapi.PeopleSessions.
func (a peopleAPI) EndSession(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	err := a.Auth.EndSession(ctx, p, id)
	if err == nil {
		a.lookups.changed(ctx, p.Tenant)
	}
	return err
}

// SignOut implements httpapi.PeopleSessions.
func (a peopleAPI) SignOut(ctx context.Context, secret string) error {
	tenant, err := a.Auth.SignOut(ctx, secret)
	if err == nil && tenant != uuid.Nil {
		a.lookups.changed(ctx, tenant)
	}
	return err
}

// signInAPI makes sessions of those whom the provider knows.
type signInAPI struct {
	provider  *oidc.Provider
	people    peopleAPI
	tenants   *tenants.TenantStore
	publicURL string
	lasts     time.Duration
}

func signIns(provider *oidc.Provider, people peopleAPI, t *tenants.TenantStore, d Deps) httpapi.SignIns {
	if provider == nil {
		return nil
	}
	return signInAPI{provider, people, t, strings.TrimRight(d.PublicURL, "/"), d.OIDC.OIDCSession}
}

// ProviderName implements httpapi.SignIns.
func (a signInAPI) ProviderName() string { return a.provider.Name() }

// BeginSignIn implements httpapi.SignIns.
func (a signInAPI) BeginSignIn(ctx context.Context, b httpapi.SignInBegin) (page, kept string, err error) {
	if a.publicURL != "" {
		b.Redirect = a.publicURL + httpapi.CallbackPath
	}
	return a.provider.Begin(ctx, oidc.Begin{Redirect: b.Redirect, ReturnTo: b.ReturnTo, Tenant: b.Tenant})
}

// CompleteSignIn implements httpapi.SignIns.
func (a signInAPI) CompleteSignIn(ctx context.Context, kept string, answer url.Values, from schema.NewSession) (httpapi.SignedIn, error) {
	who, err := a.provider.Complete(ctx, kept, answer)
	if err != nil {
		return httpapi.SignedIn{}, err
	}
	as, err := a.entering(ctx, who)
	if err != nil {
		return httpapi.SignedIn{}, err
	}
	done := httpapi.SignedIn{ReturnTo: who.ReturnTo, Tenants: as.choices}
	if as.tenant == uuid.Nil {
		return done, nil
	}
	from.ExpiresAt = time.Now().Add(a.lasts)
	_, done.Session, done.Secret, err = a.people.SignIn(ctx, as.tenant, as.Person, from)
	if err != nil {
		return httpapi.SignedIn{}, err
	}
	a.people.lookups.changed(ctx, as.tenant)
	return done, nil
}

// SignInByToken implements httpapi.SignIns.
func (a signInAPI) SignInByToken(ctx context.Context, secret string, from schema.NewSession) (bool, error) {
	token, tenant, _ := strings.Cut(secret, " ")
	if !a.provider.TakesTokens() || !schema.LooksLikeToken(token) {
		return false, nil
	}
	who, expires, err := a.provider.Token(ctx, token)
	if err != nil {
		return false, err
	}
	who.Tenant = tenant
	as, err := a.entering(ctx, who)
	if err != nil {
		return false, err
	}
	if as.tenant == uuid.Nil {
		return false, fmt.Errorf("you may enter several tenants: name one of %s in the header %s: %w", strings.Join(as.choices, ", "), httpapi.TenantHeader, schema.ErrConflict)
	}
	from.ExpiresAt = time.Now().Add(a.lasts)
	if expires.Before(from.ExpiresAt) {
		from.ExpiresAt = expires
	}
	err = a.people.SignInBy(ctx, secret, as.tenant, as.Person, from)
	if errors.Is(err, schema.ErrConflict) {
		return true, nil // another request with it came first
	}
	if err == nil {
		a.people.lookups.changed(ctx, as.tenant)
	}
	return err == nil, err
}

// entrant is a person who may enter a tenant.
type entrant struct {
	schema.Person
	tenant  uuid.UUID
	choices []string // of tenants, when the person has to say which; tenant is uuid.Nil then
}

// entering is who a person is in the tenant that they chose, or in the only one that they may enter. Their sessions in
// tenants that they may enter no more end.
func (a signInAPI) entering(ctx context.Context, who oidc.Identity) (entrant, error) {
	grants, ids, err := a.grants(ctx, who)
	if err != nil {
		return entrant{}, err
	}
	ended, err := a.people.EndSessionsElsewhere(ctx, who.Subject, ids)
	for _, tenant := range ended {
		a.people.lookups.changed(ctx, tenant)
	}
	if err != nil {
		return entrant{}, err
	}
	chosen, tenant, err := chosenGrant(who, grants, ids)
	if err != nil {
		return entrant{}, err
	}
	if chosen == nil {
		var as entrant
		for _, g := range grants {
			as.choices = append(as.choices, g.Tenant)
		}
		return as, nil
	}
	return entrant{Person: schema.Person{Subject: who.Subject, Name: who.Name, Scopes: chosen.Scopes, Groups: chosen.Groups}, tenant: tenant}, nil
}

// grants are what the rules give a person in tenants that there are, with these tenants' ids.
func (a signInAPI) grants(ctx context.Context, who oidc.Identity) ([]oidc.Grant, []uuid.UUID, error) {
	var grants []oidc.Grant
	var ids []uuid.UUID
	for _, g := range a.provider.Grants(ctx, who.Groups) {
		tenant, err := a.tenants.TenantNamed(ctx, g.Tenant)
		if errors.Is(err, schema.ErrNotFound) {
			slog.WarnContext(ctx, "a rule of access names a tenant that is not there", "name", g.Tenant)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("sign in: %w", err)
		}
		grants, ids = append(grants, g), append(ids, tenant.ID)
	}
	return grants, ids, nil
}

// chosenGrant returns the grant that a person signs in by, and its tenant's id; nil: they have to say which.
func chosenGrant(who oidc.Identity, grants []oidc.Grant, ids []uuid.UUID) (*oidc.Grant, uuid.UUID, error) {
	switch {
	case len(grants) == 0:
		return nil, uuid.Nil, fmt.Errorf("%s, and none of them gives access here; ask who runs this server: %w", describeGroups(who), schema.ErrForbidden)
	case who.Tenant == "" && len(grants) == 1:
		return &grants[0], ids[0], nil
	case who.Tenant == "":
		return nil, uuid.Nil, nil
	}
	i := slices.IndexFunc(grants, func(g oidc.Grant) bool { return g.Tenant == who.Tenant })
	if i < 0 {
		return nil, uuid.Nil, fmt.Errorf("%s, and none of them gives access to the tenant %q: %w", describeGroups(who), who.Tenant, schema.ErrForbidden)
	}
	return &grants[i], ids[i], nil
}

// describeGroups tells a person which groups they have.
func describeGroups(who oidc.Identity) string {
	if len(who.Groups) == 0 {
		return "the provider tells no groups of " + who.Name
	}
	named, bytes := 0, 0
	for _, g := range who.Groups {
		if bytes += len(g); named == maxNamed || bytes > maxNamedBytes {
			break
		}
		named++
	}
	said := who.Name + " has the groups " + strings.Join(who.Groups[:named], ", ")
	if more := len(who.Groups) - named; more > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	return said
}
