package main

// This file measures what it costs to ingest the same documents into many collections instead of
// one, in a whole running Sluice and through its API: processor time, transactions and workflows
// until curation is done.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/schema/api"
)

type collectionsCommand struct {
	Seed        uint64        `default:"1" help:"What documents are made from."`
	Rounds      int           `default:"3" help:"How often each side is measured, in turns."`
	Documents   int           `default:"2000" help:"Documents of a side."`
	Collections int           `default:"500" help:"Collections that they are divided among on the one side; the other has one."`
	Tenants     int           `default:"1" help:"Tenants that these collections are divided among."`
	Paragraphs  int           `default:"2" help:"Paragraphs of a document."`
	Program     string        `placeholder:"FILE" help:"The sluice to measure; the one beside this program when empty."`
	JSON        string        `placeholder:"FILE" help:"Write the findings there too, as JSON."`
	Timeout     time.Duration `default:"20m" help:"Longest time of the whole measurement."`
}

const (
	uploadersAtOnce = 4
	// statistics is how long PostgreSQL's idle backends may delay reporting their statistics.
	statistics = 11 * time.Second
)

func (c *collectionsCommand) Run(ctx context.Context) error {
	f, err := c.findings(ctx)
	if err != nil {
		return err
	}
	return report(c.JSON, f)
}

func (c *collectionsCommand) findings(ctx context.Context) (_ *findings, err error) {
	if c.Rounds < 1 || c.Tenants < 1 || c.Collections < c.Tenants || c.Documents < c.Collections {
		return nil, errors.New("rounds and tenants must be above 0, collections no fewer than tenants and documents no fewer than collections")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	program, err := siblingProgram(c.Program, "sluice")
	if err != nil {
		return nil, err
	}
	progressf("collections: starting")
	b, err := newInstallation(ctx, program)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	f := &findings{Part: "collections", Corpus: fmt.Sprintf("%d documents made from seed %d", c.Documents, c.Seed)}
	if err := c.measure(ctx, b, f); err != nil {
		return nil, fmt.Errorf("collections: %w", err)
	}
	return f, nil
}

// roundCost is the cost of one side in one round.
type roundCost struct {
	wall         float64 // seconds until the last document is ready
	cpu          map[part]float64
	transactions float64
	workflows    float64
	curations    float64 // number of curation workflows
}

func (s roundCost) seconds() float64 {
	sum := 0.0
	for _, seconds := range s.cpu {
		sum += seconds
	}
	return sum
}

func (c *collectionsCommand) measure(ctx context.Context, b *installation, f *findings) error {
	db, err := b.database(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx)) //nolint:errcheck // a connection that only read
	random := rand.New(rand.NewPCG(c.Seed, 0))
	// The first load warms up caches, query plans and the vectors' tables. It is not counted.
	if _, err := c.load(ctx, b, db, random, 10, 1, 100); err != nil {
		return err
	}
	sides := []struct {
		name                 string
		collections, tenants int
	}{{"in one collection", 1, 1}, {fmt.Sprintf("in %d collections", c.Collections), c.Collections, c.Tenants}}
	spent := make([][]roundCost, len(sides))
	progressf("collections: measuring")
	for round := range c.Rounds {
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			s, err := c.load(ctx, b, db, random, sides[i].collections, sides[i].tenants, c.Documents)
			if err != nil {
				return fmt.Errorf("round %d %s: %w", round+1, sides[i].name, err)
			}
			progressf("collections: %s: %.1f s, CPU %.1f s %v, %.0f transactions, %.0f workflows, %.0f of them curations", sides[i].name, s.wall, s.seconds(), s.cpu, s.transactions, s.workflows, s.curations)
			spent[i] = append(spent[i], s)
		}
	}
	each := func(i int, value func(roundCost) float64) (out []float64) {
		for _, s := range spent[i] {
			out = append(out, value(s))
		}
		return out
	}
	documents := float64(c.Documents)
	for i, side := range sides {
		of := func(p part) float64 { return median(each(i, func(s roundCost) float64 { return s.cpu[p] })) }
		f.note(side.name, "%.1f s; CPU s: sluice %.1f, PostgreSQL %.1f, Temporal %.1f, models %.1f, NATS %.1f; %.0f workflows, %.0f of them curations",
			median(each(i, func(s roundCost) float64 { return s.wall })), of(partSluice)+of(partParse), of(partSQL), of(partTemporal), of(partModel), of(partNATS),
			median(each(i, func(s roundCost) float64 { return s.workflows })), median(each(i, func(s roundCost) float64 { return s.curations })))
	}
	f.compare(ratio{What: "processor time, in many collections", Unit: "CPU s", Ours: each(1, roundCost.seconds), Other: each(0, roundCost.seconds),
		Against: "in one", Target: 2, AtMost: true})
	f.compare(ratio{What: "wall time", Unit: "s", Ours: each(1, func(s roundCost) float64 { return s.wall }),
		Other: each(0, func(s roundCost) float64 { return s.wall }), Against: "in one", Target: 2, AtMost: true})
	f.compare(ratio{What: "transactions of a document, in one collection", Unit: "", Ours: each(0, func(s roundCost) float64 { return s.transactions / documents }),
		Target: 1.5, AtMost: true})
	f.compare(ratio{What: "transactions of a document, in many", Unit: "", Ours: each(1, func(s roundCost) float64 { return s.transactions / documents })})
	f.compare(ratio{What: "workflows of 1,000 documents, in many", Unit: "", Ours: each(1, func(s roundCost) float64 { return s.workflows / documents * 1000 }),
		Target: 40, AtMost: true})
	return nil
}

// load creates tenants and collections, uploads documents, and returns the cost from the first
// upload until everything is curated.
func (c *collectionsCommand) load(ctx context.Context, b *installation, db *pgx.Conn, random *rand.Rand, collections, tenants, documents int) (out roundCost, err error) {
	operator, err := b.client()
	if err != nil {
		return out, err
	}
	clients := make([]*apiclient.Client, tenants)
	var ids []uuid.UUID
	for i := range clients {
		created, err := operator.CreateTenant(ctx, api.NewTenant{Name: fmt.Sprintf("tenant-%d", random.Int64())})
		if err != nil {
			return out, fmt.Errorf("make a tenant: %w", err)
		}
		ids = append(ids, created.ID)
		if clients[i], err = apiclient.New(b.access.URL, created.APIKey); err != nil {
			return out, err
		}
	}
	for i := range collections {
		if _, err := clients[i%tenants].CreateCollection(ctx, api.NewCollection{Name: fmt.Sprintf("collection-%d", i)}); err != nil {
			return out, fmt.Errorf("make a collection: %w", err)
		}
	}
	// Both sides send the same number of requests, with the same number of documents each.
	size := max(1, documents/c.Collections)
	var loads [][]api.NewDocument
	for n := 0; n < documents; n += size {
		w := &writer{random: random, topic: topics()[n%len(topics())]}
		var docs []api.NewDocument
		for i := n; i < min(documents, n+size); i++ {
			w.turn()
			var text strings.Builder
			fmt.Fprintf(&text, "# %s\n\n", w.heading())
			for range c.Paragraphs {
				text.WriteString(w.paragraph() + "\n\n")
			}
			docs = append(docs, api.NewDocument{ExternalID: fmt.Sprintf("document-%d", i), MediaType: "text/markdown", Content: []byte(text.String())})
		}
		loads = append(loads, docs)
	}
	if err := rest(ctx, statistics); err != nil {
		return out, err
	}
	before, err := b.readCounters(ctx, db)
	if err != nil {
		return out, err
	}
	begin := time.Now()
	group, uploading := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range uploadersAtOnce {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(loads) {
					return nil
				}
				at := i % collections
				if _, err := clients[at%tenants].Upload(uploading, fmt.Sprintf("collection-%d", at), loads[i]); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return out, err
	}
	polls, err := waitUntilZero(ctx, db, `SELECT count(*) FROM versions WHERE tenant_id = ANY ($1) AND state IN ('received', 'queued', 'processing')`, ids)
	if err != nil {
		return out, err
	}
	out.wall = time.Since(begin).Seconds()
	var failed int
	if err := db.QueryRow(ctx, `SELECT count(*) FROM versions WHERE tenant_id = ANY ($1) AND state <> 'ready'`, ids).Scan(&failed); err != nil {
		return out, fmt.Errorf("count documents: %w", err)
	}
	if failed > 0 {
		return out, fmt.Errorf("%d of %d documents are not ready", failed, documents)
	}
	more, err := waitUntilZero(ctx, db, uncurated, ids)
	if err != nil {
		return out, err
	}
	if err := rest(ctx, statistics); err != nil {
		return out, err
	}
	after, err := b.readCounters(ctx, db)
	if err != nil {
		return out, err
	}
	if out.cpu, err = after.usage.since(before.usage); err != nil {
		return out, err
	}
	out.transactions = after.transactions - before.transactions - float64(polls+more+1)
	out.workflows, out.curations = after.workflows-before.workflows, after.curations-before.curations
	return out, nil
}

const uncurated = `SELECT count(*) FROM versions WHERE tenant_id = ANY ($1) AND state IN ('ready', 'superseded') AND NOT curated`

// rest waits until the work is done and its statistics have been reported.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// waitUntilZero repeats a query for a number until it returns 0, and returns how often it was run.
func waitUntilZero(ctx context.Context, db *pgx.Conn, query string, tenants []uuid.UUID) (polls int, err error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for polls = 1; ; polls++ {
		var n int
		if err := db.QueryRow(ctx, query, tenants).Scan(&n); err != nil {
			return polls, fmt.Errorf("look at the documents: %w", err)
		}
		if n == 0 {
			return polls, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return polls, fmt.Errorf("wait for the documents: %w", context.Cause(ctx))
		}
	}
}

// counterReading has all counters at one moment.
type counterReading struct {
	usage                              usage
	transactions, workflows, curations float64
}

func (b *installation) readCounters(ctx context.Context, db *pgx.Conn) (out counterReading, err error) {
	if out.usage, err = account(b.sluice.cmd.Process.Pid, b.nats.cmd.Process.Pid); err != nil {
		return out, err
	}
	if err := db.QueryRow(ctx, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1`, local.Database).Scan(&out.transactions); err != nil {
		return out, fmt.Errorf("count transactions: %w", err)
	}
	samples, err := scrape(ctx, b.metrics)
	if err != nil {
		return out, err
	}
	for _, s := range samples {
		if s.Metric[model.MetricNameLabel] != "temporal_workflow_endtoend_latency_seconds_count" {
			continue
		}
		out.workflows += float64(s.Value)
		if strings.HasPrefix(string(s.Metric["workflow_type"]), "Curate") {
			out.curations += float64(s.Value)
		}
	}
	return out, nil
}

// database connects to PostgreSQL of `sluice up` as superuser.
func (b *installation) database(ctx context.Context) (*pgx.Conn, error) {
	at, err := b.databaseURL("postgres")
	if err != nil {
		return nil, err
	}
	db, err := pgx.Connect(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	return db, nil
}

// databaseURL returns the URL with which a role connects to PostgreSQL of `sluice up`.
func (b *installation) databaseURL(role string) (string, error) {
	dir := filepath.Join(b.dir, "data", "postgres")
	password, err := os.ReadFile(filepath.Join(dir, role+".password"))
	if err != nil {
		return "", fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	file, err := os.Open(filepath.Join(dir, "cluster", "postmaster.pid")) // its fourth line is the port
	if err != nil {
		return "", fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	lines := bufio.NewScanner(file)
	for range 4 {
		lines.Scan()
	}
	at := url.URL{Scheme: "postgres", User: url.UserPassword(role, strings.TrimSpace(string(password))),
		Host: net.JoinHostPort(local.Host, strings.TrimSpace(lines.Text())), Path: "/" + local.Database}
	return at.String(), nil
}
