package oidc

// This file verifies and reads what the provider says of a person who signed in.

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	openid "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/sluice-rag/sluice/schema"
)

const (
	maxName    = 128  // bytes of a person's name
	maxSubject = 1024 // bytes of issuer and id
)

// Identity is the person who signed in.
type Identity struct {
	Subject string // issuer, "|", and the person's id there
	Name    string
	Groups  []string

	ReturnTo string // as in Begin
	Tenant   string
}

var errNotBegun = fmt.Errorf("no sign-in is in progress in this browser, or it took longer than %s; sign in again: %w", SignInTime, schema.ErrUnauthorized)

// Complete reads the parameters with which the provider sent the browser back, and returns who
// signed in. kept is what Begin returned for the browser.
func (p *Provider) Complete(ctx context.Context, kept string, answer url.Values) (Identity, error) {
	text, err := p.o.Seals.Open(kept)
	if err != nil {
		return Identity{}, errNotBegun
	}
	var w underWay
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return Identity{}, errNotBegun
	}
	if subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(w.State)) != 1 {
		return Identity{}, fmt.Errorf("the answer does not belong to the sign-in in progress in this browser (its state differs); "+
			"sign in again: %w", schema.ErrUnauthorized)
	}
	if iss := answer.Get("iss"); iss != "" && iss != p.o.Issuer { // RFC 9207
		return Identity{}, fmt.Errorf("the answer comes from another provider: %w", schema.ErrUnauthorized)
	}
	if code := answer.Get("error"); code != "" {
		said := printable(code, 64)
		if more := printable(answer.Get("error_description"), 200); more != "" {
			said += ": " + more
		}
		return Identity{}, fmt.Errorf("%s did not sign you in: %s: %w", p.o.Name, said, schema.ErrForbidden)
	}
	if answer.Get("code") == "" {
		return Identity{}, fmt.Errorf("the answer of %s has no code; sign in again: %w", p.o.Name, schema.ErrUnauthorized)
	}
	provider, err := p.discover(ctx)
	if err != nil {
		return Identity{}, err
	}
	ctx = openid.ClientContext(ctx, p.client)
	token, err := p.oauth(provider, w.Redirect).Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(w.Verifier))
	if err != nil {
		return Identity{}, p.refused(ctx, "exchange the code", err)
	}
	c, err := p.verified(ctx, provider, token, w.Nonce)
	if err != nil {
		return Identity{}, err
	}
	who, err := p.identity(ctx, provider, token, c)
	who.ReturnTo, who.Tenant = w.ReturnTo, w.Tenant
	return who, err
}

// claims are the claims of a verified token.
type claims struct {
	issuer, subject string
	all             map[string]json.RawMessage
}

// verified verifies the ID token: its signature, issuer, audience, times and nonce.
func (p *Provider) verified(ctx context.Context, provider *openid.Provider, token *oauth2.Token, nonce string) (claims, error) {
	bad := func(err error) (claims, error) {
		slog.WarnContext(ctx, "an ID token was refused", "issuer", p.o.Issuer, "error", err)
		var expired *openid.TokenExpiredError
		why := strings.TrimPrefix(err.Error(), "oidc: ")
		if errors.As(err, &expired) {
			why = "it has expired; check the clocks of this server and of the provider"
		}
		return claims{}, fmt.Errorf("the ID token of %s is not valid: %s: %w", p.o.Name, printable(why, 300), schema.ErrUnauthorized)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return bad(errors.New("it is missing; check that the client may ask for the scope openid"))
	}
	id, err := provider.Verifier(&openid.Config{ClientID: p.o.ClientID, Now: p.late}).Verify(ctx, raw)
	if err != nil {
		return bad(err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1 {
		return bad(errors.New("its nonce is not that of this sign-in"))
	}
	c, err := p.claimsOf(id)
	if err != nil {
		return bad(err)
	}
	if id.AccessTokenHash != "" {
		if err := id.VerifyAccessToken(token.AccessToken); err != nil {
			return bad(err)
		}
	}
	if party := textClaim(c.all, "azp"); party != "" && party != p.o.ClientID || party == "" && len(id.Audience) > 1 {
		return bad(errors.New("it was issued for another client"))
	}
	return c, nil
}

// late returns a time that lags behind by skew, for checking expiries only.
func (p *Provider) late() time.Time { return p.o.Now().Add(-skew) }

// claimsOf reads the claims of a verified token, and checks those that every token must have.
func (p *Provider) claimsOf(token *openid.IDToken) (claims, error) {
	c := claims{issuer: token.Issuer, subject: token.Subject}
	switch {
	case token.IssuedAt.After(p.o.Now().Add(skew)):
		return c, errors.New("it was issued in the future; check the clocks of this server and of the provider")
	case c.subject == "":
		return c, errors.New("it has no subject (sub)")
	}
	return c, token.Claims(&c.all)
}

// identity returns the person of the claims. If the token has no name or groups, it requests the
// provider's user info.
func (p *Provider) identity(ctx context.Context, provider *openid.Provider, token *oauth2.Token, c claims) (Identity, error) {
	who := Identity{Subject: c.issuer + "|" + c.subject}
	if len(who.Subject) > maxSubject {
		return Identity{}, fmt.Errorf("the id that %s gives this person has more than %d bytes: %w", p.o.Name, maxSubject-len(c.issuer), schema.ErrProvider)
	}
	_, grouped := c.all[p.o.GroupsClaim]
	if who.Name = nameOf(c.all); (who.Name == "" || !grouped) && provider.UserInfoEndpoint() != "" {
		more, err := p.userInfo(ctx, provider, token, c.subject)
		if err != nil {
			return Identity{}, err
		}
		for name, value := range more {
			if _, ok := c.all[name]; !ok {
				c.all[name] = value
			}
		}
		who.Name = nameOf(c.all)
	}
	if who.Name == "" {
		who.Name = printable(c.subject, maxName)
	}
	var err error
	who.Groups, err = groupsOf(c.all[p.o.GroupsClaim])
	if err != nil {
		return Identity{}, fmt.Errorf("the claim %q of %s is neither a text nor a list of texts: %w", p.o.GroupsClaim, p.o.Name, schema.ErrProvider)
	}
	return who, nil
}

func (p *Provider) userInfo(ctx context.Context, provider *openid.Provider, token *oauth2.Token, subject string) (map[string]json.RawMessage, error) {
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, p.refused(ctx, "ask for user info", err)
	}
	if info.Subject != subject {
		return nil, fmt.Errorf("the user info of %s is about another person than the one who signed in: %w", p.o.Name, schema.ErrUnauthorized)
	}
	var all map[string]json.RawMessage
	if err := info.Claims(&all); err != nil {
		return nil, p.refused(ctx, "read user info", err)
	}
	return all, nil
}

// nameOf returns the person's name from the claims; empty: there is none.
func nameOf(all map[string]json.RawMessage) string {
	for _, claim := range []string{"name", "preferred_username", "nickname", "given_name"} {
		if name := printable(strings.TrimSpace(textClaim(all, claim)), maxName); name != "" {
			return name
		}
	}
	return ""
}

// textClaim returns a claim that is a string; empty: it is missing or not a string.
func textClaim(all map[string]json.RawMessage, name string) string {
	var text string
	_ = json.Unmarshal(all[name], &text)
	return text
}

// groupsOf parses a claim of groups, and returns them sorted, without duplicates. Without the claim
// there are no groups.
func groupsOf(claim json.RawMessage) ([]string, error) {
	if len(claim) == 0 || string(claim) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(claim, &one) == nil {
		return []string{one}, nil
	}
	var all []string
	if err := json.Unmarshal(claim, &all); err != nil {
		return nil, err
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
