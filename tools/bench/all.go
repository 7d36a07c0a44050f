package main

// This file runs several parts one after another.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type allCommand struct {
	Docs  string `placeholder:"FOLDER" help:"Texts to measure with, as the parts take them; made ones when empty."`
	Quick bool   `help:"Only those that take a minute or two."`
	JSON  string `placeholder:"FILE" help:"Write the findings there too, as JSON; those of ingestion beside it."`
}

// Names of the parts in the order in which they run.
var (
	quickParts = []string{"ingest", "store", "segments", "fresh"}
	slowParts  = []string{"coarse", "lexical", "vectors", "models", "neighbour", "callers", "audit", "collections", "workers", "scale", "idle"}
)

// finding is a part of the benchmark.
type finding interface {
	findings(ctx context.Context) (*findings, error)
}

func (c *storeCommand) findings(ctx context.Context) (*findings, error) {
	return c.find(ctx, "store", c.measure)
}
func (c *segmentsCommand) findings(ctx context.Context) (*findings, error) {
	return c.find(ctx, "segments", c.measure)
}
func (c *freshCommand) findings(ctx context.Context) (*findings, error) {
	return c.find(ctx, "fresh", c.measure)
}
func (c *coarseCommand) findings(ctx context.Context) (*findings, error) {
	return c.find(ctx, "coarse", c.measure)
}
func (c *lexicalCommand) findings(ctx context.Context) (*findings, error) {
	return c.find(ctx, "lexical", c.measure)
}
func (c *vectorsCommand) findings(ctx context.Context) (*findings, error) {
	return c.find(ctx, "vectors", c.measure)
}
func (c *scaleCommand) findings(ctx context.Context) (*findings, error) {
	return c.find(ctx, "scale", c.measure)
}
func (c *funnelCommand) findings(ctx context.Context) (*findings, error) {
	return c.find(ctx, "funnel", c.measure)
}
func (c *neighbourCommand) findings(ctx context.Context) (*findings, error) { return c.find(ctx) }

// Run runs all parts, even if some fail, and prints a summary.
func (c *allCommand) Run(ctx context.Context) error {
	var found []*findings
	var errs []error
	names := quickParts
	if !c.Quick {
		names = slices.Concat(quickParts, slowParts)
		if c.Docs != "" { // it needs a dataset's questions
			names = append(names, "funnel")
		}
	}
	for _, name := range names {
		f, err := c.part(ctx, name)
		if f != nil {
			found = append(found, f)
			if err := report("", f); err != nil {
				return err
			}
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", name, err)
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
	sum := &findings{Part: "all", Corpus: strings.Join(names, ", ")}
	for _, f := range found {
		for _, r := range f.Ratios {
			r.What = f.Part + ": " + r.What
			sum.compare(r)
		}
	}
	if err := sum.print(os.Stdout); err != nil {
		return err
	}
	if c.JSON != "" {
		errs = append(errs, writeJSON(c.JSON, found))
	}
	return errors.Join(errs...)
}

// part runs one part with the defaults of its command line.
func (c *allCommand) part(ctx context.Context, name string) (*findings, error) {
	var all commands
	parser, err := kong.New(&all, kong.Name("bench"))
	if err != nil {
		return nil, err
	}
	args := []string{name}
	if c.Docs != "" && !slices.Contains([]string{"neighbour", "callers", "audit", "collections", "workers", "models", "idle"}, name) {
		args = append(args, "--docs", c.Docs)
	}
	if c.JSON != "" && name == "ingest" {
		args = append(args, "--json", c.JSON+".ingest")
	}
	command, err := parser.Parse(args)
	if err != nil {
		return nil, err
	}
	if part, ok := command.Selected().Target.Addr().Interface().(finding); ok {
		return part.findings(ctx)
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return nil, command.Run()
}
