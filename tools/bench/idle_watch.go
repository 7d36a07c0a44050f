package main

// This file counts the cost of an idle Sluice, and waits until a server has no work left.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
)

const (
	// unfinishedSQL counts unfinished work of a server.
	unfinishedSQL = `
SELECT (SELECT count(*) FROM versions WHERE state IN ('received', 'queued', 'processing')) + (SELECT count(*) FROM outbox)
     + (SELECT count(*) FROM tenant_changes)
     + (SELECT count(*) FROM tenants t JOIN tenant_counts c ON c.tenant_id = t.id WHERE c.counted_at IS NULL)`
	// doneLooks is the number of checks in a row that must find no work left, doneEvery the pause
	// between them.
	doneLooks = 3
	doneEvery = 2 * time.Second
)

// untilDone waits until a server has no work left, and then makes PostgreSQL do its background work
// at once.
func (b *installation) untilDone(ctx context.Context) error {
	at, err := b.databaseURL(local.Program)
	if err != nil {
		return err
	}
	opened, err := store.Open(ctx, at, store.Options{Name: "bench"})
	if err != nil {
		return err
	}
	defer opened.Close()
	kept := stores.Of(opened)
	db, err := b.database(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx)) //nolint:errcheck // a connection that only read
	for polls := 0; polls < doneLooks; polls++ {
		var unfinished int
		if err := db.QueryRow(ctx, unfinishedSQL).Scan(&unfinished); err != nil {
			return fmt.Errorf("look at what is left to do: %w", err)
		}
		uncurated, err := kept.Uncurated(ctx, uuid.Nil, 0, 0, 1)
		if err != nil {
			return err
		}
		if unfinished+len(uncurated) > 0 {
			polls = -1
		}
		if err := rest(ctx, doneEvery); err != nil {
			return err
		}
	}
	for _, sql := range []string{`VACUUM (ANALYZE)`, `CHECKPOINT`} {
		if _, err := db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// idleWatch counts what a server costs.
type idleWatch struct {
	installation *installation
	db           *pgx.Conn
	readings     int // number of readings, each of which is one or two transactions
}

func newIdleWatch(ctx context.Context, b *installation) (*idleWatch, error) {
	db, err := b.database(ctx)
	return &idleWatch{installation: b, db: db}, err
}

func (w *idleWatch) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	_ = w.db.Close(ctx) // it only read
}

// statement is the cost of all calls of one statement.
type statement struct {
	text          string
	calls, millis float64
	log           float64 // bytes of the write-ahead log
}

// idleReading has all counters at one moment.
type idleReading struct {
	at                time.Time
	usage             usage
	transactions, log float64
	statements        map[int64]statement // by query id
}

// readingSQL reads PostgreSQL's statistics, without the superuser's statements, which are those of
// the measurement.
const (
	readingSQL = `
SELECT xact_commit + xact_rollback, (pg_current_wal_insert_lsn() - '0/0')::float8 FROM pg_stat_database WHERE datname = current_database()`
	statementsSQL = `
SELECT queryid, min(query), sum(calls)::float8, sum(total_exec_time)::float8, sum(wal_bytes)::float8
FROM pg_stat_statements WHERE userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
  AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY queryid`
	readingTransactions = 2
)

func (w *idleWatch) readCounters(ctx context.Context) (out idleReading, err error) {
	out.statements = map[int64]statement{}
	if err := w.db.QueryRow(ctx, readingSQL).Scan(&out.transactions, &out.log); err != nil {
		return out, fmt.Errorf("count transactions of %s: %w", local.Database, err)
	}
	rows, err := w.db.Query(ctx, statementsSQL)
	if err != nil {
		return out, fmt.Errorf("count statements: %w", err)
	}
	var id *int64
	var st statement
	if _, err := pgx.ForEachRow(rows, []any{&id, &st.text, &st.calls, &st.millis, &st.log}, func() error {
		if id != nil {
			out.statements[*id] = st
		}
		return nil
	}); err != nil {
		return out, fmt.Errorf("count statements: %w", err)
	}
	if out.usage, err = account(w.installation.sluice.cmd.Process.Pid, w.installation.nats.cmd.Process.Pid); err != nil {
		return out, err
	}
	out.at = time.Now()
	out.transactions -= float64(w.readings * readingTransactions)
	w.readings++
	return out, nil
}

// idleSpending is the cost of a server per minute.
type idleSpending struct {
	cpu               map[part]float64 // seconds
	transactions, log float64
	statements        float64
	each              map[int64]statement
}

func (s idleSpending) seconds() float64 {
	sum := 0.0
	for _, seconds := range s.cpu {
		sum += seconds
	}
	return sum
}

// since returns the cost per minute since an earlier moment.
func (t idleReading) since(before idleReading) (out idleSpending, err error) {
	minutes := t.at.Sub(before.at).Minutes()
	if out.cpu, err = t.usage.since(before.usage); err != nil {
		return out, err
	}
	for p := range out.cpu {
		out.cpu[p] /= minutes
	}
	out.transactions = (t.transactions - before.transactions) / minutes
	out.log = (t.log - before.log) / minutes
	out.each = map[int64]statement{}
	for id, st := range t.statements {
		was := before.statements[id]
		if st.calls -= was.calls; st.calls <= 0 {
			continue
		}
		st.calls, st.millis, st.log = st.calls/minutes, (st.millis-was.millis)/minutes, (st.log-was.log)/minutes
		out.statements += st.calls
		out.each[id] = st
	}
	return out, nil
}

// costliest returns the statements that took most of PostgreSQL's time, with their cost per minute.
func costliest(spent []idleSpending, limit int) []statement {
	sums := map[int64]statement{}
	for _, s := range spent {
		for id, st := range s.each {
			n, sum := float64(len(spent)), sums[id]
			sums[id] = statement{st.text, sum.calls + st.calls/n, sum.millis + st.millis/n, sum.log + st.log/n}
		}
	}
	var out []statement
	for _, st := range sums {
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b statement) int { return cmp.Or(cmp.Compare(b.millis, a.millis), cmp.Compare(a.text, b.text)) })
	return out[:min(limit, len(out))]
}

// shortened returns a statement on one line, cut to a maximum length.
func shortened(text string) string {
	const limit = 160
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > limit {
		return string(line[:limit]) + "…"
	}
	return string(line)
}
