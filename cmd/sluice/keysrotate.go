package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type keysRotate struct {
	remote
	Key     string        `arg:"" optional:"" help:"The key's id; the key that asks when absent."`
	Overlap time.Duration `default:"24h" help:"How long the old key stays good, 720h at most; 0 ends it at once."`
}

// Run rotates the key. If the old key is the one that 'sluice up' wrote to the data directory, the
// new key replaces it there.
func (r *keysRotate) Run(ctx context.Context) error {
	if r.Overlap%time.Second != 0 {
		return schema.Invalid("--overlap", "must be whole seconds, e.g. 24h")
	}
	c, err := r.client()
	if err != nil {
		return err
	}
	var id uuid.UUID
	if r.Key != "" {
		if id, err = schema.ParseID("key", r.Key); err != nil {
			return err
		}
	} else {
		me, err := c.WhoAmI(ctx)
		if err != nil {
			return err
		}
		id = me.Key
	}
	saved, is, err := r.savedCredentials(ctx, id)
	if err != nil {
		return err
	}
	overlap := int(r.Overlap / time.Second)
	created, err := c.RotateKey(ctx, id, api.RotateKey{OverlapSeconds: &overlap})
	if err != nil {
		return err
	}
	// Print it before anything else can fail, because it cannot be shown again.
	if r.JSON {
		err = printJSON(created)
	} else {
		fmt.Printf("%s  %s\n%s\nIt is not shown again.\n", created.ID, created.Name, created.APIKey)
	}
	if is {
		saved.APIKey = created.APIKey
		err = errors.Join(err, apiclient.WriteCredentials(saved))
	}
	return err
}

// savedCredentials returns the credentials that 'sluice up' wrote to the data directory, and
// whether their key has this id.
func (r *keysRotate) savedCredentials(ctx context.Context, id uuid.UUID) (apiclient.Credentials, bool, error) {
	data, err := dataDirectory(r.Data)
	if err != nil {
		return apiclient.Credentials{}, false, err
	}
	saved, err := apiclient.ReadCredentials(data)
	if errors.Is(err, fs.ErrNotExist) {
		return saved, false, nil
	}
	if err != nil {
		return saved, false, err
	}
	c, err := apiclient.Trusting(r.APITLSCA, saved.URL, saved.APIKey)
	if err != nil {
		return saved, false, err
	}
	me, err := c.WhoAmI(ctx)
	if err != nil { // the server is stopped, or the key has ended
		return saved, false, nil
	}
	return saved, me.Key == id, nil
}
