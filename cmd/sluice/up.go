package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/memory"
	"github.com/sluice-rag/sluice/internal/telemetry"
)

// upCommand runs everything on one machine. A database, NATS or Temporal in the settings is used;
// otherwise it is started, with its data under --data.
type upCommand struct {
	config.DataDirectory
	JSON bool `help:"Print one line of JSON when ready, for programs."`

	config.LocalPostgres
	config.Disk
	config.Database
	config.DatabaseReplica
	config.DatabaseOwner
	config.DatabaseVectors
	config.Blobs
	config.NATS
	config.Signatures
	config.Temporal
	config.Streams
	config.HTTP
	config.OIDC
	config.Public
	config.Receipts
	config.Synchronisation
	config.SourceKeys
	config.Ingest
	config.Retention
	config.Parse
	config.Answering
	config.Webhooks
	config.LLM
	config.Model
	config.SecondEncoder
	config.Log `set:"log_level=warn"`
}

// tenantName is the name of the tenant that `sluice up` creates.
const tenantName = "default"

// serversGrace is how long Postgres, NATS and Temporal may take to stop after the workers have. It
// does not depend on how long those took, because a Postgres that is killed has to recover at the
// next start.
const serversGrace = 20 * time.Second

// handlesSignals marks the command as handling signals itself: lifecycle.Main does.
func (*upCommand) handlesSignals() {}

func (c *upCommand) Run(ctx context.Context) error {
	memory.KeepHeadroom()
	u, service, err := c.service(ctx, "up")
	if err != nil {
		return err
	}
	defer heapProfiles(filepath.Join(c.Data, "profiles"), u.log)()
	err = lifecycle.Main(ctx, u.log, grace+serversGrace, service, func() { u.announce() })
	if errors.Is(err, local.ErrInUse) {
		return fmt.Errorf("'sluice up' runs with its data in %s already; stop it, or name another --data: %w", c.Data, err)
	}
	return err
}

// service returns the system with these settings. name is its name in traces.
func (c *upCommand) service(ctx context.Context, name string) (*system, lifecycle.Service, error) {
	log, err := logging(c.Log)
	if err != nil {
		return nil, nil, err
	}
	if c.Data, err = dataDirectory(c.Data); err != nil {
		return nil, nil, fmt.Errorf("data directory: %w", err)
	}
	// If this process is root, Postgres runs as another user, which must be able to enter the
	// directory.
	if err := os.MkdirAll(c.Data, 0o755); err != nil {
		return nil, nil, fmt.Errorf("make the data directory: %w", err)
	}
	observed, err := telemetry.Setup(ctx, name, version)
	if err != nil {
		return nil, nil, err
	}
	u := &system{settings: c, log: log, observed: observed}
	return u, lifecycle.NewFunc("sluice", u.start), nil
}

// announce prints the address, the key and the next commands.
func (u *system) announce() {
	if u.settings.JSON {
		if err := printJSON(u.credentials); err != nil {
			u.log.Error("cannot print the credentials", "error", err)
		}
		return
	}
	elsewhere := "" // the flag with which other commands find this server
	if usual, err := dataDirectory(""); err != nil || usual != u.settings.Data {
		elsewhere = " --data " + u.settings.Data
	}
	metrics := ""
	if u.metrics != nil {
		metrics = fmt.Sprintf("  Metrics  http://%s/metrics\n", u.metrics)
	}
	fmt.Printf(`Sluice is ready.

  URL      %s
  API key  %s
  Data     %s
%[5]s
  sluice ingest PATH --collection docs --wait%[4]s
  sluice ask "What ...?" --collection docs%[4]s

Press Ctrl-C to stop; the data is kept.
`, u.credentials.URL, u.credentials.APIKey, u.credentials.Data, elsewhere, metrics)
}

// key returns the API key of this data directory: the stored one if it still works, else a new one.
func (u *system) key(ctx context.Context) (string, error) {
	kept, err := apiclient.ReadCredentials(u.settings.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", err
	case kept.APIKey != "":
		if _, err := u.auth.Authenticate(ctx, kept.APIKey); err == nil {
			return kept.APIKey, nil
		}
		slog.WarnContext(ctx, "the API key in the data directory no longer works; making a new one")
	}
	key, created, err := u.auth.EnsureBootstrap(ctx, tenantName)
	if err != nil || created {
		return key, err
	}
	return u.auth.RenewBootstrap(ctx, tenantName)
}
