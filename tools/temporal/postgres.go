// This file keeps the state in Postgres, which several servers share as members of one cluster.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	toolschema "go.temporal.io/server/tools/common/schema"
	"go.temporal.io/server/tools/sql"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// visibilitySuffix is added to the name of the database that lists of workflows are read from.
	// It is a separate database because its schema has a version of its own.
	visibilitySuffix = "_visibility"

	// setupLock is the advisory lock that a member holds while it sets up the schema; the others
	// wait.
	setupLock = 7_233_000

	// retention is how long a namespace keeps workflows that have ended.
	retention = 24 * time.Hour
)

// postgresStores parses a URL such as postgres://user:password@host:port/name. It returns the
// configurations of the main store and of the visibility store, from which lists of workflows are
// read.
func postgresStores(text string) (main, visibility *config.SQL, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, nil, errors.New("--postgres: not a URL") // err would show the password
	}
	name := strings.TrimPrefix(u.Path, "/")
	if u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Host == "" || name == "" || strings.Contains(name, "/") {
		return nil, nil, errors.New("--postgres: want postgres://user:password@host:port/database")
	}
	if u.Port() == "" {
		u.Host += ":5432"
	}
	password, _ := u.User.Password()
	store := config.SQL{
		PluginName: postgresql.PluginNamePGX, ConnectProtocol: "tcp", ConnectAddr: u.Host, DatabaseName: name,
		User: u.User.Username(), Password: password, ConnectAttributes: map[string]string{},
		MaxConns: 20, MaxIdleConns: 20, MaxConnLifetime: time.Hour,
	}
	for attribute, values := range u.Query() {
		if attribute == "sslmode" && values[0] == "disable" {
			continue // the plug-in's default without a certificate
		}
		store.ConnectAttributes[attribute] = values[0]
	}
	other := store
	other.DatabaseName += visibilitySuffix
	return &store, &other, nil
}

// preparePostgres creates missing databases and migrates their schemas to this server's version.
// Members that start at the same time do it one after another: each holds a lock until it calls
// done, after it has registered the cluster too.
func preparePostgres(ctx context.Context, text string, main, visibility *config.SQL, logger log.Logger) (done func() error, err error) {
	cfg, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, errors.New("--postgres: not a URL of PostgreSQL")
	}
	cfg.Database = "postgres" // exists in every cluster
	db, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("--postgres: connecting: %w", err)
	}
	done = func() error { return db.Close(context.WithoutCancel(ctx)) } // this also releases the lock
	if err := setUp(ctx, db, main, visibility, logger); err != nil {
		return nil, errors.Join(err, done())
	}
	return done, nil
}

func setUp(ctx context.Context, db *pgx.Conn, main, visibility *config.SQL, logger log.Logger) error {
	if _, err := db.Exec(ctx, "SELECT pg_advisory_lock($1)", setupLock); err != nil {
		return fmt.Errorf("waiting for the other members' set-up: %w", err)
	}
	for _, s := range []struct {
		store  *config.SQL
		schema string
	}{{main, "postgresql/v12/temporal"}, {visibility, "postgresql/v12/visibility"}} {
		_, err := db.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{s.store.DatabaseName}.Sanitize())
		var exists *pgconn.PgError
		if err != nil && (!errors.As(err, &exists) || exists.Code != "42P04") {
			return fmt.Errorf("creating the database %s: %w", s.store.DatabaseName, err)
		}
		if err := updateSchema(s.store, s.schema, logger); err != nil {
			return fmt.Errorf("setting up the schema of the database %s: %w", s.store.DatabaseName, err)
		}
	}
	return nil
}

func updateSchema(store *config.SQL, schema string, logger log.Logger) error {
	conn, err := sql.NewConnection(store, logger)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ReadSchemaVersion(); err != nil {
		if err := toolschema.NewSetupSchemaTask(conn, &toolschema.SetupConfig{InitialVersion: "0.0"}, logger).Run(); err != nil {
			return err
		}
	}
	return toolschema.NewUpdateSchemaTask(conn, &toolschema.UpdateConfig{DBName: store.DatabaseName, SchemaName: schema}, logger).Run()
}

// registerNamespace registers the namespace with the running server. It repeats that until the
// namespace exists or ctx ends.
func registerNamespace(ctx context.Context, o options) (err error) {
	conn, err := grpc.NewClient(hostPort(o.ip, o.port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	frontend := workflowservice.NewWorkflowServiceClient(conn)
	for {
		_, err := frontend.RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: o.namespace, WorkflowExecutionRetentionPeriod: durationpb.New(retention)})
		var exists *serviceerror.NamespaceAlreadyExists
		if errors.As(serviceerror.FromStatus(status.Convert(err)), &exists) || err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("registering namespace %q: %w: %w", o.namespace, context.Cause(ctx), err)
		case <-time.After(200 * time.Millisecond): // the server is starting, or the database is down
		}
	}
}
