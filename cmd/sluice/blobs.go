package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/blobs"
	"github.com/sluice-rag/sluice/schema"
)

type blobsCommand struct {
	Move  blobsMove  `cmd:"" help:"Move the bytes of documents between Postgres and S3, while all goes on; interrupted, it goes on where it was."`
	Check blobsCheck `cmd:"" help:"Read the bytes of all documents, and compare them with their hashes."`
}

// blobsRun is what both commands share. Like the programs, they connect to the database, and work
// on the bytes of all tenants. The database is the one in the settings, or that of a running
// 'sluice up'.
type blobsRun struct {
	config.Database
	config.Blobs
	config.DataDirectory
	JSON bool `help:"Print JSON, for programs."`
}

type blobsMove struct {
	To string `required:"" enum:"postgres,s3" help:"Where to: ${enum}."`
	blobsRun
}

func (m *blobsMove) Run(ctx context.Context) error {
	if m.S3Endpoint == "" {
		return schema.Invalid("SLUICE_S3_ENDPOINT", "must be set, by its flag, in the environment or in sluice.yaml")
	}
	return m.run(ctx, "moved to "+m.To, func(ctx context.Context, s *blobs.BlobStore, r *blobs.Run) (blobs.Tally, error) {
		return s.Move(ctx, m.To == "s3", r)
	})
}

type blobsCheck struct{ blobsRun }

func (c *blobsCheck) Run(ctx context.Context) error {
	return c.run(ctx, "identical to what was uploaded", func(ctx context.Context, s *blobs.BlobStore, r *blobs.Run) (blobs.Tally, error) {
		return s.Check(ctx, r)
	})
}

// database returns the address of the database.
func (b *blobsRun) database() (string, error) {
	if b.DatabaseURL != "" {
		return b.DatabaseURL, nil
	}
	data, err := dataDirectory(b.Data)
	if err != nil {
		return "", err
	}
	address, err := local.RunningPostgresURL(filepath.Join(data, "postgres"))
	if err != nil {
		return "", fmt.Errorf("set SLUICE_DATABASE_URL, or start 'sluice up' (SLUICE_DATA names its directory): %w", err)
	}
	return address, nil
}

// blobsConnections is the maximum number of connections to the database.
const blobsConnections = 8

// progressInterval is the minimum time between two lines of progress.
const progressInterval = 2 * time.Second

func (b *blobsRun) run(ctx context.Context, done string, do func(context.Context, *blobs.BlobStore, *blobs.Run) (blobs.Tally, error)) error {
	address, err := b.database()
	if err != nil {
		return err
	}
	options, err := program.WithBlobs(store.Options{Name: "sluice blobs", MaxConns: blobsConnections, Lane: store.Batch, Pooled: b.DatabasePooled, DirectURL: b.DatabaseDirectURL}, b.Blobs)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, address, options)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.CheckSchema(ctx); err != nil {
		return err
	}
	damaged := []string{}
	lastPrinted := time.Now()
	seen, err := do(ctx, blobs.New(db), &blobs.Run{
		Damage: func(d *store.DamagedError) {
			damaged = append(damaged, d.Error())
			fmt.Fprintln(os.Stderr, "sluice:", d)
		},
		Progress: func(p blobs.Tally) {
			if time.Since(lastPrinted) < progressInterval {
				return
			}
			lastPrinted = time.Now()
			fmt.Fprintf(os.Stderr, "%d of %d files, %s of %s\n", p.Blobs, p.AllBlobs, bytesText(p.Bytes), bytesText(p.AllBytes))
		},
	})
	if b.JSON {
		if err := printJSON(struct {
			Files   int64    `json:"files"`
			Bytes   int64    `json:"bytes"`
			Of      int64    `json:"of_files"`
			Damaged []string `json:"damaged"`
		}{seen.Blobs, seen.Bytes, seen.AllBlobs, damaged}); err != nil {
			return err
		}
	} else {
		fmt.Printf("%d of %d files, %s, are %s\n", seen.Blobs, seen.AllBlobs, bytesText(seen.Bytes), done)
	}
	if err != nil {
		return fmt.Errorf("not finished; run the command again to continue: %w", err)
	}
	if seen.Damaged > 0 {
		return errSilent
	}
	return nil
}
