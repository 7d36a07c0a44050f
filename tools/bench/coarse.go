package main

// This file measures search over clusters: exact BM25 of the index against PostgreSQL's own ranking
// with a GIN index over the same texts. Our results are compared with scoring every cluster.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/schema"
)

type coarseCommand struct {
	common
	Clusters int           `default:"5500" help:"How many clusters there are."`
	K        int           `default:"20" help:"How many clusters are wanted."`
	Queries  int           `default:"2000" help:"How many questions are asked."`
	Checked  int           `default:"50" help:"How many of them are checked against scoring every cluster."`
	Callers  int           `default:"16" help:"How many ask at a time, of either side."`
	Slice    time.Duration `default:"4s" help:"Longest time of a side in a round."`
}

func (c *coarseCommand) Run(ctx context.Context) error { return c.run(ctx, "coarse", c.measure) }

const (
	clusterTokens = 4096
	indexCache    = 1 << 30 // bytes of index data in memory
)

// cluster is a set of sections, given by their positions in the loaded documents.
type cluster struct {
	id       uuid.UUID
	sections [][2]int // document, section
	tokens   int
}

func (c *coarseCommand) measure(ctx context.Context, b *workbench, t texts, f *findings) error {
	s, err := b.newSpace(ctx, "coarse")
	if err != nil {
		return err
	}
	l := &loader{workbench: b, space: s, keep: true}
	progressf("coarse: loading")
	docs := first(t, c.Clusters*clusterTokens/(passageWords*4/3)*95/100)
	if err := l.load(ctx, docs); err != nil {
		return err
	}
	if err := b.mergeAll(ctx, s); err != nil { // as curation does
		return err
	}
	all := l.cluster(docs, clusterTokens)
	if err := l.saveClusters(ctx, all); err != nil {
		return err
	}
	if err := c.others(ctx, b, docs, all); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	tokens := 0
	for _, k := range all {
		tokens += k.tokens
	}
	f.note("corpus", "%d clusters of %d tokens on average, of %d documents", len(all), tokens/len(all), len(docs))
	index := search.NewIndex(b.store, indexCache)
	queries := questions(docs, c.Queries, c.Seed)
	find := func(ctx context.Context, q string) (lexical.Result, error) {
		return index.SearchText(ctx, s.Tenant, s.collection, q, lexical.TermQuery{Unit: schema.UnitCluster, K: c.K, Settings: lexical.Defaults})
	}
	progressf("coarse: checking")
	if err := c.check(ctx, docs, all, queries[:min(len(queries), c.Checked)], find); err != nil {
		return err
	}
	f.note("exact", "%d questions give the ids, the order and the scores of scoring every cluster", min(len(queries), c.Checked))
	ours := queryRounds("Sluice", queries, c.Callers, c.Slice, func(ctx context.Context, q string) error {
		r, err := find(ctx, q)
		if err == nil && len(r.Hits) == 0 {
			err = fmt.Errorf("%q finds nothing", q)
		}
		return err
	})
	other := queryRounds("ts_rank", queries, c.Callers, c.Slice, func(ctx context.Context, q string) error {
		rows, err := b.others.Query(ctx, `
			SELECT c.id, ts_rank(c.words, q) FROM others.clusters c, to_tsquery('english', $1) q
			WHERE c.words @@ q ORDER BY 2 DESC, 1 LIMIT $2`, anyWordQuery(q), c.K)
		if err != nil {
			return err
		}
		var id int
		var rank float32
		n, err := pgx.ForEachRow(rows, []any{&id, &rank}, func() error { return nil })
		if err == nil && n.RowsAffected() == 0 {
			err = fmt.Errorf("%q finds nothing", q)
		}
		return err
	})
	if err := c.measuring("coarse"); err != nil {
		return err
	}
	for range 2 { // warm up
		for _, s := range []side{ours, other} {
			if _, _, err := s.measure(ctx, 0); err != nil {
				return err
			}
		}
	}
	rates, err := rounds(ctx, c.Rounds, ours, other)
	if err != nil {
		return err
	}
	f.compare(ratio{What: fmt.Sprintf("BM25 top %d of clusters, %d callers", c.K, c.Callers), Unit: "queries/s", Ours: rates[0], Other: rates[1], Against: "ts_rank, GIN", Target: 100})
	return f.pure(ctx, index, s, queries, lexical.TermQuery{Unit: schema.UnitCluster, K: c.K, Settings: lexical.Defaults})
}

// cluster groups sections as clustering does: by topic, up to a number of tokens.
func (l *loader) cluster(docs []written, limit int) []cluster {
	order := make([]int, len(docs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return docs[a].topic - docs[b].topic })
	var out []cluster
	for _, i := range order {
		for n, sec := range l.kept[i].Text.Sections {
			if len(out) == 0 || out[len(out)-1].tokens+sec.Tokens > limit {
				out = append(out, cluster{id: schema.NewID()})
			}
			last := &out[len(out)-1]
			last.sections = append(last.sections, [2]int{i, n})
			last.tokens += sec.Tokens
		}
	}
	return out
}

// saveClusters writes what clustering would write.
func (l *loader) saveClusters(ctx context.Context, all []cluster) error {
	var clusters, members [][]any
	for _, k := range all {
		clusters = append(clusters, []any{l.Tenant, k.id, l.collection, 1, k.tokens, len(k.sections)})
		for _, at := range k.sections {
			d := l.kept[at[0]]
			sec := d.Text.Sections[at[1]]
			members = append(members, []any{l.Tenant, l.collection, 1, sec.ID, d.Version, sec.Ordinal, k.id, sec.Tokens, int64(1)})
		}
	}
	_, err := l.others.CopyFrom(ctx, pgx.Identifier{"clusters"}, []string{"tenant_id", "id", "collection_id", "generation", "tokens", "sections"}, pgx.CopyFromRows(clusters))
	if err == nil {
		_, err = l.others.CopyFrom(ctx, pgx.Identifier{"cluster_members"},
			[]string{"tenant_id", "collection_id", "generation", "section_id", "version_id", "section", "cluster_id", "tokens", "epoch"}, pgx.CopyFromRows(members))
	}
	if err == nil {
		_, err = l.others.Exec(ctx, `
			INSERT INTO clusterings (tenant_id, collection_id, generation, epoch, clustered_at) VALUES ($1, $2, 1, 1, now())
			ON CONFLICT (collection_id, generation, tenant_id) DO UPDATE SET epoch = 1`, l.Tenant, l.collection)
	}
	if err != nil {
		return fmt.Errorf("write clusters: %w", err)
	}
	return nil
}

// others creates the table for PostgreSQL's ranking: one row per cluster.
func (c *coarseCommand) others(ctx context.Context, b *workbench, docs []written, all []cluster) error {
	if err := b.execute(ctx, `CREATE TABLE others.clusters (id int PRIMARY KEY, words tsvector NOT NULL)`, `CREATE TABLE others.texts (id int, body text)`); err != nil {
		return err
	}
	_, err := b.others.CopyFrom(ctx, pgx.Identifier{"others", "texts"}, []string{"id", "body"}, pgx.CopyFromSlice(len(all), func(i int) ([]any, error) {
		return []any{i, all[i].text(docs)}, nil
	}))
	if err != nil {
		return fmt.Errorf("write the clusters' texts: %w", err)
	}
	return b.execute(ctx, `INSERT INTO others.clusters SELECT id, to_tsvector('english', body) FROM others.texts`, `DROP TABLE others.texts`,
		`CREATE INDEX ON others.clusters USING gin (words)`)
}

func (k cluster) text(docs []written) string {
	var b strings.Builder
	for _, at := range k.sections {
		b.WriteString(docs[at[0]].pieces[at[1]].text)
		b.WriteByte('\n')
	}
	return b.String()
}

// anyWordQuery returns a PostgreSQL query for texts with any of the words.
func anyWordQuery(question string) string {
	words := strings.Fields(question)
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(strings.ReplaceAll(w, `\`, ""), "'", "") + "'"
	}
	return strings.Join(words, " | ")
}

// check compares the results with scoring every cluster.
func (c *coarseCommand) check(ctx context.Context, docs []written, all []cluster, queries []string, find func(context.Context, string) (lexical.Result, error)) error {
	analyzer, err := lexical.NewAnalyzer("en")
	if err != nil {
		return err
	}
	o := newOracle(analyzer, queries)
	for _, k := range all {
		var passages []string
		for _, at := range k.sections {
			p := docs[at[0]].pieces[at[1]]
			for i := range p.starts {
				passages = append(passages, p.passage(i))
			}
		}
		o.add(k.id, passages)
	}
	for _, q := range queries {
		got, err := find(ctx, q)
		if err != nil {
			return err
		}
		if err := o.compare(q, c.K, got); err != nil {
			return errors.Join(errors.New("the result of Sluice is not exact"), err)
		}
	}
	return nil
}
