// Command sluice is the command-line tool: it runs everything on one machine, ingests documents,
// and asks questions.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/sluice-rag/sluice/cmd/internal/ingestworker"
	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local"
)

// version is set by the build.
var version = "dev"

type commands struct {
	Up      upCommand      `cmd:"" help:"Run everything on this machine, in the foreground."`
	Serve   serveCommand   `cmd:"" help:"Serve the HTTP API alone."`
	Migrate migrateCommand `cmd:"" help:"Create or update the database's schema."`
	Doctor  doctorCommand  `cmd:"" help:"Check every part and say what to do."`

	Backup  backupCommand  `cmd:"" help:"Back up a whole installation into a directory while it runs, and verify such a directory."`
	Restore restoreCommand `cmd:"" help:"Restore a backup into an empty database."`

	Blobs       blobsCommand       `cmd:"" help:"Move the bytes of documents between Postgres and S3, and check them."`
	AwaitSchema awaitSchemaCommand `cmd:"" name:"await-schema" help:"Wait until the database has a schema that this version works with."`

	NATSConfig natsConfigCommand `cmd:"" name:"nats-config" help:"Write the configuration of a NATS server, and each program's credentials and keys."`

	Ingest ingestCommand `cmd:"" help:"Put documents in: folders, files, globs, BEIR folders."`
	Search searchCommand `cmd:"" help:"Find passages."`
	Ask    askCommand    `cmd:"" help:"Ask a question; get an answer with citations."`
	Chat   chatCommand   `cmd:"" help:"Ask line by line; a question may follow from those before. Ctrl-D ends."`
	Verify verifyCommand `cmd:"" help:"Prove an answer again from the bytes of what it cites, by its signed receipt."`
	MCP    mcpCommand    `cmd:"" name:"mcp" help:"Serve searching, asking and reading to a program over standard input and output (Model Context Protocol)."`
	Eval   evalCommand   `cmd:"" help:"Measure retrieval plans on datasets, side by side."`

	Dataset     datasetCommand     `cmd:"" help:"Make datasets for sluice eval of published ones."`
	Train       trainCommand       `cmd:"" help:"Learn which texts the language model that answers prefers."`
	Questions   questionsCommand   `cmd:"" help:"Import questions with known answers, so that plans learn what the language model knows."`
	Evaluations evaluationsCommand `cmd:"" help:"List, show, compare and delete evaluations that were stored (eval --store)."`
	Ratings     ratingsCommand     `cmd:"" help:"List ratings of answers, give one, and export them as a dataset."`
	Documents   documentsCommand   `cmd:"" help:"List, show, change, retry and delete documents."`
	Overview    overviewCommand    `cmd:"" help:"Show what is in a collection: documents by type, titles, questions that they answer."`
	Plans       plansCommand       `cmd:"" help:"List retrieval plans, and check and keep your own."`
	Models      modelsCommand      `cmd:"" help:"List model packs; add, check and choose one."`
	Jobs        jobsCommand        `cmd:"" help:"List, show and cancel asynchronous questions."`
	Webhooks    webhooksCommand    `cmd:"" help:"Have events sent to servers; list, rotate and remove webhooks, see and repeat deliveries."`
	Sources     sourcesCommand     `cmd:"" help:"Keep collections in step with places: folders, shares, sites; list, preview, run, pause and remove such sources."`
	Access      accessCommand      `cmd:"" help:"Tell who may see a document, and why."`
	Collections collectionsCommand `cmd:"" help:"List, create and delete collections."`
	Tenants     tenantsCommand     `cmd:"" help:"List and create tenants."`
	Keys        keysCommand        `cmd:"" help:"List, create and revoke API keys."`
	Sessions    sessionsCommand    `cmd:"" help:"List and end sessions of people who signed in at a provider."`
	Audit       auditCommand       `cmd:"" help:"List, export and verify the audit log: who read and who changed what."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

// remote has the flags with which a command finds the server.
type remote struct {
	config.Client
	JSON bool `help:"Print JSON, for programs."`
}

func (r remote) client() (*apiclient.Client, error) {
	data, err := dataDirectory(r.Data)
	if err != nil {
		return nil, err
	}
	return apiclient.Find(r.APITLSCA, r.URL, r.APIKey, data)
}

// dataDirectory returns the data directory of 'sluice up': the given one, else the default.
func dataDirectory(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	home, err := local.Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, "data"), nil
}

type versionCommand struct {
	JSON bool `help:"Print JSON, for programs."`
}

func (c *versionCommand) Run() error {
	if c.JSON {
		return printJSON(map[string]string{"version": version})
	}
	fmt.Println("sluice " + version)
	return nil
}

// errSilent ends the program with status 1 without a message; the error has been printed already.
var errSilent = errors.New("")

func main() {
	if ingestworker.RunIfParseChild() {
		return
	}
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, errSilent) {
			fmt.Fprintln(os.Stderr, "sluice: "+err.Error())
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	source, err := config.Read(args)
	if err != nil {
		return err
	}
	for _, warning := range source.Warnings {
		fmt.Fprintln(os.Stderr, "sluice: warning:", warning)
	}
	parser, err := kong.New(&commands{}, source,
		kong.Name("sluice"),
		kong.Description("Ingest documents, search them, and get answers with citations."),
		kong.ShortUsageOnError(),
		kong.Exit(func(code int) { os.Exit(min(code, 1)) }), // all failures exit with 1
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		return err
	}
	command, err := parser.Parse(source.Args)
	if err != nil {
		parser.FatalIfErrorf(err)
	}
	ctx := context.Background()
	if _, long := command.Selected().Target.Addr().Interface().(interface{ handlesSignals() }); !long {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return command.Run()
}
