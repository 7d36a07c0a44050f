package oidc

// This file verifies access tokens of the provider, which programs send for people who authorized
// them (OAuth 2.0; RFC 9068).

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	openid "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/sluice-rag/sluice/schema"
)

// keysAgain is the least time between two requests for the provider's keys: anybody can send a
// token that names an unknown key.
const keysAgain = 5 * time.Second

// Issuer returns the provider's issuer, as configured.
func (p *Provider) Issuer() string { return p.o.Issuer }

// TakesTokens reports whether access tokens are accepted.
func (p *Provider) TakesTokens() bool { return p.o.Audience != "" }

// Token returns the person of an access token, and when it expires. It must be a JWT of this
// provider for the configured audience. ID tokens are refused: they identify a person, and do not
// authorize a program to act for them.
func (p *Provider) Token(ctx context.Context, raw string) (Identity, time.Time, error) {
	provider, err := p.discover(ctx)
	if err != nil {
		return Identity{}, time.Time{}, err
	}
	c, expires, err := p.verifiedToken(ctx, provider, raw)
	if err != nil {
		slog.DebugContext(ctx, "an access token was refused", "issuer", p.o.Issuer, "error", err)
		var expired *openid.TokenExpiredError
		why := strings.TrimPrefix(err.Error(), "oidc: ")
		if errors.As(err, &expired) {
			why = "it has expired"
		}
		return Identity{}, time.Time{}, fmt.Errorf("the access token is not valid: %s: %w", printable(why, 300), schema.ErrUnauthorized)
	}
	who, err := p.identity(openid.ClientContext(ctx, p.client), provider, &oauth2.Token{AccessToken: raw, TokenType: "Bearer"}, c)
	return who, expires, err
}

func (p *Provider) verifiedToken(ctx context.Context, provider *openid.Provider, raw string) (claims, time.Time, error) {
	keys, err := p.keysOf(provider)
	if err != nil {
		return claims{}, time.Time{}, err
	}
	var known struct {
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := provider.Claims(&known); err != nil {
		return claims{}, time.Time{}, err
	}
	token, err := openid.NewVerifier(p.o.Issuer, keys, &openid.Config{ClientID: p.o.Audience, Now: p.late, SupportedSigningAlgs: signed(known.Algorithms)}).Verify(ctx, raw)
	if err != nil {
		return claims{}, time.Time{}, err
	}
	c, err := p.claimsOf(token)
	if err != nil {
		return claims{}, time.Time{}, err
	}
	for _, name := range []string{"nonce", "at_hash", "c_hash"} {
		if _, ok := c.all[name]; ok {
			return claims{}, time.Time{}, errors.New("it is an ID token")
		}
	}
	return c, token.Expiry, nil
}

// signed returns the asymmetric ones of the algorithms, whose private key only the provider has, or
// RS256 if there is none.
func signed(algorithms []string) []string {
	out := []string{}
	for _, a := range algorithms {
		if strings.HasPrefix(a, "RS") || strings.HasPrefix(a, "PS") || strings.HasPrefix(a, "ES") || a == openid.EdDSA {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		out = append(out, openid.RS256)
	}
	return out
}

// keysOf returns the provider's keys, which are fetched when a token names an unknown one.
func (p *Provider) keysOf(provider *openid.Provider) (openid.KeySet, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys != nil {
		return p.keys, nil
	}
	var where struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&where); err != nil || where.Keys == "" {
		return nil, fmt.Errorf("%s does not give the address of its keys (jwks_uri): %w", p.o.Name, errors.Join(err, schema.ErrProvider))
	}
	client := *p.client
	client.Transport = &throttledTransport{next: p.client.Transport, now: p.o.Now}
	p.keys = openid.NewRemoteKeySet(openid.ClientContext(context.Background(), &client), where.Keys)
	return p.keys, nil
}

// throttledTransport refuses requests that come within keysAgain of another.
type throttledTransport struct {
	next http.RoundTripper
	now  func() time.Time

	mu   sync.Mutex
	last time.Time
}

// RoundTrip implements http.RoundTripper.
func (s *throttledTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	now := s.now()
	since := now.Sub(s.last)
	soon := since >= 0 && since < keysAgain
	if !soon {
		s.last = now
	}
	s.mu.Unlock()
	if soon {
		return nil, errors.New("its key is not among the provider's keys, which were fetched just now")
	}
	return s.next.RoundTrip(r)
}
