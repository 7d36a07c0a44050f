package httpapi

// API keys of the caller's tenant and, for operators, of any tenant.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func shownKey(k schema.Key) api.Key {
	kind := "key"
	if k.Subject != "" {
		kind = "person"
	}
	var addresses []string
	for _, a := range k.Addresses {
		addresses = append(addresses, a.String())
	}
	return api.Key{ID: k.ID, Kind: kind, Name: k.Name, Prefix: k.Prefix, Scopes: nonNil(k.Scopes), Collections: named(k.Collections), Groups: k.Groups, Addresses: addresses, CreatedAt: k.CreatedAt,
		ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt, Subject: k.Subject}
}

func (s *server) routeKeys() {
	keys := []string{"Keys"}
	route(s, huma.Operation{OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/keys", Summary: "List API keys and people", Tags: keys,
		Description: "People who sign in at the provider are in it, too. Needs the `admin` or the `operator` scope."},
		"", func(ctx context.Context, p schema.Principal, in *struct{ Paging }) (*reply[api.Page[api.Key]], error) {
			if _, err := s.keyManager(ctx, p, p.Tenant); err != nil {
				return nil, err
			}
			items, next, err := s.Tenants.Keys(ctx, p, in.query())
			return list(items, next, err, shownKey)
		})
	route(s, huma.Operation{OperationID: "create-key", Metadata: repeatRefuse.metadata(), Method: http.MethodPost, Path: "/v1/keys",
		Summary: "Create an API key", Tags: keys, DefaultStatus: http.StatusCreated,
		Description: "The key is in this reply and nowhere else. Needs the `admin` scope; giving the `operator` scope needs that one."},
		"", func(ctx context.Context, p schema.Principal, in *struct{ Body api.NewKey }) (*reply[api.KeyCreated], error) {
			addresses, err := readAddresses(in.Body.Addresses)
			if err != nil {
				return nil, err
			}
			next := schema.NewKey{Name: in.Body.Name, Scopes: in.Body.Scopes, Groups: in.Body.Groups, Addresses: addresses, ExpiresAt: in.Body.ExpiresAt}
			if len(in.Body.Collections) > 0 {
				if next.Collections, err = s.inCollections(ctx, p, in.Body.Scopes, in.Body.Collections); err != nil {
					return nil, err
				}
				next.Scopes = nil
			}
			k, key, err := s.Tenants.CreateKey(ctx, p, next)
			return replyTo(api.KeyCreated{Key: shownKey(k), APIKey: key}, err)
		})
	route(s, huma.Operation{OperationID: "rotate-key", Metadata: repeatRefuse.metadata(), Method: http.MethodPost, Path: "/v1/keys/{key}/rotate",
		Summary: "Make an API key in place of another", Tags: keys, DefaultStatus: http.StatusCreated,
		Description: "It has the same name, scopes, collections, groups, addresses and end. The old one stays good for a while, as the request says. " +
			"The new key is in this reply and nowhere else. A key may rotate itself; others may whose key could create it."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Key  uuid.UUID `path:"key" format:"uuid"`
			Body api.RotateKey
		}) (*reply[api.KeyCreated], error) {
			overlap := 24 * time.Hour
			if in.Body.OverlapSeconds != nil {
				overlap = time.Duration(*in.Body.OverlapSeconds) * time.Second
			}
			k, key, err := s.Tenants.RotateKey(ctx, p, in.Key, overlap)
			return replyTo(api.KeyCreated{Key: shownKey(k), APIKey: key}, err)
		})
	route(s, huma.Operation{OperationID: "revoke-key", Method: http.MethodDelete, Path: "/v1/keys/{key}", Summary: "Revoke an API key", Tags: keys, DefaultStatus: http.StatusNoContent},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			Key uuid.UUID `path:"key" format:"uuid"`
		}) (*struct{}, error) {
			return nil, s.Tenants.RevokeKey(ctx, p, in.Key)
		})
	route(s, huma.Operation{OperationID: "list-tenant-keys", Method: http.MethodGet, Path: "/v1/tenants/{tenant}/keys", Summary: "List a tenant's API keys", Tags: keys,
		Description: "Needs the `admin` scope for the key's own tenant, and `operator` for another. Secrets are in no list."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Tenant uuid.UUID `path:"tenant" format:"uuid"`
			Paging
		}) (*reply[api.Page[api.Key]], error) {
			p, err := s.keyManager(ctx, p, in.Tenant)
			if err != nil {
				return nil, err
			}
			items, next, err := s.Tenants.Keys(ctx, p, in.query())
			return list(items, next, err, shownKey)
		})
	route(s, huma.Operation{OperationID: "revoke-tenant-key", Method: http.MethodDelete, Path: "/v1/tenants/{tenant}/keys/{key}", Summary: "Revoke a tenant's API key", Tags: keys, DefaultStatus: http.StatusNoContent,
		Description: "Needs the `admin` scope for the key's own tenant, and `operator` for another, whose audit log then says so."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Tenant uuid.UUID `path:"tenant" format:"uuid"`
			Key    uuid.UUID `path:"key" format:"uuid"`
		}) (*struct{}, error) {
			p, err := s.keyManager(ctx, p, in.Tenant)
			if err != nil {
				return nil, err
			}
			return nil, s.Tenants.RevokeKey(ctx, p, in.Key)
		})
}

// inCollections returns scopes that hold only in the collections named by refs.
func (s *server) inCollections(ctx context.Context, p schema.Principal, scopes []schema.Scope, refs []string) ([]schema.CollectionScopes, error) {
	if _, err := s.keyManager(ctx, p, p.Tenant); err != nil { // before names are looked up
		return nil, err
	}
	for i, scope := range scopes {
		if !scope.OfCollections() {
			return nil, schema.Invalid(fmt.Sprintf("scopes[%d]", i), "%q applies to the whole tenant and cannot be given for collections; query, ingest and curate can", string(scope))
		}
	}
	var out []schema.CollectionScopes
	for i, ref := range refs {
		id, err := s.Collections.ResolveCollection(ctx, p, ref)
		if errors.Is(err, schema.ErrNotFound) {
			return nil, schema.Invalid(fmt.Sprintf("collections[%d]", i), "there is no collection %q", ref)
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(c schema.CollectionScopes) bool { return c.Collection == id }) {
			out = append(out, schema.CollectionScopes{Collection: id, Scopes: scopes})
		}
	}
	return out, nil
}

// named returns list without deleted collections.
func named(list []schema.CollectionScopes) []schema.CollectionScopes {
	return slices.DeleteFunc(slices.Clone(list), func(c schema.CollectionScopes) bool { return c.Name == "" })
}

// readAddresses parses ranges of IP addresses, or single addresses.
func readAddresses(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for i, text := range texts {
		of, err := netip.ParsePrefix(text)
		if err != nil {
			var at netip.Addr
			if at, err = netip.ParseAddr(text); err == nil {
				of = netip.PrefixFrom(at.WithZone(""), at.BitLen())
			}
		}
		switch field := fmt.Sprintf("addresses[%d]", i); {
		case err != nil:
			return nil, schema.Invalid(field, "%q is not an address or a range of addresses, such as 203.0.113.7 or 10.1.0.0/16", text)
		case of.Addr().Is4In6():
			return nil, schema.Invalid(field, "%q is an IPv4 range written as IPv6: write it as IPv4", text)
		}
		out = append(out, of.Masked())
	}
	return out, nil
}

// keyManager returns the principal that manages a tenant's keys: an admin of that tenant, or an
// operator, with p.Tenant set to that tenant.
func (s *server) keyManager(ctx context.Context, p schema.Principal, tenant uuid.UUID) (schema.Principal, error) {
	switch {
	case p.Person != "":
		return p, fmt.Errorf("keys cannot be managed on behalf of a person: %w", schema.ErrForbidden)
	case tenant == p.Tenant && (p.Has(schema.ScopeAdmin) || p.Has(schema.ScopeOperator)):
		return p, nil
	case tenant == p.Tenant:
		return p, fmt.Errorf("listing a tenant's keys needs the admin scope: %w", schema.ErrForbidden)
	case !p.Has(schema.ScopeOperator):
		return p, schema.ErrNotFound
	}
	if _, err := s.Tenants.Tenant(ctx, tenant); err != nil {
		return p, err
	}
	p.Tenant = tenant
	return p, nil
}
