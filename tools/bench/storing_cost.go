package main

// This file counts the cost of one side: processor time of PostgreSQL and of this process, and
// bytes of the write-ahead log. On a busy machine these are more reliable than the clock.

import (
	"context"
	"fmt"
	"os"
)

// cost is processor time in seconds, and bytes of the write-ahead log.
type cost struct{ postgres, self, log float64 }

func (c cost) add(d cost) cost { return cost{c.postgres + d.postgres, c.self + d.self, c.log + d.log} }
func (c cost) sub(d cost) cost {
	return cost{c.postgres - d.postgres, c.self - d.self, c.log - d.log}
}

// cost returns the totals so far.
func (b *workbench) cost(ctx context.Context) (cost, error) {
	var out cost
	var err error
	if out.log, err = single[float64](ctx, b, `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8`); err != nil {
		return cost{}, err
	}
	backend, err := single[int](ctx, b, `SELECT pg_backend_pid()`)
	if err != nil {
		return cost{}, err
	}
	all, err := processes()
	if err != nil {
		return cost{}, err
	}
	p, found := all[backend]
	if !found {
		return cost{}, fmt.Errorf("a PostgreSQL backend (process %d) has ended", backend)
	}
	for _, p := range below(all, p.parent) {
		out.postgres += p.own + p.reaped
	}
	out.self = all[os.Getpid()].own
	return out, nil
}

// spent adds the cost of f to sum.
func (b *workbench) spent(ctx context.Context, sum *cost, f func() error) error {
	before, err := b.cost(ctx)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	after, err := b.cost(ctx)
	*sum = sum.add(after.sub(before))
	return err
}
