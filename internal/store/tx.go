package store

// This file holds the three functions through which data is accessed. Each runs a function in one
// transaction of one role, in the store's lane (lanes.go), and repeats it after errors that allow
// that.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/schema"
)

type role string

const (
	roleApp    role = "sluice_app"
	roleSystem role = "sluice_system"
	roleAuth   role = "sluice_auth"
)

// maxTries bounds the attempts of a transaction that loses against others.
const maxTries = 8

// ErrRepeat requests another attempt of the transaction: a row that it relied on was removed
// between two of its statements.
var ErrRepeat = errors.New("a row was removed meanwhile")

const setRoleSQL = `SELECT set_config('role', $1, true), set_config('sluice.tenant', $2, true)`

// AsTenant runs fn in a transaction that sees and writes only the rows of tenant, and commits when
// fn returns nil. fn may run several times (after a deadlock or serialization failure), so it must
// set its results anew each time. Errors match the sentinels of package schema.
func (s *Store) AsTenant(ctx context.Context, tenant uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if tenant == uuid.Nil {
		return schema.Invalid("tenant", "is missing")
	}
	return s.in(ctx, pgx.TxOptions{}, roleApp, tenant.String(), fn)
}

// ReadTenant is AsTenant for several reads that must be consistent: all see what was committed
// before the first, and fn cannot write.
func (s *Store) ReadTenant(ctx context.Context, tenant uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if tenant == uuid.Nil {
		return schema.Invalid("tenant", "is missing")
	}
	return s.in(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, roleApp, tenant.String(), fn)
}

// AsSystem runs fn in a transaction that sees, of all tenants, outbox rows, leases, version and
// question states and the tenants themselves, but no text. See AsTenant for repeats and errors.
func (s *Store) AsSystem(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.in(ctx, pgx.TxOptions{}, roleSystem, "", fn)
}

// AsAuth runs fn in a transaction that reads the API keys of all tenants and nothing else. See
// AsTenant for repeats and errors.
func (s *Store) AsAuth(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.in(ctx, pgx.TxOptions{}, roleAuth, "", fn)
}

// OnePlanSQL are settings for a statement that takes longer to plan than to run. Its plan is made
// once per connection, for any values, with indexes and nested loops whatever the current
// statistics are: a plan made while tables were empty might scan all of a tenant's rows later.
const OnePlanSQL = `set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
    set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

// askSQL is setRoleSQL for AskTenant.
const askSQL = setRoleSQL + `, set_config('statement_timeout', $3, true), ` + OnePlanSQL

// askPooledSQL is askSQL behind a pooler.
const askPooledSQL = askSQL + `, set_config('jit', 'off', true)`

// AskTenant is AskTenantAll for one statement, whose rows are passed to fn.
func (s *Store) AskTenant(ctx context.Context, tenant uuid.UUID, sql string, args []any, fn func(rows pgx.Rows) error) error {
	return s.AskTenantAll(ctx, tenant, func(b *pgx.Batch) { b.Queue(sql, args...).Query(fn) })
}

// AskTenantAll is AsTenant for statements that only read, in a single round trip. Each statement
// sees what was committed before it began. queue queues the statements with the functions that read
// their rows; it may be called several times. Their plans are the same for all arguments
// (OnePlanSQL), so they must find all rows through indexes.
func (s *Store) AskTenantAll(ctx context.Context, tenant uuid.UUID, queue func(b *pgx.Batch)) error {
	if tenant == uuid.Nil {
		return schema.Invalid("tenant", "is missing")
	}
	return s.repeat(ctx, func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return asNotBegun(ctx, roleApp, err)
		}
		defer conn.Release()
		return whole(conn.Conn(), s.ask(ctx, conn.Conn(), tenant, queue))
	})
}

// ask is one attempt of AskTenantAll.
func (s *Store) ask(ctx context.Context, conn *pgx.Conn, tenant uuid.UUID, queue func(b *pgx.Batch)) error {
	// Statements that are sent together are one transaction.
	b := &pgx.Batch{}
	roleSet, statement := false, askSQL
	if s.options.Pooled {
		statement = askPooledSQL
	}
	b.Queue(statement, string(roleApp), tenant.String(), s.lane.milliseconds()).Exec(func(pgconn.CommandTag) error {
		roleSet = true
		return nil
	})
	queue(b)
	err := conn.SendBatch(ctx, b).Close()
	if err != nil && !roleSet {
		return asNotBegun(ctx, roleApp, err)
	}
	return err
}

func (s *Store) in(ctx context.Context, o pgx.TxOptions, r role, tenant string, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if outer := outerOf(ctx, s); outer != nil {
		return s.repeat(ctx, func() error { return outer.savepoint(ctx, txScope{r, tenant, s.lane}, fn) })
	}
	return s.repeat(ctx, func() error { return s.once(ctx, o, r, tenant, fn) })
}

// repeat runs a transaction until it succeeds or fails for good.
func (s *Store) repeat(ctx context.Context, transaction func() error) error {
	for try := 1; ; try++ {
		err := transaction()
		if err == nil {
			return nil
		}
		s.closeConnections(err)
		if try == maxTries || !repeatable(err, try) {
			return Translate(err)
		}
		// A random pause, so that transactions that lost do not meet again.
		pause := time.Duration(rand.Int64N(int64(time.Millisecond) << min(try+1, 8)))
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return Translate(err)
		case <-timer.C:
		}
	}
}

func (s *Store) once(ctx context.Context, o pgx.TxOptions, r role, tenant string, fn func(ctx context.Context, tx pgx.Tx) error) error {
	// Beginning and entering take one round trip. None of the values is user input: a role is one
	// of three, a tenant a formatted UUID or empty, a limit a number.
	o.BeginQuery = fmt.Sprintf(
		`%s; SELECT set_config('role', '%s', true), set_config('sluice.tenant', '%s', true), set_config('statement_timeout', '%s', true)`,
		beginSQL(o), r, tenant, s.lane.milliseconds())
	if s.options.Pooled {
		o.BeginQuery += `, ` + pooledSQL
	}
	tx, err := s.pool.BeginTx(ctx, o)
	if err != nil {
		return asNotBegun(ctx, r, err)
	}
	ctx, wrote := trackOutbox(ctx)
	if err := finish(ctx, tx, fn); err != nil {
		return err
	}
	if wrote.Load() {
		s.wakeRelay()
	}
	return nil
}

// beginSQL returns the statement that begins a transaction with the options that occur here.
func beginSQL(o pgx.TxOptions) string {
	if o.IsoLevel == "" && o.AccessMode == "" {
		return "BEGIN"
	}
	return fmt.Sprintf("BEGIN ISOLATION LEVEL %s %s", o.IsoLevel, o.AccessMode)
}

// finish runs fn and commits, or rolls back when it fails or panics.
func finish(ctx context.Context, tx pgx.Tx, fn func(ctx context.Context, tx pgx.Tx) error) error {
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit it does nothing; else fn's error counts
	if err := fn(ctx, tx); err != nil {
		return whole(tx.Conn(), err)
	}
	return committed(tx.Commit(ctx))
}

// committed wraps the error of a commit as unknown, unless Postgres sent it: the connection broke
// before the reply came, so the outcome is not known. The driver may say that a retry is safe, but
// that is about reading the reply, not about the commit.
func committed(err error) error {
	var pg *pgconn.PgError
	if err == nil || errors.As(err, &pg) {
		return err
	}
	return &unknown{err}
}

// whole wraps err, of a transaction that is not committed yet, as a rolledBackError if its
// connection broke. Drivers report that in many ways, and errors after the first one are different.
func whole(conn *pgx.Conn, err error) error {
	if err == nil || !conn.IsClosed() {
		return err
	}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return err
		}
	}
	return &rolledBackError{err}
}

// repeatable reports whether err, of the attempt with this number, undid the whole transaction for
// a reason that may not recur.
func repeatable(err error, try int) bool {
	if IsUnknown(err) {
		return false
	}
	if errors.Is(err, ErrRepeat) {
		return true
	}
	// If no connection can be made, retrying at once is useless.
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return false
	}
	var broke *rolledBackError
	if errors.As(err, &broke) || pgconn.SafeToRetry(err) {
		return true
	}
	var early *notBegunError
	if errors.As(err, &early) {
		// A pooled connection that died meanwhile, for example when the server restarted.
		return isConnectionError(early.error)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "40001", "40P01": // serialization failure, deadlock
			return true
		case codeReadOnly: // the next connection may be to another server
			return try == 1
		}
	}
	return false
}
