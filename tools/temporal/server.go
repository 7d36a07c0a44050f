// This file configures a Temporal server: for one small machine, or as a member of a cluster on
// Postgres.

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const (
	clusterName = "active"

	// joinTime is how long a member tries to join the others.
	joinTime = 30 * time.Second

	// historyShards is the number of shards of a database file, which never changes. SQLite has a
	// single writer, so more shards would only add goroutines.
	historyShards = 4

	// servicePorts is the number of ports that a member uses from --port on: two for each of four
	// services, one for requests and one for membership. A member expects the services of another
	// at the same port numbers, so members need different addresses.
	servicePorts = 8
)

// storage has the stores of a server's state, and the ports of its services.
type storage struct {
	main, visibility *config.SQL
	ports            []int
	membership       []int        // none: the server is alone
	prepared         func() error // called when the server has been built
}

// openStorage prepares the database.
func openStorage(ctx context.Context, o options, logger log.Logger) (s storage, err error) {
	if o.postgres != "" {
		if s.main, s.visibility, err = postgresStores(o.postgres); err != nil {
			return s, err
		}
		for i := range servicePorts / 2 {
			s.ports, s.membership = append(s.ports, o.port+i), append(s.membership, o.port+servicePorts/2+i)
		}
		s.prepared, err = preparePostgres(ctx, o.postgres, s.main, s.visibility, logger)
		return s, err
	}
	s.prepared = func() error { return nil }
	s.main = &config.SQL{
		PluginName:   sqlite.PluginName,
		DatabaseName: o.dbFilename,
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"journal_mode": "wal",
			"synchronous":  "normal",
		},
	}
	s.visibility = s.main
	if err := prepareStore(o, s.main); err != nil {
		return s, err
	}
	s.ports, err = freePorts(o.ip, 3)
	s.ports = append([]int{o.port}, s.ports...)
	return s, err
}

// newServer prepares the database and builds the server, which does not listen yet.
func newServer(ctx context.Context, o options) (_ temporal.Server, err error) {
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Level: o.logLevel, Format: "json"}))
	store, err := openStorage(ctx, o, logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.prepared()) }()

	cfg := &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     "main",
			VisibilityStore:  "visibility",
			NumHistoryShards: o.shards,
			DataStores:       map[string]config.DataStore{"main": {SQL: store.main}, "visibility": {SQL: store.visibility}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: hostPort(o.ip, o.port)},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		PublicClient: config.PublicClient{HostPort: hostPort(o.ip, o.port)},
		Services:     map[string]config.Service{},
		Global:       config.Global{TLS: o.tls.settings()},
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for i, service := range []primitives.ServiceName{
		primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
	} {
		rpc := config.RPC{GRPCPort: store.ports[i], BindOnIP: o.ip}
		if store.membership != nil {
			rpc.MembershipPort = store.membership[i]
		}
		cfg.Services[string(service)] = config.Service{RPC: rpc}
		hosts[service] = static.SingleLocalHost(hostPort(o.ip, store.ports[i]))
	}

	claims, err := authorization.GetClaimMapperFromConfig(&cfg.Global.Authorization, logger)
	if err != nil {
		return nil, fmt.Errorf("building the claim mapper: %w", err)
	}
	options := []temporal.ServerOption{
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claims }),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler),
		temporal.WithDynamicConfigClient(settings()),
	}
	if store.membership == nil {
		options = append(options, temporal.WithStaticHosts(hosts))
	} else { // members find each other in the database
		cfg.Global.Membership = config.Membership{MaxJoinDuration: joinTime, BroadcastAddress: o.ip}
	}
	srv, err := temporal.NewServer(options...)
	if err != nil {
		return nil, fmt.Errorf("building the server: %w", err)
	}
	return srv, nil
}

// prepareStore creates the schema in a new file and registers the namespace.
func prepareStore(o options, store *config.SQL) error {
	_, err := os.Stat(o.dbFilename)
	if errors.Is(err, fs.ErrNotExist) {
		// The schema is not written in one transaction, so an incomplete file must not look like a
		// complete one.
		fresh := *store
		fresh.DatabaseName += ".new"
		fresh.ConnectAttributes = map[string]string{"mode": "rwc", "journal_mode": "delete"}
		for _, suffix := range []string{"", "-journal"} {
			if err := os.Remove(fresh.DatabaseName + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing an unfinished database: %w", err)
			}
		}
		if err := sqliteschema.SetupSchema(&fresh); err != nil {
			return fmt.Errorf("creating the schema in %s: %w", fresh.DatabaseName, err)
		}
		if err := os.Rename(fresh.DatabaseName, o.dbFilename); err != nil {
			return fmt.Errorf("putting the new database in place: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("--db-filename: %w", err)
	}

	ns, err := sqliteschema.NewNamespaceConfig(clusterName, o.namespace, false, nil)
	if err != nil {
		return fmt.Errorf("--namespace %q: %w", o.namespace, err)
	}
	if err := sqliteschema.CreateNamespaces(store, ns); err != nil {
		return fmt.Errorf("registering namespace %q: %w", o.namespace, err)
	}
	return nil
}

// settings make a single node with few CPUs responsive, and idle when there is nothing to do.
func settings() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// One partition per task queue: with a single matching host, more of them only forward to
		// each other.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// A namespace registered through the API is known to all services within a second.
		dynamicconfig.NamespaceCacheRefreshInterval.Key(): time.Second,
		// The defaults protect a shared cluster from its clients; here there is one client.
		dynamicconfig.FrontendRPS.Key():                           100_000,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():    100_000,
		dynamicconfig.FrontendGlobalNamespaceRPS.Key():            100_000,
		dynamicconfig.FrontendPersistenceMaxQPS.Key():             100_000,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():              100_000,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():             100_000,
		dynamicconfig.TaskQueueScannerEnabled.Key():               false,
		dynamicconfig.HistoryScannerEnabled.Key():                 false,
		dynamicconfig.ExecutionsScannerEnabled.Key():              false,
		dynamicconfig.EnableActivityEagerExecution.Key():          true,
		dynamicconfig.EnableEagerWorkflowStart.Key():              true,
		dynamicconfig.FrontendEnableUpdateWorkflowExecution.Key(): true,
	}
}

// freePorts returns n ports of ip on which nothing listens.
func freePorts(ip string, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", hostPort(ip, 0))
		if err != nil {
			return nil, fmt.Errorf("finding a free port on %s: %w", ip, err)
		}
		// The listeners stay open until all ports are found, so that the ports differ.
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func hostPort(ip string, port int) string {
	return net.JoinHostPort(ip, strconv.Itoa(port))
}
