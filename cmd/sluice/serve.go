package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/cmd/internal/health"
	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/memory"
	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/internal/source/seal"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/internal/telemetry"
	"github.com/sluice-rag/sluice/schema/wire"
)

// grace is how long work in progress may take to finish when the program is told to stop.
const grace = 25 * time.Second

// logging sets the process's logger; logs go to standard error.
func logging(c config.Log) (*slog.Logger, error) {
	log, err := telemetry.NewLogger(os.Stderr, c.LogLevel, c.LogFormat)
	if err != nil {
		return nil, err
	}
	slog.SetDefault(log)
	return log, nil
}

type serveCommand struct {
	config.Database
	config.Blobs
	config.NATS
	config.Signing
	config.Temporal
	config.HTTP
	config.OIDC
	config.Public
	config.Receipts
	config.SourceKeys
	config.Plans
	config.Log
}

// handlesSignals marks the command as handling signals itself: lifecycle.Main does.
func (*serveCommand) handlesSignals() {}

func (c *serveCommand) Run(ctx context.Context) error {
	memory.KeepHeadroom()
	if err := config.Require([2]string{"SLUICE_DATABASE_URL", c.DatabaseURL}, [2]string{"SLUICE_NATS_URL", c.NATSURL}); err != nil {
		return err
	}
	log, err := logging(c.Log)
	if err != nil {
		return err
	}
	observed, err := telemetry.Setup(ctx, "serve", version)
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, lifecycle.Connecting)
	defer cancel()
	options, err := program.WithBlobs(store.Options{
		Name: "sluice serve", MaxConns: c.DatabaseConnections, Pooled: c.DatabasePooled, DirectURL: c.DatabaseDirectURL,
	}, c.Blobs)
	if err != nil {
		return err
	}
	db, err := store.Open(starting, c.DatabaseURL, options)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.CheckSchema(starting); err != nil {
		return err
	}
	nc, err := bus.Connect(starting, bus.Options{URL: c.NATSURL, Name: "sluice serve", Program: wire.ProgramServe, Files: bus.Files(c.NATSFiles)})
	if err != nil {
		return err
	}
	defer nc.Close()
	signer, err := signature.ReadSigner("SLUICE_SIGNING_KEY", c.SigningKey)
	if err != nil {
		return err
	}
	receipts, err := receipt.ReadSigner("SLUICE_RECEIPT_KEY", c.ReceiptKey)
	if err != nil {
		return err
	}
	sealing, err := seal.Read(c.SourcesKeyFile, c.SourcesKey)
	if err != nil {
		return err
	}
	deps := apiserver.Deps{SourceKeys: sealing, Signer: signer, Receipts: receipts, Store: db, NATS: nc, Version: version, Plans: c.Plans, OIDC: c.OIDC, PublicURL: c.PublicURL, Namespace: c.TemporalNamespace}
	if c.TemporalAddress != "" { // the API also works without Temporal
		deps.Temporal, err = durable.Later(program.TemporalOptions(c.Temporal, "sluice serve"))
		if err != nil {
			return err
		}
		defer deps.Temporal.Close()
	}
	server, err := apiserver.New(starting, c.HTTP, deps)
	if err != nil {
		return err
	}
	defer server.Close()
	service := lifecycle.NewGroup("serve", grace, lifecycle.NewResource("telemetry", observed.Start, observed.Stop),
		health.Metrics(c.MetricsListen, observed.Handler(), nil), server)
	return lifecycle.Main(ctx, log, grace, service, func() { log.Info("serving", "url", server.URL(), "docs", server.URL()+"/docs") })
}

// receiptSigner reads the keys of receipts. If no file is named, it uses one in the data directory,
// which is created at the first start.
func receiptSigner(data, file string) (*receipt.Signer, error) {
	if file == "" {
		file = filepath.Join(data, "receipt.key")
		if err := receipt.MakeKey(file); err != nil {
			return nil, err
		}
	}
	return receipt.ReadSigner("SLUICE_RECEIPT_KEY", file)
}

type migrateCommand struct {
	config.Database
	config.DatabaseOwner
	config.DatabaseVectors
	Bootstrap string `placeholder:"TENANT" help:"Also make this tenant and its first key, with all scopes, when there is none; print the key."`
	JSON      bool   `help:"Print JSON, for programs."`
}

func (c *migrateCommand) Run(ctx context.Context) error {
	if err := config.Require([2]string{"SLUICE_DATABASE_OWNER_URL", c.DatabaseOwnerURL}, [2]string{"SLUICE_DATABASE_URL", c.DatabaseURL}); err != nil {
		return err
	}
	if err := store.Migrate(ctx, c.DatabaseOwnerURL, c.ServerURL(), c.DatabaseVectorURL); err != nil {
		return err
	}
	output := struct {
		Migrated bool   `json:"migrated"`
		APIKey   string `json:"api_key,omitempty"`
	}{Migrated: true}
	if c.Bootstrap != "" {
		db, err := store.Open(ctx, c.DatabaseURL, store.Options{
			Name: "sluice migrate", MaxConns: 2, Pooled: c.DatabasePooled, DirectURL: c.DatabaseDirectURL,
		})
		if err != nil {
			return err
		}
		defer db.Close()
		if output.APIKey, _, err = auth.New(tenants.New(db)).EnsureBootstrap(ctx, c.Bootstrap); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(output)
	}
	fmt.Println("the schema is up to date")
	switch {
	case output.APIKey != "":
		fmt.Printf("first key of tenant %s, not shown again: %s\n", c.Bootstrap, output.APIKey)
	case c.Bootstrap != "":
		fmt.Printf("tenant %s has a key already\n", c.Bootstrap)
	}
	return nil
}
