package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type documentsCommand struct {
	List   documentsList   `cmd:"" help:"List documents."`
	Show   documentsShow   `cmd:"" help:"Show a document, its versions and its near-duplicates."`
	Change documentsChange `cmd:"" help:"Change who may see documents, and their metadata."`
	Retry  documentsRetry  `cmd:"" help:"Process failed documents again, as when a limit was raised; a file that was mended is ingested again instead."`
	Delete documentsDelete `cmd:"" help:"Delete documents."`
}

type documentsList struct {
	remote
	Collection string       `required:"" short:"c" help:"Name or id of the collection."`
	State      schema.State `help:"Only those whose newest version is in this state: received, queued, processing, ready, failed, superseded or cancelled." enum:",received,queued,processing,ready,failed,superseded,cancelled" default:""`
	Prefix     string       `help:"Only those whose external id begins so."`
}

func (l *documentsList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	return printList(l.JSON, c.Documents(ctx, l.Collection, l.State, l.Prefix), "ID STATE SIZE PASSAGES DOCUMENT", func(d schema.Document) []any {
		name := d.ExternalID
		if d.Reason != nil {
			name += "  (" + d.Reason.Message + ")"
		}
		return []any{d.ID, d.State, bytesText(d.Bytes), d.Passages, name}
	})
}

// documentArgs are documents named by id, or by external id in a collection.
type documentArgs struct {
	remote
	Documents  []string `arg:"" optional:"" name:"document" help:"Ids, or external ids with --collection."`
	Collection string   `short:"c" help:"Name or id of the collection, for external ids."`
}

// each applies do to every document and reports errors with the document's name. With --json it
// prints the results: of several documents, a list.
func (s documentArgs) each(ctx context.Context, do func(c *apiclient.Client, id uuid.UUID, name string) (any, error)) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	results := []any{}
	failed := false
	for _, name := range s.Documents {
		id, err := findDocument(ctx, c, s.Collection, name)
		var result any
		if err == nil {
			result, err = do(c, id, name)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "sluice: %s: %v\n", printable(name), err)
			failed = true
			continue
		}
		results = append(results, result)
	}
	var printed error
	switch {
	case !s.JSON || failed && len(s.Documents) == 1:
	case len(s.Documents) == 1:
		printed = printJSON(results[0])
	default:
		printed = printJSON(results)
	}
	if printed != nil {
		return printed
	}
	if failed {
		return errSilent
	}
	return nil
}

// findDocument returns the id of a document that is named by id, or by external id in a collection.
func findDocument(ctx context.Context, c *apiclient.Client, collection, name string) (uuid.UUID, error) {
	if id, err := uuid.Parse(name); err == nil && collection == "" {
		return id, nil
	}
	if collection == "" {
		return uuid.Nil, schema.Invalid("document", "is not an id; name its --collection to use its external id")
	}
	d, err := c.DocumentNamed(ctx, collection, name)
	if err == nil {
		return d.ID, nil
	}
	if id, malformed := uuid.Parse(name); malformed == nil && errors.Is(err, schema.ErrNotFound) {
		return id, nil
	}
	return uuid.Nil, err
}

type documentsShow struct{ documentArgs }

func (s *documentsShow) Run(ctx context.Context) error {
	if len(s.Documents) == 0 {
		return schema.Invalid("document", "name at least one")
	}
	return s.each(ctx, func(c *apiclient.Client, id uuid.UUID, _ string) (any, error) {
		d, err := c.Document(ctx, id)
		if err != nil || s.JSON {
			return d, err
		}
		fmt.Printf("%s  %s\n", d.ID, printable(d.ExternalID))
		if d.Title != "" {
			fmt.Printf("  title %s\n", printable(d.Title))
		}
		fmt.Printf("  %s, %s, %s, %s\n", d.MediaType, bytesText(d.Bytes), plural(d.Sections, "section"), plural(d.Passages, "passage"))
		if len(d.Labels) > 0 {
			fmt.Printf("  labels %v\n", d.Labels)
		}
		if len(d.Metadata) > 0 {
			fmt.Printf("  metadata %s\n", printable(metadataText(d.Metadata)))
		}
		for _, v := range d.Versions {
			fmt.Printf("  version %d  %-10s  attempt %d  %s\n", v.Number, v.State, v.Attempt, v.CreatedAt.Local().Format(time.DateTime))
			if v.Reason != nil {
				fmt.Printf("      %s: %s\n", v.Reason.Code, printable(v.Reason.Message))
			}
		}
		printNearDuplicates(d.Document)
		return d, nil
	})
}

// metadataText formats metadata as --metadata takes it.
func metadataText(m schema.Metadata) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value, err := json.Marshal(m[key])
		if text, ok := m[key].(string); ok || err != nil {
			value = []byte(text)
		}
		out = append(out, key+"="+string(value))
	}
	return strings.Join(out, " ")
}

func printNearDuplicates(d schema.Document) {
	if d.NotCompared != "" {
		fmt.Printf("  not compared with other documents: %s\n", d.NotCompared)
	}
	for _, n := range d.NearDuplicates {
		age := "older"
		if n.Newer {
			age = "newer"
		}
		fmt.Printf("  near-duplicate %s  %s  similarity %.2f, %s by %s\n", n.ID, printable(n.ExternalID), n.Similarity, age, n.By)
	}
}

type documentsChange struct {
	documentArgs
	Label    []string `short:"l" xor:"labels" sep:"none" help:"Who may see them, in place of the labels before: keys with this group; may be repeated."`
	Open     bool     `xor:"labels" help:"Take their labels away: everyone in the tenant may see them."`
	Metadata []string `short:"m" sep:"none" placeholder:"KEY=VALUE" help:"Metadata in place of those before; may be repeated."`
}

func (d *documentsChange) Run(ctx context.Context) error {
	if len(d.Documents) == 0 {
		return schema.Invalid("document", "name at least one")
	}
	var change api.DocumentChange
	if d.Open || len(d.Label) > 0 {
		labels := append([]string{}, d.Label...)
		change.Labels = &labels
	}
	if len(d.Metadata) > 0 {
		metadata, err := parseMetadata(d.Metadata)
		if err != nil {
			return err
		}
		change.Metadata = &metadata
	}
	if change == (api.DocumentChange{}) {
		return schema.Invalid("label", "say what changes: --label, --open or --metadata")
	}
	return d.each(ctx, func(c *apiclient.Client, id uuid.UUID, name string) (any, error) {
		changed, err := c.ChangeDocument(ctx, id, change)
		if err == nil && !d.JSON {
			fmt.Printf("changed  %s\n", printable(name))
		}
		return changed, err
	})
}

type documentsRetry struct {
	documentArgs
	Failed bool `help:"Every failed document of the collection."`
}

func (r *documentsRetry) Run(ctx context.Context) error {
	if r.Failed == (len(r.Documents) > 0) {
		return schema.Invalid("document", "name documents, or --failed with a --collection")
	}
	if r.Failed {
		if r.Collection == "" {
			return schema.Invalid("collection", "--failed needs a --collection")
		}
		c, err := r.client()
		if err != nil {
			return err
		}
		done, err := c.RetryCollection(ctx, r.Collection)
		if err != nil {
			return err
		}
		if r.JSON {
			return printJSON(done)
		}
		fmt.Printf("queued again: %s\n", plural(done.Queued, "document"))
		return nil
	}
	return r.each(ctx, func(c *apiclient.Client, id uuid.UUID, name string) (any, error) {
		d, err := c.RetryDocument(ctx, id)
		if err == nil && !r.JSON {
			fmt.Printf("%s  %s\n", d.State, printable(name))
		}
		return d, err
	})
}

type documentsDelete struct{ documentArgs }

func (r *documentsDelete) Run(ctx context.Context) error {
	if len(r.Documents) == 0 {
		return schema.Invalid("document", "name at least one")
	}
	return r.each(ctx, func(c *apiclient.Client, id uuid.UUID, name string) (any, error) {
		if err := c.DeleteDocument(ctx, id); err != nil {
			return nil, err
		}
		if !r.JSON {
			fmt.Printf("deleted  %s\n", printable(name))
		}
		return map[string]any{"id": id, "document": name, "deleted": true}, nil
	})
}
