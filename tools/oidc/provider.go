package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// user is a user of the file.
type user struct {
	ID       string   `json:"id"`
	Username string   `json:"username"`
	Password string   `json:"password"`
	Name     string   `json:"name"`
	Groups   []string `json:"groups"`
	// Where says which of "id_token" and "userinfo" lists the groups; empty: both.
	Where string `json:"where"`
	// Audience replaces the client in the ID token.
	Audience string `json:"audience"`
}

// users reads the file on every request, so that tests may change it.
type users struct{ path string }

func (u users) all() []user {
	data, err := os.ReadFile(u.path)
	var all []user
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		slog.Error("cannot read the users", "file", u.path, "error", err)
	}
	return all
}

func (u users) find(is func(user) bool) *user {
	for _, one := range u.all() {
		if is(one) {
			return &one
		}
	}
	return nil
}

// GetUserByID implements storage.UserStore.
func (u users) GetUserByID(id string) *storage.User {
	return u.find(func(x user) bool { return x.ID == id }).stored()
}

// GetUserByUsername implements storage.UserStore.
func (u users) GetUserByUsername(name string) *storage.User {
	return u.find(func(x user) bool { return x.Username == name }).stored()
}

// ExampleClientID implements storage.UserStore.
func (users) ExampleClientID() string { return "none" }

func (u *user) stored() *storage.User {
	if u == nil {
		return nil
	}
	return &storage.User{ID: u.ID, Username: u.Username, Password: u.Password, FirstName: u.Name}
}

// kept is the library's storage with groups of users.
type kept struct {
	*storage.Storage
	users    users
	redirect string
}

func (k kept) groups(info *oidc.UserInfo, id, where string) {
	u := k.users.find(func(x user) bool { return x.ID == id })
	if u != nil && u.Groups != nil && (u.Where == "" || u.Where == where) {
		info.AppendClaims("groups", u.Groups)
	}
}

// SetUserinfoFromRequest sets the claims of the ID token.
func (k kept) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, r op.IDTokenRequest, scopes []string) error {
	if err := k.Storage.SetUserinfoFromRequest(ctx, info, r, scopes); err != nil {
		return err
	}
	k.groups(info, r.GetSubject(), "id_token")
	return nil
}

// SetUserinfoFromToken sets the claims of the user info.
func (k kept) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	if err := k.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin); err != nil {
		return err
	}
	k.groups(info, subject, "userinfo")
	if u := k.users.find(func(x user) bool { return x.ID == subject }); u != nil {
		info.Name = u.Name
	}
	return nil
}

// elsewhere is a sign-in whose ID token is issued for another client.
type elsewhere struct {
	op.AuthRequest
	audience string
	checked  bool // the client's code has been exchanged; the ID token is created next
}

// GetAudience implements op.AuthRequest.
func (e *elsewhere) GetAudience() []string { return []string{e.audience} }

// GetClientID implements op.AuthRequest.
func (e *elsewhere) GetClientID() string {
	if e.checked {
		return e.audience
	}
	return e.AuthRequest.GetClientID()
}

// CreateAccessToken implements op.Storage. It is called before the ID token is created.
func (k kept) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	if e, ok := r.(*elsewhere); ok {
		e.checked = true
		r = e.AuthRequest
	}
	return k.Storage.CreateAccessToken(ctx, r)
}

// AuthRequestByCode implements op.Storage.
func (k kept) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	r, err := k.Storage.AuthRequestByCode(ctx, code)
	if err != nil {
		return nil, err
	}
	if u := k.users.find(func(x user) bool { return x.ID == r.GetSubject() }); u != nil && u.Audience != "" {
		return &elsewhere{AuthRequest: r, audience: u.Audience}, nil
	}
	return r, nil
}

// GetPrivateClaimsFromScopes sets the claims of access tokens that are JWTs.
func (k kept) GetPrivateClaimsFromScopes(_ context.Context, subject, _ string, _ []string) (map[string]any, error) {
	u := k.users.find(func(x user) bool { return x.ID == subject })
	if u == nil {
		return nil, nil
	}
	return map[string]any{"name": u.Name, "groups": u.Groups}, nil
}

// assistant is the client that acts for people with access tokens. These are JWTs with the client
// as audience.
const assistant = "assistant"

// client allows redirects to any address that matches a pattern.
type client struct {
	op.Client
	redirect string
}

// AccessTokenType implements op.Client.
func (c client) AccessTokenType() op.AccessTokenType {
	if c.GetID() == assistant {
		return op.AccessTokenTypeJWT
	}
	return c.Client.AccessTokenType()
}

// RedirectURIGlobs implements op.HasRedirectGlobs.
func (c client) RedirectURIGlobs() []string { return []string{c.redirect} }

// PostLogoutRedirectURIGlobs implements op.HasRedirectGlobs.
func (client) PostLogoutRedirectURIGlobs() []string { return nil }

// GetClientByClientID implements op.Storage.
func (k kept) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := k.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c, k.redirect}, nil
}

func provider(o options) http.Handler {
	const nowhere = "http://127.0.0.1:9/callback"
	storage.RegisterClients(storage.WebClient(o.client, o.secret, nowhere), storage.WebClient(assistant, o.secret, nowhere))
	u := users{o.users}
	s := kept{Storage: storage.NewStorage(u), users: u, redirect: o.redirect}
	return exampleop.SetupServer(o.issuer, s, slog.New(slog.DiscardHandler), false)
}
