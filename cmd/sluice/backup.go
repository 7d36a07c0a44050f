package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/internal/backup"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/backups"
	"github.com/sluice-rag/sluice/schema"
)

type backupCommand struct {
	Create backupCreate `cmd:"" default:"withargs" help:"Back up into a directory; one that was interrupted goes on."`
	Verify backupVerify `cmd:"" help:"Compare all files of a backup with their hashes."`
}

// administrator has the address of the database without row-level security: the one in the
// settings, or that of a running 'sluice up'.
type administrator struct {
	config.DatabaseAdmin
	config.DataDirectory
}

func (a *administrator) address() (string, error) {
	if a.DatabaseAdminURL != "" {
		return a.DatabaseAdminURL, nil
	}
	data, err := dataDirectory(a.Data)
	if err != nil {
		return "", err
	}
	address, err := local.RunningPostgresAdminURL(filepath.Join(data, "postgres"))
	if err != nil {
		return "", fmt.Errorf("set %s, or start 'sluice up' (SLUICE_DATA names its directory): %w", backups.AdminSetting, err)
	}
	return address, nil
}

// source opens a snapshot of the database, or of one tenant in it, and of its files in S3. It sets
// the URL and the bucket in o.
func (a *administrator) source(ctx context.Context, files config.Blobs, o backups.SourceOptions) (*backups.Snapshot, error) {
	var err error
	if o.URL, err = a.address(); err != nil {
		return nil, err
	}
	bucket, err := program.Bucket(files)
	if err != nil {
		return nil, err
	}
	if bucket != nil {
		o.Objects = bucket
	}
	return backups.OpenSource(ctx, o)
}

type backupCreate struct {
	Dir  string `arg:"" optional:"" help:"Where to: a directory that is not there yet, or that of a backup that was interrupted."`
	To   string `placeholder:"DIR" help:"The same, as a flag."`
	Jobs int    `default:"2" help:"Tables that are dumped at once."`
	administrator
	config.Blobs
	config.PostgresTools
	JSON bool `help:"Print JSON, for programs."`
}

func (b *backupCreate) Run(ctx context.Context) (err error) {
	dir := b.Dir
	if dir == "" {
		dir = b.To
	}
	if dir == "" || b.Dir != "" && b.To != "" {
		return schema.Invalid("dir", "name one directory for the backup")
	}
	if b.Jobs < 1 || b.Jobs > maxJobs {
		return schema.Invalid("jobs", "%d is not between 1 and %d", b.Jobs, maxJobs)
	}
	from, err := b.source(ctx, b.Blobs, backups.SourceOptions{Tools: findTools(b.PostgresTools.PostgresTools), Jobs: b.Jobs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close(context.WithoutCancel(ctx))) }()
	m, err := backup.Create(ctx, dir, version, from, printProgress())
	if err != nil {
		return fmt.Errorf("not backed up: %w", err)
	}
	return b.print(dir, m)
}

func (b *backupCreate) print(dir string, m backup.Manifest) error {
	if b.JSON {
		return printJSON(summaryOf(dir, m))
	}
	fmt.Printf("%s: %s, %s, %s of %s, in %s\n", dir, plural(len(m.Tenants), "tenant"), plural(m.Documents(), "document"), plural(len(m.Files), "file"), bytesText(m.Size()),
		m.FinishedAt.Sub(m.StartedAt).Round(time.Millisecond))
	fmt.Println("It has the documents, the hashes of API keys and the secrets of webhooks: protect it like the database itself.")
	fmt.Println("It has no files of the data directory: also keep receipt.key and sources.key, " +
		"or the files that SLUICE_RECEIPT_KEY and SLUICE_SOURCES_KEY_FILE name.")
	return nil
}

// backupSummary is what is printed as JSON.
type backupSummary struct {
	Dir       string       `json:"dir"`
	Tenants   int          `json:"tenants"`
	Documents int64        `json:"documents"`
	Files     int          `json:"files"`
	Bytes     int64        `json:"bytes"`
	Objects   backup.Tally `json:"objects"`
	Sluice    string       `json:"sluice"`
	Schema    int64        `json:"schema"`
	Postgres  string       `json:"postgres"`
	At        time.Time    `json:"started_at"`
	Seconds   float64      `json:"seconds"`
}

func summaryOf(dir string, m backup.Manifest) backupSummary {
	return backupSummary{
		Dir: dir, Tenants: len(m.Tenants), Documents: m.Documents(), Files: len(m.Files), Bytes: m.Size(), Objects: m.Objects,
		Sluice: m.Sluice, Schema: m.Schema, Postgres: m.Postgres, At: m.StartedAt, Seconds: m.FinishedAt.Sub(m.StartedAt).Seconds(),
	}
}

// maxJobs is the maximum number of connections to the database.
const maxJobs = 32

// printProgress returns a function that prints progress for people.
func printProgress() func(string) {
	began := time.Now()
	return func(text string) { fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), text) }
}

// findTools returns a function that finds the tools in dir; if dir is empty, everywhere.
func findTools(dir string) backups.FindTools {
	return func(ctx context.Context, minVersion int) (backups.Tools, error) {
		t, err := local.FindPostgresTools(ctx, dir, minVersion)
		return backups.Tools(t), err
	}
}

type backupVerify struct {
	Dir  string `arg:"" help:"The backup."`
	JSON bool   `help:"Print JSON, for programs."`
}

func (v *backupVerify) Run(ctx context.Context) error {
	lastPrinted := time.Now()
	m, err := backup.Verify(ctx, v.Dir, func(done, all backup.Tally) {
		if time.Since(lastPrinted) < progressInterval {
			return
		}
		lastPrinted = time.Now()
		fmt.Fprintf(os.Stderr, "%d of %d files, %s of %s\n", done.Files, all.Files, bytesText(done.Bytes), bytesText(all.Bytes))
	})
	if err != nil {
		return err
	}
	if v.JSON {
		return printJSON(summaryOf(v.Dir, m))
	}
	fmt.Printf("%s is complete: %d files of %s; %d tenants, %d documents at %s, by Sluice %s (schema %d) of PostgreSQL %s\n", v.Dir, len(m.Files), bytesText(m.Size()),
		len(m.Tenants), m.Documents(), m.StartedAt.Format(time.RFC3339), m.Sluice, m.Schema, m.Postgres)
	return nil
}

type restoreCommand struct {
	Dir string `arg:"" help:"The backup."`
	config.Database
	config.DatabaseOwner
	config.DatabaseVectors
	config.Blobs
	config.PostgresTools
	config.DataDirectory
	Jobs int  `default:"2" help:"Tables that are loaded, and indexes that are built, at once."`
	JSON bool `help:"Print JSON, for programs."`
}

func (r *restoreCommand) Run(ctx context.Context) (err error) {
	if r.Jobs < 1 || r.Jobs > maxJobs {
		return schema.Invalid("jobs", "%d is not between 1 and %d", r.Jobs, maxJobs)
	}
	if _, err := backup.Read(r.Dir); err != nil { // check it before a server is started
		return err
	}
	progress := printProgress()
	options := backups.TargetOptions{
		Owner: r.DatabaseOwnerURL, Program: r.ServerURL(), Vectors: r.DatabaseVectorURL,
		Tools: findTools(r.PostgresTools.PostgresTools), Jobs: r.Jobs, Progress: progress,
	}
	if options.Store, err = program.WithBlobs(store.Options{Name: "sluice restore", MaxConns: blobsConnections, Lane: store.Batch}, r.Blobs); err != nil {
		return err
	}
	if r.DatabaseOwnerURL == "" && r.DatabaseURL == "" {
		own, err := r.ownPostgres(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, own.Stop(context.WithoutCancel(ctx))) }()
		options.Owner, options.Program, options.Vectors = own.OwnerURL(local.Database), own.URL(), own.VectorURL(local.Database)
	}
	if err := config.Require([2]string{backups.OwnerSetting, options.Owner}, [2]string{"SLUICE_DATABASE_URL", options.Program}); err != nil {
		return err
	}
	to, err := backups.NewTarget(options)
	if err != nil {
		return err
	}
	defer to.Close()
	report, err := backup.Restore(ctx, r.Dir, to, progress)
	if err != nil {
		return fmt.Errorf("not restored: %w", err)
	}
	if err := r.print(report); err != nil || r.JSON {
		return err
	}
	fmt.Println("Before programs start, copy receipt.key and sources.key of the old installation to where they look for them: " +
		"for 'sluice up', that is its data directory.")
	return nil
}

// ownPostgres starts the Postgres server of a 'sluice up' that is not running.
func (r *restoreCommand) ownPostgres(ctx context.Context) (*local.Postgres, error) {
	data, err := dataDirectory(r.Data)
	if err != nil {
		return nil, err
	}
	p, err := local.StartPostgres(ctx, local.PostgresOptions{Dir: filepath.Join(data, "postgres"), Log: slog.New(slog.DiscardHandler)})
	if errors.Is(err, local.ErrInUse) {
		return nil, fmt.Errorf("'sluice up' runs on %s; restore into a data directory that is not there yet (--data), or name a database (%s, SLUICE_DATABASE_URL): %w",
			data, backups.OwnerSetting, err)
	}
	return p, err
}

func (r *restoreCommand) print(report backup.Restored) error {
	if r.JSON {
		if err := printJSON(report); err != nil {
			return err
		}
	} else {
		fmt.Printf("restored: %d tenants, %d documents; %d rows of %d tables, as many as were backed up; %d files of %s, identical to what was uploaded\n",
			report.Tenants, report.Documents, report.Rows, report.Tables, report.Files.Files, bytesText(report.Files.Bytes))
		if report.Objects.Files > 0 {
			fmt.Printf("%d of the files, %s, were in S3 and have been uploaded again\n", report.Objects.Files, bytesText(report.Objects.Bytes))
		}
	}
	for _, d := range report.Damaged {
		fmt.Fprintln(os.Stderr, "sluice:", d)
	}
	if len(report.Damaged) > 0 {
		return errSilent
	}
	return nil
}
