package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	minSession = time.Minute
	maxSession = 720 * time.Hour
	// maxNamed is how many groups or collections an error lists at most, and maxNamedBytes how many
	// bytes their names have together at most.
	maxNamed, maxNamedBytes = 20, 1000
)

// signInProvider returns the identity provider; nil: people can't sign in.
func signInProvider(c config.HTTP, o config.OIDC) (*oidc.Provider, error) {
	if o.OIDCIssuer == "" {
		return nil, nil
	}
	if o.OIDCSession < minSession || o.OIDCSession > maxSession {
		return nil, schema.Invalid("SLUICE_OIDC_SESSION", "%s: needs to be from %s to %s", o.OIDCSession, minSession, maxSession)
	}
	secret := o.OIDCClientSecret
	if o.OIDCClientSecretFile != "" {
		if secret != "" {
			return nil, schema.Invalid("SLUICE_OIDC_CLIENT_SECRET_FILE", "cannot be set together with SLUICE_OIDC_CLIENT_SECRET; set one of them")
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

// peopleAPI manages sessions through auth, and notifies other processes when sessions begin or end.
type peopleAPI struct {
	*auth.Auth
	tenantCache *tenantCache
}

// EndSession implements httpapi.PeopleSessions.
func (a peopleAPI) EndSession(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	err := a.Auth.EndSession(ctx, p, id)
	if err == nil {
		a.tenantCache.changed(ctx, p.Tenant)
	}
	return err
}

// SignOut implements httpapi.PeopleSessions.
func (a peopleAPI) SignOut(ctx context.Context, secret string) error {
	tenant, err := a.Auth.SignOut(ctx, secret)
	if err == nil && tenant != uuid.Nil {
		a.tenantCache.changed(ctx, tenant)
	}
	return err
}

// signInAPI creates sessions for people whom the identity provider authenticates.
type signInAPI struct {
	provider  *oidc.Provider
	people    peopleAPI
	tenants   *tenants.TenantStore
	publicURL string
	lifetime  time.Duration
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
	identity, err := a.provider.Complete(ctx, kept, answer)
	if err != nil {
		return httpapi.SignedIn{}, err
	}
	as, err := a.entering(ctx, identity)
	if err != nil {
		return httpapi.SignedIn{}, err
	}
	done := httpapi.SignedIn{ReturnTo: identity.ReturnTo, Tenants: as.choices}
	if as.tenant == uuid.Nil {
		return done, nil
	}
	from.ExpiresAt = time.Now().Add(a.lifetime)
	_, done.Session, done.Secret, err = a.people.SignIn(ctx, as.tenant, as.Person, from)
	if err != nil {
		return httpapi.SignedIn{}, err
	}
	a.people.tenantCache.changed(ctx, as.tenant)
	return done, nil
}

// SignInByToken implements httpapi.SignIns.
func (a signInAPI) SignInByToken(ctx context.Context, secret string, from schema.NewSession) (bool, error) {
	token, tenant, _ := strings.Cut(secret, " ")
	if !a.provider.TakesTokens() || !schema.LooksLikeToken(token) {
		return false, nil
	}
	identity, expires, err := a.provider.Token(ctx, token)
	if err != nil {
		return false, err
	}
	identity.Tenant = tenant
	as, err := a.entering(ctx, identity)
	if err != nil {
		return false, err
	}
	if as.tenant == uuid.Nil {
		return false, fmt.Errorf("you have access to several tenants: name one of %s in the header %s: %w", strings.Join(as.choices, ", "), httpapi.TenantHeader, schema.ErrConflict)
	}
	from.ExpiresAt = time.Now().Add(a.lifetime)
	if expires.Before(from.ExpiresAt) {
		from.ExpiresAt = expires
	}
	err = a.people.SignInBy(ctx, secret, as.tenant, as.Person, from)
	if errors.Is(err, schema.ErrConflict) {
		return true, nil // another request with this token was first
	}
	if err == nil {
		a.people.tenantCache.changed(ctx, as.tenant)
	}
	return err == nil, err
}

// signInCandidate is a person who may enter a tenant.
type signInCandidate struct {
	schema.Person
	tenant  uuid.UUID
	choices []string // tenants that the person must choose from; tenant is uuid.Nil then
}

// granted is what the access rules grant a person in an existing tenant.
type granted struct {
	schema.Tenant
	scopes      []schema.Scope
	groups      []string
	collections []schema.CollectionScopes
}

// entering returns the person's rights in the tenant that they chose, or in the only one that they
// may enter. It ends their sessions in all tenants that they may no longer enter.
func (a signInAPI) entering(ctx context.Context, identity oidc.Identity) (signInCandidate, error) {
	grants, missing, err := a.grants(ctx, identity)
	if err != nil {
		return signInCandidate{}, err
	}
	ids := make([]uuid.UUID, len(grants))
	for i, e := range grants {
		ids[i] = e.ID
	}
	ended, err := a.people.EndSessionsElsewhere(ctx, identity.Subject, ids)
	for _, tenant := range ended {
		a.people.tenantCache.changed(ctx, tenant)
	}
	if err != nil {
		return signInCandidate{}, err
	}
	chosen, err := chooseGrant(identity, grants, missing)
	if err != nil {
		return signInCandidate{}, err
	}
	if chosen == nil {
		var as signInCandidate
		for _, e := range grants {
			as.choices = append(as.choices, e.Name)
		}
		return as, nil
	}
	person := schema.Person{Subject: identity.Subject, Name: identity.Name, Scopes: chosen.scopes, Groups: chosen.groups, Collections: chosen.collections}
	return signInCandidate{Person: person, tenant: chosen.ID}, nil
}

// grants returns what the access rules grant a person in existing tenants. If the rules for a
// tenant grant only collections that don't exist, missing has these collections under the tenant's
// name.
func (a signInAPI) grants(ctx context.Context, identity oidc.Identity) (grants []granted, missing map[string][]string, err error) {
	missing = map[string][]string{}
	for _, g := range a.provider.Grants(ctx, identity.Groups) {
		tenant, err := a.tenants.TenantNamed(ctx, g.Tenant)
		if errors.Is(err, schema.ErrNotFound) {
			slog.WarnContext(ctx, "an access rule names a tenant that does not exist", "name", g.Tenant)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("sign in: %w", err)
		}
		e, without, err := a.granted(ctx, tenant, g)
		if err != nil {
			return nil, nil, fmt.Errorf("sign in: %w", err)
		}
		if len(e.scopes) == 0 && len(e.collections) == 0 {
			missing[tenant.Name] = without
			continue
		}
		grants = append(grants, e)
	}
	return grants, missing, nil
}

// granted looks up the collections of a grant. Collections that don't exist are returned in
// missing, and grant nothing.
func (a signInAPI) granted(ctx context.Context, tenant schema.Tenant, g oidc.Grant) (e granted, missing []string, err error) {
	e = granted{Tenant: tenant, scopes: g.Scopes, groups: g.Groups}
	if len(g.Collections) == 0 {
		return e, nil, nil
	}
	names := make([]string, len(g.Collections))
	for i, c := range g.Collections {
		names[i] = c.Name
	}
	ids, err := a.tenants.CollectionsNamed(ctx, tenant.ID, names)
	if err != nil {
		return e, nil, err
	}
	for _, c := range g.Collections {
		id, ok := ids[c.Name]
		if !ok {
			slog.WarnContext(ctx, "an access rule names a collection that does not exist", "tenant", tenant.ID, "collection", c.Name)
			missing = append(missing, c.Name)
			continue
		}
		e.collections = append(e.collections, schema.CollectionScopes{Collection: id, Name: c.Name, Scopes: c.Scopes})
		e.groups = append(e.groups, c.Groups...)
	}
	slices.Sort(e.groups)
	e.groups = slices.Compact(e.groups)
	return e, missing, nil
}

// chooseGrant returns the grant of the tenant that a person enters; nil: they have to choose one.
func chooseGrant(identity oidc.Identity, grants []granted, missing map[string][]string) (*granted, error) {
	i := slices.IndexFunc(grants, func(e granted) bool { return e.Name == identity.Tenant })
	unknownCollections := missing[identity.Tenant]
	if len(grants) == 0 && identity.Tenant == "" {
		for _, tenant := range slices.Sorted(maps.Keys(missing)) {
			unknownCollections = append(unknownCollections, missing[tenant]...)
		}
	}
	switch {
	case len(unknownCollections) > 0:
		return nil, fmt.Errorf("%s, and the collections that these give access to do not exist: %s; ask the operator of this server: %w",
			describeGroups(identity), enumerate(unknownCollections), schema.ErrForbidden)
	case len(grants) == 0:
		return nil, fmt.Errorf("%s, and none of them gives access here; ask the operator of this server: %w", describeGroups(identity), schema.ErrForbidden)
	case identity.Tenant == "" && len(grants) == 1:
		return &grants[0], nil
	case identity.Tenant == "":
		return nil, nil
	case i < 0:
		return nil, fmt.Errorf("%s, and none of them gives access to the tenant %q: %w", describeGroups(identity), identity.Tenant, schema.ErrForbidden)
	}
	return &grants[i], nil
}

// describeGroups says which groups a person has.
func describeGroups(identity oidc.Identity) string {
	if len(identity.Groups) == 0 {
		return "the provider sends no groups for " + identity.Name
	}
	return identity.Name + " has the groups " + enumerate(identity.Groups)
}

// enumerate lists names, up to maxNamed and maxNamedBytes, and counts the rest.
func enumerate(names []string) string {
	named, bytes := 0, 0
	for _, n := range names {
		if bytes += len(n); named == maxNamed || bytes > maxNamedBytes {
			break
		}
		named++
	}
	list := strings.Join(names[:named], ", ")
	if more := len(names) - named; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
