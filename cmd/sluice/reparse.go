package main

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
)

type collectionsReparse struct {
	remote
	Name   string `arg:"" help:"Name or id."`
	Wait   bool   `help:"Wait until it is done."`
	Status bool   `xor:"do" help:"Show the newest run and begin none."`
	Cancel bool   `xor:"do" help:"Stop the run that is under way; documents that are queued are still written."`
}

func (b *collectionsReparse) Run(ctx context.Context) error {
	c, err := b.client()
	if err != nil {
		return err
	}
	var r schema.Reparse
	switch {
	case b.Cancel:
		r, err = c.CancelReparse(ctx, b.Name)
	case b.Status:
		r, err = c.Reparse(ctx, b.Name)
	default:
		r, err = c.StartReparse(ctx, b.Name)
	}
	if err == nil && b.Wait {
		r, err = b.wait(ctx, c, r)
	}
	if err != nil {
		return err
	}
	if b.JSON {
		return printJSON(r)
	}
	fmt.Println(reparseText(r))
	for _, f := range r.Failures {
		fmt.Printf("%s keeps its text: %s: %s\n", f.ExternalID, f.Reason.Code, f.Reason.Message)
	}
	if more := r.Failed - len(r.Failures); more > 0 {
		fmt.Printf("and %d more\n", more)
	}
	return nil
}

// wait polls the run until it has ended.
func (b *collectionsReparse) wait(ctx context.Context, c *apiclient.Client, r schema.Reparse) (schema.Reparse, error) {
	return follow(ctx, r, followedRun[schema.Reparse]{
		quiet:   b.JSON,
		number:  func(r schema.Reparse) int { return r.Number },
		running: func(r schema.Reparse) bool { return r.State == schema.ReparseRunning },
		text:    reparseText,
		poll:    func(ctx context.Context) (schema.Reparse, error) { return c.Reparse(ctx, b.Name) },
		other:   func(n int) string { return fmt.Sprintf("another run, %d,", n) },
	})
}

func reparseText(r schema.Reparse) string {
	return fmt.Sprintf("%s, %d of %d documents: %d unchanged, %d changed, %d being written, %d failed",
		r.State, r.Unchanged+r.Changed+r.Writing+r.Failed, r.Total, r.Unchanged, r.Changed, r.Writing, r.Failed)
}
