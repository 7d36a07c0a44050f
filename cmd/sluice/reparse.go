package main

import (
	"context"
	"fmt"
	"os"
	"time"

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

// wait looks at the run until it has ended.
func (b *collectionsReparse) wait(ctx context.Context, c *apiclient.Client, r schema.Reparse) (schema.Reparse, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for number, said := r.Number, ""; ; {
		if r.Number != number {
			return r, fmt.Errorf("another run, %d, has begun: %w", r.Number, schema.ErrConflict)
		}
		if r.State != schema.ReparseRunning {
			return r, nil
		}
		if text := reparseText(r); text != said && !b.JSON {
			said = text
			fmt.Fprintln(os.Stderr, text)
		}
		select {
		case <-ctx.Done():
			return r, fmt.Errorf("stopped waiting; the server goes on: %w", context.Cause(ctx))
		case <-tick.C:
		}
		var err error
		if r, err = c.Reparse(ctx, b.Name); err != nil {
			return r, err
		}
	}
}

func reparseText(r schema.Reparse) string {
	return fmt.Sprintf("%s, %d of %d documents: %d unchanged, %d changed, %d being written, %d failed",
		r.State, r.Unchanged+r.Changed+r.Writing+r.Failed, r.Total, r.Unchanged, r.Changed, r.Writing, r.Failed)
}
