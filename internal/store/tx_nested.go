package store

// This file lets a transaction hold others: what runs under its context enters
// the doors of tx.go within it, so that all of it is committed or none.

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

// outerTx is a transaction that others run in, one after the other. What it runs
// as is where they leave it.
type outerTx struct {
	core *core
	tx   pgx.Tx
	as   entered
}

// entered is what a transaction runs as.
type entered struct {
	role   role
	tenant string
	lane   Lane
}

const nestSQL = enterSQL + `, set_config('statement_timeout', $3, true)`

func (e entered) enter(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, nestSQL, e.role, e.tenant, e.lane.milliseconds()); err != nil {
		return fmt.Errorf("enter as %s: %w", e.role, err)
	}
	return nil
}

type outerTxKey struct{}

// within makes the doors of o's store, in any lane, part of o when they are
// entered under the context.
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

// nest runs fn in a savepoint, in a role, for a tenant and in a lane of its own. A
// failure undoes what fn did and no more. The isolation is the outer one's: read
// committed.
func (o *outerTx) nest(ctx context.Context, as entered, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if o.tx.Conn().IsClosed() {
		return fmt.Errorf("the connection of the transaction is gone: %w", schema.ErrUnavailable)
	}
	tx, err := o.tx.Begin(ctx)
	if err != nil {
		return lostOuter(err)
	}
	err = finish(ctx, tx, func(ctx context.Context, tx pgx.Tx) error {
		if as != o.as {
			if err := as.enter(ctx, tx); err != nil {
				return err
			}
		}
		if err := fn(within(ctx, outerTx{core: o.core, tx: tx, as: as}), tx); err != nil || as == o.as {
			return err // with the savepoint goes what was entered as
		}
		return o.as.enter(ctx, tx)
	})
	if err != nil && o.tx.Conn().IsClosed() {
		return lostOuter(err)
	}
	return err
}

// lostOuter is an error of a transaction that cannot go on: repeating a part of
// it is no use, whatever err says.
func lostOuter(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("the connection of the transaction is gone: %w: %w", schema.ErrUnavailable, errors.New(err.Error()))
}
