package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type collectionsCommand struct {
	List      collectionsList      `cmd:"" default:"withargs" help:"List collections."`
	Create    collectionsCreate    `cmd:"" help:"Create a collection."`
	Plan      collectionsPlan      `cmd:"" help:"Show the plan of a collection, or give it one: it runs when a search or a question names none."`
	Rebuild   collectionsRebuild   `cmd:"" help:"Cut, encode and index a collection anew."`
	Reparse   collectionsReparse   `cmd:"" help:"Parse a collection's documents again, from their bytes that are stored."`
	Recluster collectionsRecluster `cmd:"" help:"Cluster a collection anew, from what is stored."`
	Delete    collectionsDelete    `cmd:"" help:"Delete a collection and its documents."`
}

type collectionsList struct{ remote }

func (l *collectionsList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	return printList(l.JSON, c.Collections(ctx), "NAME READY UNFINISHED FAILED SIZE PASSAGES", func(c schema.Collection) []any {
		unfinished := c.Counts[schema.StateReceived] + c.Counts[schema.StateQueued] + c.Counts[schema.StateProcessing]
		return []any{c.Name, c.Counts[schema.StateReady], unfinished, c.Counts[schema.StateFailed], bytesText(c.Bytes), c.Passages}
	})
}

type collectionsCreate struct {
	remote
	Name         string `arg:"" help:"Unique in the tenant."`
	Description  string `help:"For people."`
	Language     string `default:"en" help:"BCP 47."`
	Segmentation string `placeholder:"BY[,SETTING=N]" help:"How sections become passages: segmenter (when left out), similarity, sentences or recursive, and settings, e.g. similarity,threshold=0.5."`
}

// segmentationOf parses a flag; nil if it is empty.
func segmentationOf(flag string) (*schema.Segmentation, error) {
	if flag == "" {
		return nil, nil
	}
	s, err := schema.ParseSegmentation(flag)
	return &s, err
}

func (n *collectionsCreate) Run(ctx context.Context) error {
	segmentation, err := segmentationOf(n.Segmentation)
	if err != nil {
		return err
	}
	c, err := n.client()
	if err != nil {
		return err
	}
	created, err := c.CreateCollection(ctx, api.NewCollection{Name: n.Name, Description: n.Description, Language: n.Language, Segmentation: segmentation})
	if err != nil {
		return err
	}
	if n.JSON {
		return printJSON(created)
	}
	fmt.Println("created " + created.Name)
	return nil
}

type collectionsPlan struct {
	remote
	Name    string `arg:"" help:"Name or id."`
	Plan    string `arg:"" optional:"" xor:"do" help:"The plan that it is to have; shown when left out."`
	Default bool   `xor:"do" help:"Take its plan away: the server's default runs."`
}

func (l *collectionsPlan) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	var have schema.Collection
	if l.Plan != "" || l.Default {
		have, err = c.ChangeCollection(ctx, l.Name, api.CollectionChange{Plan: &l.Plan})
	} else {
		have, err = c.Collection(ctx, l.Name)
	}
	if err != nil {
		return err
	}
	if l.JSON {
		return printJSON(have)
	}
	if have.Plan == "" {
		fmt.Println(printable(have.Name) + " has no plan of its own; the server's default runs")
		return nil
	}
	fmt.Printf("%s: %s\n", printable(have.Name), printable(have.Plan))
	if have.PlanProblem != "" {
		fmt.Println("    " + printable(have.PlanProblem))
	}
	return nil
}

type collectionsDelete struct {
	remote
	Name string `arg:"" help:"Name or id."`
	Yes  bool   `help:"Really."`
}

func (d *collectionsDelete) Run(ctx context.Context) error {
	c, err := d.client()
	if err != nil {
		return err
	}
	if !d.Yes {
		have, err := c.Collection(ctx, d.Name)
		if err != nil {
			return err
		}
		var documents int64
		for _, n := range have.Counts {
			documents += n
		}
		return schema.Invalid("yes", "%s has %s; --yes deletes it with all that is in it", have.Name, plural(documents, "document"))
	}
	if err := c.DeleteCollection(ctx, d.Name); err != nil {
		return err
	}
	if d.JSON {
		return printJSON(map[string]any{"collection": d.Name, "deleted": true})
	}
	fmt.Println("deleted " + d.Name)
	return nil
}

type tenantsCommand struct {
	List    tenantsList    `cmd:"" default:"withargs" help:"List tenants."`
	Create  tenantsCreate  `cmd:"" help:"Create a tenant; prints its first key."`
	Quotas  tenantsQuotas  `cmd:"" help:"Set what a tenant may store."`
	Limits  tenantsLimits  `cmd:"" help:"Set what language models may cost a tenant, and how many calls it may make."`
	Usage   tenantsUsage   `cmd:"" help:"Show what language models cost a tenant."`
	Storage tenantsStorage `cmd:"" help:"Show what a tenant has stored, beside its quotas."`
	Export  tenantsExport  `cmd:"" help:"Write a tenant and all that it has into a directory, for another installation."`
	Import  tenantsImport  `cmd:"" help:"Add an exported tenant to this installation."`
	Erase   tenantsErase   `cmd:"" help:"Remove a tenant and all that it has, from the database and from S3."`
}

type tenantsList struct{ remote }

func (l *tenantsList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	return printList(l.JSON, c.Tenants(ctx), "ID NAME CREATED", func(t api.Tenant) []any {
		return []any{t.ID, t.Name, t.CreatedAt.Local().Format(time.DateTime)}
	})
}

type tenantsCreate struct {
	remote
	Name         string `arg:"" help:"Lower-case letters, digits, dot, dash, underscore."`
	MaxDocuments *int64 `help:"Most documents it may have."`
	MaxBytes     *int64 `help:"Most bytes it may store."`
}

func (n *tenantsCreate) Run(ctx context.Context) error {
	c, err := n.client()
	if err != nil {
		return err
	}
	created, err := c.CreateTenant(ctx, api.NewTenant{Name: n.Name, MaxDocuments: n.MaxDocuments, MaxBytes: n.MaxBytes})
	if err != nil {
		return err
	}
	if n.JSON {
		return printJSON(created)
	}
	fmt.Printf("tenant  %s  %s\nkey     %s\nThe key is not shown again.\n", created.Name, created.ID, created.APIKey)
	return nil
}

type tenantsQuotas struct {
	remote
	Tenant       string `arg:"" help:"The tenant's name or id."`
	MaxDocuments *int64 `help:"Most documents it may have; no limit when left out."`
	MaxBytes     *int64 `help:"Most bytes it may store; no limit when left out."`
}

func (q *tenantsQuotas) Run(ctx context.Context) error {
	c, err := q.client()
	if err != nil {
		return err
	}
	id, err := tenantID(ctx, c, q.Tenant)
	if err != nil {
		return err
	}
	t, err := c.SetQuotas(ctx, id, api.Quotas{MaxDocuments: q.MaxDocuments, MaxBytes: q.MaxBytes})
	if err != nil {
		return err
	}
	if q.JSON {
		return printJSON(t)
	}
	fmt.Printf("tenant %s: %s documents, %s bytes\n", t.Name, limitText(t.MaxDocuments), limitText(t.MaxBytes))
	return nil
}

// tenantID returns the id of a tenant that is given by name or id.
func tenantID(ctx context.Context, c *apiclient.Client, ref string) (uuid.UUID, error) {
	if id, err := uuid.Parse(ref); err == nil {
		return id, nil
	}
	for t, err := range c.Tenants(ctx) {
		if err != nil || t.Name == ref {
			return t.ID, err
		}
	}
	return uuid.Nil, schema.Invalid("tenant", "there is none with the name or id %q; 'sluice tenants list' lists them", ref)
}

type tenantsStorage struct {
	remote
	Tenant string `arg:"" help:"The tenant's name or id."`
}

func (t *tenantsStorage) Run(ctx context.Context) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	id, err := tenantID(ctx, c, t.Tenant)
	if err != nil {
		return err
	}
	has, err := c.Storage(ctx, id)
	if err != nil {
		return err
	}
	if t.JSON {
		return printJSON(has)
	}
	fmt.Printf("%d documents, of %s documents\n%d bytes, of %s bytes\n", has.Documents, limitText(has.MaxDocuments), has.Bytes, limitText(has.MaxBytes))
	return nil
}

func limitText(n *int64) string {
	if n == nil {
		return "any number of"
	}
	return fmt.Sprint("at most ", *n)
}
