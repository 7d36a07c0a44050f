package store

// This file nests transactions: under the context of an outer one, the functions of tx.go run
// within it, so that either all of it is committed or nothing.

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

// outerTx is a transaction in which others run, one after the other. as is its own role, tenant and
// lane, which the others restore.
type outerTx struct {
	core *core
	tx   pgx.Tx
	as   txScope
}

// txScope is the role, tenant and lane of a transaction.
type txScope struct {
	role   role
	tenant string
	lane   Lane
}

const setScopeSQL = setRoleSQL + `, set_config('statement_timeout', $3, true)`

func (e txScope) set(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, setScopeSQL, e.role, e.tenant, e.lane.milliseconds()); err != nil {
		return fmt.Errorf("enter as %s: %w", e.role, err)
	}
	return nil
}

type outerTxKey struct{}

// within returns a context under which the transactions of o's store, in any lane, run within o.
func within(ctx context.Context, o outerTx) context.Context {
	return context.WithValue(ctx, outerTxKey{}, &o)
}

// outerOf returns the transaction of s that ctx is within, or nil.
func outerOf(ctx context.Context, s *Store) *outerTx {
	if o, _ := ctx.Value(outerTxKey{}).(*outerTx); o != nil && o.core == s.core {
		return o
	}
	return nil
}

// savepoint runs fn in a savepoint, with a role, tenant and lane of its own. A failure undoes only
// what fn did. The isolation level is the outer one's, read committed.
func (o *outerTx) savepoint(ctx context.Context, as txScope, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if o.tx.Conn().IsClosed() {
		return fmt.Errorf("the connection of the transaction is gone: %w", schema.ErrUnavailable)
	}
	tx, err := o.tx.Begin(ctx)
	if err != nil {
		return outerLostError(err)
	}
	err = finish(ctx, tx, func(ctx context.Context, tx pgx.Tx) error {
		if as != o.as {
			if err := as.set(ctx, tx); err != nil {
				return err
			}
		}
		if err := fn(within(ctx, outerTx{core: o.core, tx: tx, as: as}), tx); err != nil || as == o.as {
			return err // the rollback of the savepoint also restores the role, tenant and lane
		}
		return o.as.set(ctx, tx)
	})
	if err != nil && o.tx.Conn().IsClosed() {
		return outerLostError(err)
	}
	return err
}

// outerLostError returns the error of a transaction whose connection is gone. It hides err's kind,
// because repeating a part of the transaction is useless.
func outerLostError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("the connection of the transaction is gone: %w: %w", schema.ErrUnavailable, errors.New(err.Error()))
}
