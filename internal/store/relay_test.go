package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// round returns a relay's round with the limits of production.
func round(holder string) batch.Round {
	return batch.Round{Lease: batch.Lease{Holder: holder, TTL: time.Minute}, PerSubject: 100, Limit: 1000, Subjects: 500}
}

// published returns the ids of messages.
func published(messages []batch.Message) []int64 {
	ids := make([]int64, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	return ids
}

// relay claims what there is, and settles it as published.
func (f *fixture) relay(ctx context.Context, holder string) ([]batch.Message, error) {
	taken, err := f.RelayOutbox(ctx, batch.Relayed{}, round(holder))
	if err != nil {
		return nil, err
	}
	_, err = f.RelayOutbox(ctx, batch.Relayed{Holder: holder, Sent: published(taken.Messages), Subjects: taken.Subjects}, batch.Round{})
	return taken.Messages, err
}

// TestRelaysShareTheOutbox: while one relay publishes the rows that it claimed, others claim the
// rest; no row is claimed twice, and those of a subject stay in order.
func TestRelaysShareTheOutbox(t *testing.T) {
	for _, c := range []struct{ subjects, each int }{{2000, 1}, {40, 50}, {500, 4}} {
		t.Run(fmt.Sprintf("%d subjects", c.subjects), func(t *testing.T) {
			f := setUp(t, store.Options{})
			execAs(t, f, f.a, `INSERT INTO outbox (tenant_id, subject, message_id, payload)
				SELECT $1, 'test.' || lpad(s::text, 4, '0'), s || '.' || n, '{}' FROM generate_series(1, $2::int) s, generate_series(1, $3::int) n ORDER BY n, s`,
				f.a.Tenant, c.subjects, c.each)
			shares := map[string]int{}
			last := map[string]int64{}
			seen := map[int64]bool{}
			taken := map[string]batch.Taken{}
			done := map[string]batch.Relayed{}
			for active := true; active; {
				active = false
				for _, holder := range []string{"first", "second"} { // each publishes while the other claims
					r := round(holder)
					r.After = taken[holder].After
					next, err := f.RelayOutbox(t.Context(), done[holder], r)
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range next.Messages {
						if seen[m.ID] {
							t.Errorf("row %d was taken twice", m.ID)
						}
						if m.ID <= last[m.Subject] {
							t.Errorf("row %d of %s comes behind %d", m.ID, m.Subject, last[m.Subject])
						}
						seen[m.ID], last[m.Subject] = true, m.ID
					}
					shares[holder] += len(next.Messages)
					taken[holder] = next
					done[holder] = batch.Relayed{Holder: holder, Sent: published(next.Messages), Subjects: next.Subjects}
					active = active || len(next.Subjects) > 0
				}
			}
			if len(seen) != 2000 || shares["first"] < 500 || shares["second"] < 500 {
				t.Errorf("%d rows were relayed, by %v", len(seen), shares)
			}
			if n := one[int](t, f, f.a, `SELECT count(*) FROM outbox`); n != 0 {
				t.Errorf("%d rows are left", n)
			}
		})
	}
}

// TestFewSubjectsShareARound: a round of many subjects takes a hundred rows of each, one of few
// takes more, and none more rows of a subject than it has room for.
func TestFewSubjectsShareARound(t *testing.T) {
	for _, c := range []struct {
		subjects int
		room     map[string]int
		want     []int
	}{
		{2, nil, []int{400, 400}},
		{4, nil, []int{250, 250, 250, 250}},
		{4, map[string]int{"test.02": 7, "test.03": 300}, []int{250, 7, 250, 250}},
		{12, nil, slices.Repeat([]int{100}, 10)},
	} {
		f := setUp(t, store.Options{})
		execAs(t, f, f.a, `INSERT INTO outbox (tenant_id, subject, message_id, payload)
			SELECT $1, 'test.' || lpad(s::text, 2, '0'), s || '.' || n, '{}' FROM generate_series(1, $2::int) s, generate_series(1, 400) n`,
			f.a.Tenant, c.subjects)
		r := round("a")
		r.Room = c.room
		taken, err := f.RelayOutbox(t.Context(), batch.Relayed{}, r)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int, len(taken.Subjects))
		for _, m := range taken.Messages {
			got[slices.Index(taken.Subjects, m.Subject)]++
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d subjects, room %v: a round took %v, want %v", c.subjects, c.room, got, c.want)
		}
	}
}

// TestSubjectsOfADeadRelayAreTaken: once its lease has expired, and not before.
func TestSubjectsOfADeadRelayAreTaken(t *testing.T) {
	f := setUp(t, store.Options{})
	f.upload(t, f.a, f.collection, text("a", "x"))
	dead, err := f.RelayOutbox(t.Context(), batch.Relayed{}, round("dead"))
	if err != nil || len(dead.Messages) == 0 {
		t.Fatalf("took %+v, %v", dead, err)
	}
	if got, err := f.relay(t.Context(), "next"); err != nil || len(got) != 0 {
		t.Errorf("took %d rows that another relay has, %v", len(got), err)
	}
	execute(t, f.owner, `UPDATE outbox_claims SET until = now() - interval '1 s'`)
	got, err := f.relay(t.Context(), "next")
	if err != nil || !slices.EqualFunc(got, dead.Messages, func(a, b batch.Message) bool { return a.ID == b.ID }) {
		t.Errorf("took %+v, %v", got, err)
	}
	// Late calls of the first relay have no effect.
	f.upload(t, f.a, f.collection, text("b", "y"))
	more, err := f.RelayOutbox(t.Context(), batch.Relayed{}, round("next"))
	if err != nil || len(more.Messages) == 0 {
		t.Fatalf("took %+v, %v", more, err)
	}
	if _, err := f.RelayOutbox(t.Context(), batch.Relayed{Holder: "dead", Sent: published(dead.Messages), Subjects: dead.Subjects}, batch.Round{}); err != nil {
		t.Fatal(err)
	}
	if got, err := f.relay(t.Context(), "dead"); err != nil || len(got) != 0 {
		t.Errorf("took %d rows of a subject that it had lost, %v", len(got), err)
	}
}

// TestConcurrentWritersOfTheOutboxDoNotWait: while one commit waits for a standby that does not
// answer, others commit. NOTIFY would hold a lock on all databases until then.
func TestConcurrentWritersOfTheOutboxDoNotWait(t *testing.T) {
	f := &fixture{}
	server := ownServerWith(t, localtest.Dir(t), map[string]string{"synchronous_commit": "on", "wal_level": "replica", "max_wal_senders": "1"})
	f.url = server.URL()
	f.All = open(t, f.url, store.Options{})
	f.a, f.collection = f.tenant(t, "tenant-a")
	admin := connect(t, server.AdminURL("sluice"))
	defer admin.Close(context.Background()) //nolint:errcheck // a test's
	count := func(sql string) (n int) {
		if err := admin.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	standby := func(sql string) {
		for _, statement := range []string{sql, `SELECT pg_reload_conf()`} {
			if _, err := admin.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(commit string) error {
		return f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT set_config('synchronous_commit', $1, true)`, commit); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO outbox (tenant_id, subject, message_id, payload) VALUES ($1, 'test', 'a message', '{}')`, f.a.Tenant)
			return err
		})
	}
	standby(`ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	stalled, enough := make(chan error, 1), make(chan struct{})
	go func() { // the first commits may come before the server knows its standby
		for {
			if err := write("on"); err != nil {
				stalled <- err
				return
			}
			select {
			case <-enough:
				stalled <- nil
				return
			default:
			}
		}
	}()
	waittest.Until(t, func() string {
		if count(`SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`) == 0 {
			return "nobody waits for a standby"
		}
		return ""
	})
	close(enough)
	for range 3 {
		if err := write("local"); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(`SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND database = 0`); n != 0 {
		t.Errorf("%d locks are held on what is no database's", n)
	}
	// Nor does anybody wait for a publishing relay: it holds no transaction.
	if taken, err := f.RelayOutbox(t.Context(), batch.Relayed{}, round("a relay")); err != nil || len(taken.Messages) < 3 {
		t.Errorf("took %+v, %v", taken, err)
	}
	if n := count(`SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'`); n != 0 {
		t.Errorf("%d transactions are open while a relay publishes", n)
	}
	standby(`ALTER SYSTEM RESET synchronous_standby_names`)
	if err := <-stalled; err != nil {
		t.Fatal(err)
	}
}
