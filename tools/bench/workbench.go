package main

// This file has what most parts measure with: a PostgreSQL server of their own, configured as by
// `sluice up` but with more memory for building indexes, a store on it, and connections for what
// Sluice is compared with. Everything is removed afterwards.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxvector "github.com/pgvector/pgvector-go/pgx"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

// workbench is a database with a store and direct connections.
type workbench struct {
	dir      string
	kept     bool // the directory is not removed
	postgres *local.Postgres
	store    stores.All
	// others is a pool of superuser connections to the same database, for what Sluice is compared
	// with, which is in the schema others.
	others *pgxpool.Pool
}

// serverSettings override those of `sluice up`, for both sides.
var serverSettings = map[string]string{
	"maintenance_work_mem": "2GB", "max_wal_size": "8GB", "log_min_messages": "error",
	// Keep shared memory of parallel index builds in files, because /dev/shm may be small.
	"dynamic_shared_memory_type": "mmap",
}

// newDir creates a directory that every user may enter, because PostgreSQL runs as another user,
// and that is not in memory.
func newDir() (string, error) {
	home, err := local.Home()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", fmt.Errorf("make a directory: %w", err)
	}
	dir, err := os.MkdirTemp(home, "bench.")
	if err != nil {
		return "", fmt.Errorf("make a directory: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", errors.Join(fmt.Errorf("make a directory: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

// newWorkbench starts everything, in a directory that is kept, or in one that is removed at the end
// if kept is empty. If it fails, nothing is left running.
func newWorkbench(ctx context.Context, kept string) (*workbench, error) {
	if kept != "" {
		kept, err := filepath.Abs(kept)
		if err == nil {
			err = os.MkdirAll(kept, 0o755)
		}
		if err != nil {
			return nil, fmt.Errorf("make the directory of the database: %w", err)
		}
		return newWorkbenchIn(ctx, kept, true)
	}
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	return newWorkbenchIn(ctx, dir, false)
}

// newWorkbenchIn starts everything in a directory, which is removed at the end unless it is kept.
func newWorkbenchIn(ctx context.Context, dir string, kept bool) (_ *workbench, err error) {
	b := &workbench{dir: dir, kept: kept}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if b.postgres, err = local.StartPostgres(starting, local.PostgresOptions{Dir: filepath.Join(dir, "postgres"), Settings: serverSettings}); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	// The log of the migration is not of interest.
	if err := quietly(func() error {
		return store.Migrate(starting, b.postgres.OwnerURL(local.Database), b.postgres.URL(), b.postgres.VectorURL(local.Database))
	}); err != nil {
		return nil, err
	}
	db, err := store.Open(starting, b.postgres.URL(), store.Options{
		Name: "bench", Lane: store.Batch, VectorURL: b.postgres.VectorURL(local.Database),
	})
	if err != nil {
		return nil, err
	}
	b.store = stores.Of(db)
	config, err := pgxpool.ParseConfig(b.postgres.AdminURL(local.Database))
	if err != nil {
		return nil, fmt.Errorf("connect to what is compared: %w", err)
	}
	config.AfterConnect = pgxvector.RegisterTypes
	if b.others, err = pgxpool.NewWithConfig(starting, config); err != nil {
		return nil, fmt.Errorf("connect to what is compared: %w", err)
	}
	if _, err := b.others.Exec(starting, `CREATE SCHEMA IF NOT EXISTS others`); err != nil {
		return nil, fmt.Errorf("make a schema: %w", err)
	}
	return b, nil
}

// connect opens a connection like those of the pool, whose settings can be changed.
func (b *workbench) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, b.postgres.AdminURL(local.Database))
	if err == nil {
		err = pgxvector.RegisterTypes(ctx, conn)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to what is compared: %w", err)
	}
	return conn, nil
}

// close stops everything and removes its files, unless they are kept.
func (b *workbench) close() error {
	err := b.stop()
	if b.kept {
		return err
	}
	if removing := os.RemoveAll(b.dir); removing != nil {
		err = errors.Join(err, fmt.Errorf("remove what was measured: %w", removing))
	}
	return err
}

// stop stops everything but keeps the database.
func (b *workbench) stop() error {
	if b.others != nil {
		b.others.Close()
	}
	if b.store.Store != nil {
		b.store.Close()
	}
	if b.postgres == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return b.postgres.Stop(ctx)
}

// space is a tenant with a collection.
type space struct {
	schema.Principal
	collection uuid.UUID
}

// newSpace creates a tenant with a collection.
func (b *workbench) newSpace(ctx context.Context, name string) (space, error) {
	p, err := b.newTenant(ctx, name)
	if err != nil {
		return space{}, err
	}
	return b.newCollection(ctx, p, "bench")
}

// newTenant creates a tenant.
func (b *workbench) newTenant(ctx context.Context, name string) (schema.Principal, error) {
	id := schema.NewID()
	tenant, err := b.store.CreateTenant(ctx, schema.Principal{}, schema.NewTenant{Name: name}, schema.SealedKey{
		NewKey: schema.NewKey{Name: name, Scopes: []schema.Scope{schema.ScopeAdmin}},
		Prefix: "slu_bench", Hash: append(id[:], id[:]...),
	})
	if err != nil {
		return schema.Principal{}, fmt.Errorf("make tenant %s: %w", name, err)
	}
	return schema.Principal{Tenant: tenant.ID, Scopes: []schema.Scope{schema.ScopeAdmin}}, nil
}

// newCollection creates a collection of a tenant.
func (b *workbench) newCollection(ctx context.Context, p schema.Principal, name string) (space, error) {
	c, err := b.store.CreateCollection(ctx, p, schema.NewCollection{Name: name})
	if err != nil {
		return space{}, fmt.Errorf("make a collection of tenant %s: %w", p.Tenant, err)
	}
	return space{Principal: p, collection: c.ID}, nil
}

// settle makes PostgreSQL do its background work now, and not in the middle of a measurement:
// statistics, vacuum and checkpoint.
func (b *workbench) settle(ctx context.Context) error {
	for _, sql := range []string{`VACUUM (ANALYZE)`, `CHECKPOINT`} {
		if _, err := b.others.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// execute runs statements as superuser.
func (b *workbench) execute(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := b.others.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// quietly runs f with only warnings and errors logged.
func quietly(f func() error) error {
	before := slog.SetLogLoggerLevel(slog.LevelWarn)
	defer slog.SetLogLoggerLevel(before)
	return f()
}

// timed runs f and returns how long it took.
func timed(f func() error) (time.Duration, error) {
	begin := time.Now()
	err := f()
	return time.Since(begin), err
}

// single returns the single value of a query.
func single[T any](ctx context.Context, b *workbench, sql string, args ...any) (T, error) {
	rows, err := b.others.Query(ctx, sql, args...)
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", sql, err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		err = fmt.Errorf("%s: %w", sql, err)
	}
	return value, err
}
