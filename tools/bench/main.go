// Command bench measures Sluice on this machine against target ratios, and reports bottlenecks.
// Each part is a subcommand: `bench ingest` measures ingestion, `bench all` everything.
// docs/benchmarks.md describes the parts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/alecthomas/kong"
)

type commands struct {
	Ingest      ingestCommand      `cmd:"" help:"Measure ingestion."`
	Coarse      coarseCommand      `cmd:"" help:"Measure search over clusters against ts_rank."`
	Lexical     lexicalCommand     `cmd:"" help:"Measure search over passages, and indexing, against Bleve."`
	Lucene      luceneCommand      `cmd:"" help:"Measure search over passages, and indexing, against Lucene."`
	Weaviate    weaviateCommand    `cmd:"" help:"Measure BM25 searches through the API against a Weaviate server."`
	Fresh       freshCommand       `cmd:"" help:"Measure the time from a commit to the first search that finds it."`
	Segments    segmentsCommand    `cmd:"" help:"Measure searches while segments wait to be merged."`
	Store       storeCommand       `cmd:"" help:"Measure storing documents against COPY."`
	Vectors     vectorsCommand     `cmd:"" help:"Measure vector search in a collection among many."`
	Funnel      funnelCommand      `cmd:"" help:"Measure a funnel against flat retrieval among a million passages."`
	Neighbour   neighbourCommand   `cmd:"" help:"Measure a tenant's searches beside a noisy one's."`
	Callers     callersCommand     `cmd:"" help:"Measure searches of a tenant by how many callers it has."`
	Audit       auditCommand       `cmd:"" help:"Measure what the audit of reads costs a search."`
	Collections collectionsCommand `cmd:"" help:"Measure ingestion into many collections against one."`
	Idle        idleCommand        `cmd:"" help:"Measure what a server with many documents costs while nobody uses it, against an empty one."`
	Workers     workersCommand     `cmd:"" help:"Measure how much more four workers of a stage do than one, beside models that only wait."`
	Models      modelsCommand      `cmd:"" help:"Measure the model server."`
	Scale       scaleCommand       `cmd:"" help:"Load a million passages of a hundred tenants and search them."`
	Second      secondCommand      `cmd:"" help:"Measure what searches find while the second encoder encodes a collection in the background."`

	Answers      answersCommand      `cmd:"" help:"Measure answers: whether they are found, supported, refused and chosen, on questions with known answers."`
	Segmentation segmentationCommand `cmd:"" help:"Measure where texts are cut: Pk and WindowDiff on texts whose segments are known."`

	Ask  askCommand  `cmd:"" hidden:"" help:"Be the process that searches in a measurement."`
	All  allCommand  `cmd:"" help:"Run the parts, one after another, and sum up."`
	NATS natsCommand `cmd:"" name:"nats" hidden:"" help:"Be the NATS server of a measurement."`
}

// errSystem is the error on other systems than Linux.
var errSystem = errors.New("CPU seconds are read from /proc, which only Linux has: run this on Linux (Sluice itself runs here)")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	if runtime.GOOS != "linux" {
		return errSystem
	}
	parser, err := kong.New(&commands{},
		kong.Name("bench"),
		kong.Description("Measure Sluice on this machine."),
		kong.UsageOnError())
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		parser.FatalIfErrorf(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	return command.Run()
}
