package store

// This file supports poolers between a program and Postgres that assign a connection for one
// transaction at a time, as PgBouncer does with pool_mode=transaction. No state of a session
// outlasts a transaction there: no role, setting, prepared statement or lock.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/schema"
)

// Settings, as error messages name them.
const (
	pooledSetting = "SLUICE_DATABASE_POOLED"
	directSetting = "SLUICE_DATABASE_DIRECT_URL"
)

// idleLimit is after how long an idle transaction is ended, in milliseconds: a process that
// vanished behind a dead network must not keep its locks.
const idleLimit = "300000"

// arrivedSQL reports whether the settings that poolConfig requests reached the server.
const arrivedSQL = `(SELECT setting = '` + idleLimit + `' FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout')`

// pooledSQL sets for a transaction what poolConfig otherwise requests when a connection starts.
const pooledSQL = `set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true), ` +
	`set_config('idle_in_transaction_session_timeout', '` + idleLimit + `', true)`

// atStart adds settings for the whole connection. They are not used with a pooler: PgBouncer
// refuses settings that it cannot restore for each client.
func atStart(params map[string]string, l Lane) {
	// Row-level security and partitions raise cost estimates above the limits of just-in-time
	// compilation, which then costs more than the query.
	params["jit"] = "off"
	// A plan that was made while a table was small, or had no statistics, would be cached in the
	// session, also for foreign key checks, and later scan all of a tenant's rows for each row.
	// Planning each time costs some 50 µs and prunes partitions.
	if params["plan_cache_mode"] == "" {
		params["plan_cache_mode"] = "force_custom_plan"
	}
	// For statements outside of the store's transactions, which set their own limits.
	params["statement_timeout"] = l.milliseconds()
	params["idle_in_transaction_session_timeout"] = idleLimit
}

// pooled reports whether conn goes through a pooler. Such a connection only caches the types of a
// statement: it sends the text each time, in the same packet as the arguments.
func pooled(conn *pgx.Conn) bool {
	return conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe
}

// describe returns the types of a statement, which it requests once per connection. Without a
// pooler it also prepares the statement.
func describe(ctx context.Context, conn *pgx.Conn, sql string) (*pgconn.StatementDescription, error) {
	if !pooled(conn) {
		return conn.Prepare(ctx, sql, sql)
	}
	known := conn.PgConn().CustomData()
	if statement, ok := known[sql].(*pgconn.StatementDescription); ok {
		return statement, nil
	}
	statement, err := conn.Prepare(ctx, "", sql)
	if err != nil {
		return nil, err
	}
	known[sql] = statement
	return statement, nil
}

// explainPooler adds the remedy to the error of a pooler that refuses a connection's setting, and
// to a server's error that a statement's name is taken by another client or was prepared in another
// session.
func explainPooler(err error, setting, remedy string) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	if pg.Code == "08P01" && strings.Contains(pg.Message, "startup parameter") || pg.Code == "42P05" || pg.Code == "26000" {
		return schema.Invalid(setting, "leads through a pooler of connections (%s); %s (docs/database.md, A pooler of connections)", pg.Message, remedy)
	}
	return err
}

const (
	advicePooled = "set " + pooledSetting + "=true"
	adviceDirect = "give it the address of the server itself"
)

// CheckDirect returns an error if the store's connections go through a pooler and it has no direct
// address, for work that needs a connection of its own.
func (s *Store) CheckDirect() error {
	if s.options.Pooled && s.options.DirectURL == "" {
		return schema.Invalid(directSetting, "is missing: with %s, an ingest-worker needs the server's own address, "+
			"for the lock that says that it lives", pooledSetting)
	}
	return nil
}

// CheckPooler returns an error unless the store's connections go through a pooler, or not, as its
// options say. The error says what to set.
func (s *Store) CheckPooler(ctx context.Context) error {
	if !s.options.Pooled {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("look for a pooler: %w", Translate(err))
		}
		defer conn.Release()
		return checkArrived(ctx, conn.Conn(), databaseSetting, advicePooled)
	}
	if err := s.CheckDirect(); err != nil {
		return err
	}
	conn, err := s.direct(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to lose
	return checkArrived(ctx, conn, directSetting, adviceDirect)
}

// checkArrived detects a pooler that drops settings (ignore_startup_parameters).
func checkArrived(ctx context.Context, conn *pgx.Conn, setting, remedy string) error {
	var arrived bool
	if err := conn.QueryRow(ctx, `SELECT `+arrivedSQL).Scan(&arrived); err != nil {
		return fmt.Errorf("look for a pooler: %w", Translate(err))
	}
	if !arrived {
		return schema.Invalid(setting, "leads through a pooler of connections, which drops the settings of connections; %s "+
			"(docs/database.md, A pooler of connections)", remedy)
	}
	return nil
}

// direct opens a connection to the server itself, without a pooler.
func (s *Store) direct(ctx context.Context) (*pgx.Conn, error) {
	if err := s.CheckDirect(); err != nil {
		return nil, err
	}
	o := s.options
	o.Pooled = false
	config, err := poolConfig(o.DirectURL, o)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the server itself (%s): %w", directSetting, Translate(explainPooler(err, directSetting, adviceDirect)))
	}
	if err := prepareConn(ctx, conn); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, explainPooler(err, directSetting, adviceDirect)
	}
	return conn, nil
}
