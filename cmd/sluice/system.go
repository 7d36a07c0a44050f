package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/cmd/internal/health"
	"github.com/sluice-rag/sluice/cmd/internal/ingestworker"
	"github.com/sluice-rag/sluice/cmd/internal/llmgateway"
	"github.com/sluice-rag/sluice/cmd/internal/modelchild"
	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/cmd/internal/queryworker"
	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/nice"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/internal/telemetry"
	"github.com/sluice-rag/sluice/schema/wire"
)

// This file runs all parts in one process. Each worker is composed as in its own program.

// system is everything that `sluice up` runs.
type system struct {
	settings *upCommand
	log      *slog.Logger
	observed *telemetry.Telemetry

	credentials apiclient.Credentials
	metrics     net.Addr // address of /metrics; nil: none
	auth        *auth.Auth
	store       *store.Store
	ingestion   *store.Store                // the ingest worker's, with its own connections
	replica     *store.Replica              // nil: there is none
	nats        map[wire.Program]*nats.Conn // by program, each with its own credentials
	temporal    client.Client

	// Addresses of the servers, given or started.
	databaseURL, natsURL string
	ownerURL, vectorURL  string // of the database; empty: nothing migrates or builds indexes
	temporalAt           config.Temporal
	ownNATS              *local.NATS // nil: a server is given
	signers              map[wire.Program]*signature.Signer
	trusted              *signature.Trusted
}

// start starts the parts, each when the parts before it are ready. The returned Stop stops them in
// reverse order. If start fails, nothing is left running.
func (u *system) start(ctx context.Context) (lifecycle.Run, error) {
	var running []func(context.Context) error
	closing := func(f func()) { running = append(running, func(context.Context) error { f(); return nil }) }
	stop := func(ctx context.Context) error {
		var all []error
		for _, f := range slices.Backward(running) {
			all = append(all, f(ctx))
		}
		return errors.Join(all...)
	}
	workers, err := func() (lifecycle.Service, error) {
		running = append(running, u.observed.Stop)
		servers, err := u.servers()
		if err != nil {
			return nil, err
		}
		var guarded []lifecycle.Service
		for _, s := range servers {
			guarded = append(guarded, supervise(s, u.log))
		}
		running = append(running, func(ctx context.Context) error { return stopTogether(ctx, guarded) })
		if err := together(ctx, guarded); err != nil {
			return nil, err
		}
		u.addresses(servers)
		if u.ownerURL != "" { // else something else migrates, which may take any time
			program := u.databaseURL
			if u.settings.DatabaseURL != "" {
				program = u.settings.ServerURL()
			}
			if err := store.Migrate(ctx, u.ownerURL, program, u.vectorURL); err != nil {
				return nil, err
			}
		}
		starting, cancel := context.WithTimeout(ctx, lifecycle.Connecting)
		defer cancel()
		if err := u.connect(starting, closing); err != nil {
			return nil, err
		}
		workers, err := u.workers(starting)
		if err != nil {
			return nil, err
		}
		running = append(running, func(ctx context.Context) error {
			ctx, cut := context.WithTimeout(ctx, grace)
			defer cut()
			return workers.Stop(ctx)
		})
		return workers, workers.Start(ctx)
	}()
	if err != nil {
		return lifecycle.Run{}, errors.Join(err, stop(context.WithoutCancel(ctx)))
	}
	return lifecycle.Run{Done: workers.Done(), Err: workers.Err, Stop: stop}, nil
}

// servers returns the servers among Postgres, NATS and Temporal that are not given.
func (u *system) servers() ([]lifecycle.Service, error) {
	var out []lifecycle.Service
	dir := func(name string) string { return filepath.Join(u.settings.Data, name) }
	if u.settings.DatabaseURL == "" {
		p, err := local.NewPostgres(local.PostgresOptions{Dir: dir("postgres"), Buffers: u.settings.PostgresBuffers << 20, Log: u.log})
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if u.settings.NATSURL == "" {
		n, err := local.NewNATS(local.NATSOptions{Dir: dir("nats"), ProgramsAlone: true, Log: u.log})
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	if u.settings.TemporalAddress == "" {
		t, err := local.NewTemporal(local.TemporalOptions{Dir: dir("temporal"), Secure: true, Background: true, Log: u.log})
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// together starts services in parallel. They must not depend on each other.
func together(ctx context.Context, services []lifecycle.Service) error {
	starts, ctx := errgroup.WithContext(ctx)
	for _, s := range services {
		starts.Go(func() error { return s.Start(ctx) })
	}
	return starts.Wait()
}

// stopTogether stops services in parallel.
func stopTogether(ctx context.Context, services []lifecycle.Service) error {
	failures := make([]error, len(services))
	var stops sync.WaitGroup
	for i, s := range services {
		stops.Go(func() { failures[i] = s.Stop(ctx) })
	}
	stops.Wait()
	return errors.Join(failures...)
}

func (u *system) addresses(servers []lifecycle.Service) {
	u.ownerURL, u.vectorURL = u.settings.DatabaseOwnerURL, u.settings.DatabaseVectorURL
	u.databaseURL, u.natsURL, u.temporalAt = u.settings.DatabaseURL, u.settings.NATSURL, u.settings.Temporal
	for _, s := range servers {
		switch s := s.(type) {
		case *local.Postgres:
			u.databaseURL, u.ownerURL, u.vectorURL = s.URL(), s.OwnerURL(local.Database), s.VectorURL(local.Database)
		case *local.NATS:
			u.natsURL, u.ownNATS = s.Address(), s
		case *local.Temporal:
			u.temporalAt = config.Temporal{TemporalAddress: s.Address(), TemporalNamespace: u.settings.TemporalNamespace}
			if own := s.TLS(); own != nil {
				u.temporalAt.TemporalTLSCA, u.temporalAt.TemporalTLSServerName = own.CA, own.ServerName
				u.temporalAt.TemporalTLSCert, u.temporalAt.TemporalTLSKey = own.Cert, own.Key
			}
		}
	}
}

func (u *system) connect(ctx context.Context, closing func(func())) (err error) {
	// A third of the connections is for ingestion, so that it cannot use up all of them.
	ingestConnections := max(4, u.settings.DatabaseConnections/3)
	o, err := program.WithBlobs(store.Options{
		Name: "sluice up", MaxConns: max(4, u.settings.DatabaseConnections-ingestConnections),
		VectorURL: u.vectorURL, IndexBuilds: u.settings.IndexBuilds,
	}, u.settings.Blobs)
	if err != nil {
		return err
	}
	if u.settings.DatabaseURL != "" { // its own Postgres is connected to directly
		o.Pooled, o.DirectURL = u.settings.DatabasePooled, u.settings.DatabaseDirectURL
	}
	if u.store, err = store.Open(ctx, u.databaseURL, o); err != nil {
		return err
	}
	closing(u.store.Close)
	if err := u.store.CheckSchema(ctx); err != nil {
		return err
	}
	if u.settings.DatabaseURL == "" { // the backends are processes of this machine
		o.Connected = u.background()
	}
	o.Name, o.MaxConns, o.Lane = "sluice up, ingestion", ingestConnections, store.Batch
	if u.ingestion, err = store.Open(ctx, u.databaseURL, o); err != nil {
		return err
	}
	closing(u.ingestion.Close)
	if u.settings.DatabaseReplicaURL != "" {
		if u.replica, err = store.OpenReplica(ctx, u.store, u.settings.DatabaseReplicaURL, u.settings.DatabaseReplicaLag,
			store.Options{Name: "sluice up", MaxConns: u.settings.DatabaseConnections}); err != nil {
			return err
		}
		closing(u.replica.Close)
	}
	if err := u.connectNATS(ctx, closing); err != nil {
		return err
	}
	if u.temporal, err = durable.Dial(ctx, program.TemporalOptions(u.temporalAt, "sluice up")); err != nil {
		return err
	}
	closing(u.temporal.Close)
	u.auth = auth.New(tenants.New(u.store))
	key, err := u.key(ctx)
	if err != nil {
		return err
	}
	u.credentials = apiclient.Credentials{APIKey: key, Data: u.settings.Data}
	return nil
}

// connectNATS connects each part to the server that was started, with the part's own credentials.
// To a given server all parts share one connection, with the credentials of the settings.
func (u *system) connectNATS(ctx context.Context, closing func(func())) error {
	u.nats = map[wire.Program]*nats.Conn{}
	parts := []wire.Program{wire.ProgramServe, wire.ProgramIngestWorker, wire.ProgramQueryWorker, wire.ProgramLLMGateway, wire.ProgramSourceWorker}
	if err := u.signatures(); err != nil {
		return err
	}
	if u.ownNATS == nil {
		nc, err := bus.Connect(ctx, bus.Options{URL: u.natsURL, Name: "sluice up", Program: wire.ProgramUp, Files: bus.Files(u.settings.NATSFiles)})
		if err != nil {
			return err
		}
		closing(nc.Close)
		for _, p := range parts {
			u.nats[p] = nc
		}
		return nil
	}
	for _, p := range parts {
		nc, err := bus.Connect(ctx, bus.Options{URL: u.natsURL, Name: "sluice up", Program: p, Seed: u.ownNATS.Seed(p)})
		if err != nil {
			return err
		}
		closing(nc.Close)
		u.nats[p] = nc
	}
	return nil
}

// signatures creates the keys that sign and verify requests on behalf of a tenant. If NATS is
// started here, the keys are new and known only to this process; otherwise they come from the
// settings.
func (u *system) signatures() (err error) {
	u.signers = map[wire.Program]*signature.Signer{}
	if u.ownNATS == nil {
		var signer *signature.Signer
		signer, u.trusted, err = program.Signatures(u.settings.Signatures)
		u.signers[wire.ProgramServe], u.signers[wire.ProgramQueryWorker] = signer, signer
		return err
	}
	public := ""
	for _, p := range []wire.Program{wire.ProgramServe, wire.ProgramQueryWorker} {
		if u.signers[p], err = signature.NewSigner(string(p)); err != nil {
			return err
		}
		public += u.signers[p].Public()
	}
	u.trusted, err = signature.ParseTrusted(public)
	return err
}

// queues returns an error if nothing can be queued now.
func (u *system) queues() error {
	if u.ownNATS == nil {
		return nil
	}
	return u.ownNATS.Trouble()
}

// background returns a function that lowers the priority of a database backend, so that the
// database serves searches first.
func (u *system) background() func(backend uint32) {
	var once sync.Once
	return func(backend uint32) {
		if err := nice.Session(int(backend)); err != nil {
			once.Do(func() { u.log.Warn("cannot lower the priority of ingestion's Postgres processes", "error", err) })
		}
	}
}

// workers composes the model server's child, the workers and the API. The API starts last: when it
// answers, everything does.
func (u *system) workers(ctx context.Context) (lifecycle.Service, error) {
	s := u.settings
	program, err := modelchild.Find()
	if err != nil {
		return nil, err
	}
	pack, err := modelpack.Find(modelsDirectory(s.Data), s.ModelPack)
	if err != nil {
		return nil, err
	}
	models := modelclient.New(u.nats[wire.ProgramServe], modelclient.Options{})
	child := func(pack string, client *modelclient.Client, more ...string) (lifecycle.Service, error) {
		env, err := u.modelEnv(pack)
		return modelchild.New(modelchild.Options{Program: program, Env: append(env, more...), Log: u.log,
			Ready: func(ctx context.Context) error { _, err := client.Info(ctx); return err }}), err
	}
	model, err := child(pack, models)
	if err != nil {
		return nil, err
	}
	servers := []lifecycle.Service{model}
	if s.SecondPack != "" {
		if pack, err = modelpack.Find(modelsDirectory(s.Data), s.SecondPack); err != nil {
			return nil, fmt.Errorf("find the second encoder's pack (SLUICE_SECOND_PACK): %w", err)
		}
		second, err := child(pack, models.Second(), "SLUICE_SECOND_PACK="+pack, fmt.Sprintf("SLUICE_SECOND_SHARE=%d", s.SecondShare))
		if err != nil {
			return nil, err
		}
		servers = append(servers, second)
	}
	ingest, err := ingestworker.New(ingestworker.Settings{Ingest: s.Ingest, Retention: s.Retention, Parse: s.Parse, Streams: s.Streams},
		ingestworker.Deps{Store: u.ingestion, NATS: u.nats[wire.ProgramIngestWorker], Temporal: u.temporal})
	if err != nil {
		return nil, err
	}
	gateway, err := llmgateway.New(s.LLM, llmgateway.Deps{Store: u.store, NATS: u.nats[wire.ProgramLLMGateway], Trusted: u.trusted})
	if err != nil {
		return nil, err
	}
	query, err := queryworker.New(queryworker.Settings{Answering: s.Answering, Streams: s.Streams, Webhooks: s.Webhooks, Public: s.Public},
		queryworker.Deps{Store: u.store, Replica: u.replica, NATS: u.nats[wire.ProgramQueryWorker], Temporal: u.temporal,
			Signer: u.signers[wire.ProgramQueryWorker], Trusted: u.trusted})
	if err != nil {
		return nil, err
	}
	receipts, err := receiptSigner(s.Data, s.ReceiptKey)
	if err != nil {
		return nil, err
	}
	sealing, follower, err := u.sources()
	if err != nil {
		return nil, err
	}
	api, err := apiserver.New(ctx, s.HTTP, apiserver.Deps{SourceKeys: sealing, Store: u.store, Receipts: receipts, NATS: u.nats[wire.ProgramServe], Signer: u.signers[wire.ProgramServe], Version: version, Plans: s.Plans, OIDC: s.OIDC, PublicURL: s.PublicURL,
		Temporal: u.temporal, Namespace: s.TemporalNamespace, CheckDisk: func() error { return local.CheckDisk(s.Data, s.KeepFree<<20) }, Ready: u.queues})
	if err != nil {
		return nil, err
	}
	u.credentials.URL = api.URL()
	metrics := health.Metrics(s.MetricsListen, u.observed.Handler(), func(at net.Addr) { u.metrics = at })
	left := lifecycle.NewResource("credentials", func(context.Context) error { return apiclient.WriteCredentials(u.credentials) }, nil)
	return lifecycle.NewGroup("workers", grace, append(servers, ingest, gateway, query, follower, api, metrics, left)...), nil
}

// modelEnv returns the model server's environment: this process's environment without other
// settings of Sluice, and the settings of the pack and of NATS.
func (u *system) modelEnv(pack string) ([]string, error) {
	env := withoutSettings()
	s := u.settings
	credentials := s.NATSCredentials
	if u.ownNATS != nil {
		var err error
		if credentials, err = u.ownNATS.SeedFile(wire.ProgramGPUSegmenter); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]string{
		"SLUICE_NATS_URL": u.natsURL, "SLUICE_NATS_CREDENTIALS": credentials,
		"SLUICE_NATS_CA": s.NATSCA, "SLUICE_NATS_CERT": s.NATSCert, "SLUICE_NATS_KEY": s.NATSKey, "SLUICE_HEALTH_LISTEN": "off", "SLUICE_MODEL_PACK": pack,
		"SLUICE_MODEL_PROVIDER": s.ModelProvider, "SLUICE_MODEL_THREADS": fmt.Sprint(s.ModelThreads),
		"SLUICE_ONNXRUNTIME_LIB": s.ONNXRuntimeLib, "SLUICE_LOG_LEVEL": s.LogLevel, "SLUICE_LOG_FORMAT": s.LogFormat,
	} {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env, nil
}

// withoutSettings returns this process's environment without the settings of Sluice, except
// SLUICE_HOME and SLUICE_CONFIG.
func withoutSettings() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "SLUICE_") || name == "SLUICE_HOME" || name == "SLUICE_CONFIG" {
			env = append(env, kv)
		}
	}
	return env
}
