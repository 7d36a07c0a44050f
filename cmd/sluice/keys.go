package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type keysCommand struct {
	List   keysList   `cmd:"" default:"withargs" help:"List API keys."`
	Create keysCreate `cmd:"" help:"Create an API key; prints it once."`
	Rotate keysRotate `cmd:"" help:"Create a key in place of another, which stays good for a while."`
	Revoke keysRevoke `cmd:"" help:"Revoke an API key."`
}

// tenantFlag selects the tenant whose keys a command works on.
type tenantFlag struct {
	Tenant string `placeholder:"ID" help:"Another tenant's, by its id; needs an operator's key."`
}

// id returns the tenant's id; uuid.Nil is the tenant of the key in use.
func (o tenantFlag) id() (uuid.UUID, error) {
	if o.Tenant == "" {
		return uuid.Nil, nil
	}
	return schema.ParseID("tenant", o.Tenant)
}

type keysList struct {
	remote
	tenantFlag
}

func (l *keysList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	tenant, err := l.id()
	if err != nil {
		return err
	}
	keys := c.Keys(ctx)
	if tenant != uuid.Nil {
		keys = c.TenantKeys(ctx, tenant)
	}
	return printList(l.JSON, keys, "ID KIND PREFIX SCOPES STATE USED NAME", func(k api.Key) []any {
		state := "active"
		switch {
		case k.RevokedAt != nil:
			state = "revoked"
		case k.ExpiresAt != nil && k.ExpiresAt.Before(time.Now()):
			state = "expired"
		}
		used := "never"
		if k.LastUsedAt != nil {
			used = k.LastUsedAt.Local().Format(time.DateTime)
		}
		return []any{k.ID, k.Kind, cmp.Or(k.Prefix, "-"), shownScopes(k), state, used, k.Name}
	})
}

// shownScopes formats a key's scopes in the tenant, and its scopes in collections after their
// names.
func shownScopes(k api.Key) string {
	var out []string
	if len(k.Scopes) > 0 || len(k.Collections) == 0 {
		out = append(out, fmt.Sprint(k.Scopes))
	}
	for _, c := range k.Collections {
		out = append(out, c.Name+fmt.Sprint(c.Scopes))
	}
	return strings.Join(out, ",")
}

type keysCreate struct {
	remote
	Name       string         `arg:"" help:"What it is for."`
	Scope      []schema.Scope `short:"s" default:"query" help:"admin, curate, ingest, query, impersonate or, with an operator's key, operator; may be repeated."`
	Group      []string       `short:"g" help:"Groups whose labelled documents it sees; may be repeated."`
	Collection []string       `placeholder:"NAME" help:"Collections that it is held to, with the scopes query, ingest and curate; may be repeated. The whole tenant without."`
	From       []string       `placeholder:"RANGE" help:"Addresses from which it may be used, as 203.0.113.7 or 10.1.0.0/16; may be repeated. From everywhere without."`
	Expires    time.Duration  `help:"How long it lasts, e.g. 720h; for ever when 0."`
}

func (n *keysCreate) Run(ctx context.Context) error {
	c, err := n.client()
	if err != nil {
		return err
	}
	key := api.NewKey{Name: n.Name, Scopes: n.Scope, Groups: n.Group, Collections: n.Collection, Addresses: n.From}
	if n.Expires > 0 {
		at := time.Now().Add(n.Expires)
		key.ExpiresAt = &at
	}
	created, err := c.CreateKey(ctx, key)
	if err != nil {
		return err
	}
	if n.JSON {
		return printJSON(created)
	}
	fmt.Printf("%s  %s\n%s\nIt is not shown again.\n", created.ID, created.Name, created.APIKey)
	return nil
}

type keysRevoke struct {
	remote
	tenantFlag
	Key string `arg:"" help:"The key's id."`
}

func (r *keysRevoke) Run(ctx context.Context) error {
	c, err := r.client()
	if err != nil {
		return err
	}
	id, err := schema.ParseID("key", r.Key)
	if err != nil {
		return err
	}
	tenant, err := r.id()
	if err != nil {
		return err
	}
	if tenant == uuid.Nil {
		err = c.RevokeKey(ctx, id)
	} else {
		err = c.RevokeTenantKey(ctx, tenant, id)
	}
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(map[string]any{"id": id, "revoked": true})
	}
	fmt.Println("revoked " + id.String())
	return nil
}
