package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/store/erasures"
)

// tenantsErase connects to the database, because no API key may erase a tenant.
type tenantsErase struct {
	Tenant  string `arg:"" help:"The tenant's name or id."`
	Confirm string `required:"" placeholder:"NAME" help:"The tenant's name again: nothing brings it back but a backup."`
	administrator
	config.Blobs
	JSON bool `help:"Print JSON, for programs."`
}

func (e *tenantsErase) Run(ctx context.Context) error {
	address, err := e.address()
	if err != nil {
		return err
	}
	bucket, err := program.Bucket(e.Blobs)
	if err != nil {
		return err
	}
	options := erasures.Options{URL: address, Progress: printProgress()}
	if bucket != nil {
		options.Objects = bucket
	}
	report, err := erasures.Erase(ctx, e.Tenant, e.Confirm, options)
	if err != nil {
		return err
	}
	if e.JSON {
		return printJSON(report)
	}
	var rows int64
	for _, table := range slices.Sorted(maps.Keys(report.Rows)) {
		fmt.Printf("%10d  %s\n", report.Rows[table], table)
		rows += report.Rows[table]
	}
	fmt.Printf("erased tenant %s (%s): %d rows, %d files in S3, %s of documents\n", printable(report.Name), report.Tenant, rows, report.Objects, bytesText(report.Bytes))
	fmt.Println("Earlier backups still contain it. Restart query-workers and gateways to clear their memory at once.")
	return nil
}
