package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/internal/backup"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/store/backups"
)

// tenantsExport connects to the database, because it reads data that the API does not return.
type tenantsExport struct {
	Tenant string `arg:"" help:"The tenant's name or id."`
	Dir    string `arg:"" help:"Where to: a directory that is not there yet, or that of an export that was interrupted."`
	administrator
	config.Blobs
	JSON bool `help:"Print JSON, for programs."`
}

func (e *tenantsExport) Run(ctx context.Context) (err error) {
	from, err := e.source(ctx, e.Blobs, backups.SourceOptions{Tenant: e.Tenant})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close(context.WithoutCancel(ctx))) }()
	m, err := backup.Create(ctx, e.Dir, version, from, printProgress())
	if err != nil {
		return fmt.Errorf("not exported: %w", err)
	}
	if e.JSON {
		return printJSON(summaryOf(e.Dir, m))
	}
	var rows int64
	for _, t := range m.Tables {
		rows += t.Rows
	}
	fmt.Printf("%s: tenant %s, %s, %s, %s\n", e.Dir, printable(m.Tenant), plural(m.Documents(), "document"), plural(rows, "row"), bytesText(m.Size()))
	fmt.Println("It has the tenant's documents, the hashes of its API keys and the secrets of its webhooks: protect it like the database itself.")
	return nil
}

type tenantsImport struct {
	Dir  string `arg:"" help:"What sluice tenants export wrote."`
	Name string `help:"The tenant's name here; else the one that it had."`
	administrator
	JSON bool `help:"Print JSON, for programs."`
}

func (i *tenantsImport) Run(ctx context.Context) error {
	address, err := i.address()
	if err != nil {
		return err
	}
	progress := printProgress()
	r, err := backup.Import(ctx, i.Dir, backups.NewImporter(backups.ImportOptions{URL: address, Name: i.Name, Progress: progress}), progress)
	if err != nil {
		return err
	}
	if i.JSON {
		return printJSON(r)
	}
	fmt.Printf("imported tenant %s (%s): %d documents, %d rows of %d tables; %d files of %s, identical to what was uploaded\n",
		printable(r.Tenant.Name), r.Tenant.ID, r.Tenant.Documents, r.Rows, r.Tables, r.Files.Files, bytesText(r.Files.Bytes))
	if r.Objects.Files > 0 {
		fmt.Printf("%d of the files, %s, were in S3 and are in the database now; 'sluice blobs move --to s3' moves them there\n", r.Objects.Files, bytesText(r.Objects.Bytes))
	}
	if r.Revoked > 0 {
		fmt.Printf("%d API keys with the scope operator belonged to the other installation and are revoked here\n", r.Revoked)
	}
	return nil
}
