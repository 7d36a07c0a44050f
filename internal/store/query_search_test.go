package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	space     = "test-256"
	dimension = 256
)

// insertedDocument is a document that is written directly into the tables: one section with a
// passage per vector.
type insertedDocument struct {
	labels   []string
	metadata map[string][]string
	vectors  [][]float32
	dead     bool // no version is live
	deleted  bool

	id, version, section uuid.UUID
	passages             []uuid.UUID
}

// plant writes documents into a collection, and sets its space to the test's.
func (f *fixture) plant(t *testing.T, p schema.Principal, collection uuid.UUID, documents []*insertedDocument) {
	t.Helper()
	err := f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO spaces (name, dimension) VALUES ($1, $2) ON CONFLICT DO NOTHING`, space, dimension)
		batch.Queue(`UPDATE collections SET space_id = (SELECT id FROM spaces WHERE name = $2) WHERE id = $1`, collection, space)
		for _, d := range documents {
			d.id, d.version, d.section = schema.NewID(), schema.NewID(), schema.NewID()
			batch.Queue(`INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id, last_version_id, deleted_at)
				VALUES ($1, $2, $3, $4, CASE WHEN $6 THEN NULL ELSE $5::uuid END, $5, CASE WHEN $7 THEN now() END)`,
				p.Tenant, d.id, collection, d.id.String(), d.version, d.dead, d.deleted)
			batch.Queue(`INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, title, sha256, bytes, fingerprint)
				VALUES ($1, $2, $3, $4, 1, 'ready', 'A title', '\x00', 1, 'f')`, p.Tenant, d.version, d.id, collection)
			for _, l := range d.labels {
				batch.Queue(`INSERT INTO version_labels VALUES ($1, $2, $3)`, p.Tenant, d.version, l)
			}
			for key, values := range d.metadata {
				for i, v := range values {
					whole, at := typed(v)
					batch.Queue(`INSERT INTO version_metadata VALUES ($1, $2, $3, $4, $5, $6, $7)`, p.Tenant, d.version, key, i, v, whole, at)
				}
			}
			body := strings.Repeat("é passage. ", len(d.vectors))
			batch.Queue(`INSERT INTO sections VALUES ($1, $2, $3, $4, $5, 0, '{A,B}', $6, 10, '{0,12}', '{3,4}')`,
				p.Tenant, d.section, d.version, d.id, collection, body)
			for i, v := range d.vectors {
				id := schema.NewID()
				d.passages = append(d.passages, id)
				batch.Queue(`INSERT INTO passages VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 3)`, p.Tenant, id, d.section, d.version, collection, i, 12*i, 12*(i+1))
				batch.Queue(`INSERT INTO vectors_256 VALUES ($1, $2, (SELECT id FROM spaces WHERE name = $3), $4, $5, $6)`,
					p.Tenant, collection, space, id, d.version, pgvector.NewHalfVector(v))
			}
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func typed(v string) (whole *int64, at *time.Time) {
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		whole = &n
	}
	if t, ok := schema.ParseTime(v); ok {
		at = &t
	}
	return whole, at
}

func unit(r *rand.Rand) []float32 {
	v := make([]float32, dimension)
	sum := 0.0
	for i := range v {
		v[i] = float32(r.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func query(p schema.Principal, collection uuid.UUID, v []float32, k int) dense.NearestQuery {
	return dense.NearestQuery{Principal: p, Collection: collection, Space: space, Vector: v, K: k}
}

func TestNearestIsExact(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	var documents []*insertedDocument
	for range 60 {
		d := &insertedDocument{}
		for range 25 {
			d.vectors = append(d.vectors, unit(r))
		}
		documents = append(documents, d)
	}
	f.plant(t, f.a, f.collection, documents)
	stored := map[uuid.UUID][]float32{}
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT passage_id, embedding::vector::real[] FROM vectors_256`)
		if err != nil {
			return err
		}
		var id uuid.UUID
		var v []float32
		_, err = pgx.ForEachRow(rows, []any{&id, &v}, func() error { stored[id] = slices.Clone(v); return nil })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const k = 20
	found := 0
	for range 25 {
		q := unit(r)
		similarities := map[uuid.UUID]float64{}
		var ranked []float64
		for id, v := range stored {
			for i := range v {
				similarities[id] += float64(v[i]) * float64(q[i])
			}
			ranked = append(ranked, similarities[id])
		}
		slices.SortFunc(ranked, func(a, b float64) int { return cmp.Compare(b, a) })
		hits, err := f.Nearest(t.Context(), query(f.a, f.collection, q, k))
		if err != nil || len(hits) != k {
			t.Fatalf("got %d hits, %v", len(hits), err)
		}
		for i, h := range hits {
			// The question's vector is rounded to 16 bits too.
			if similarities[h.Passage] >= ranked[k-1]-2e-4 {
				found++
			}
			if math.Abs(similarities[h.Passage]-h.Similarity) > 1e-3 {
				t.Errorf("similarity %v, by hand %v", h.Similarity, similarities[h.Passage])
			}
			if i > 0 && (hits[i-1].Similarity < h.Similarity) {
				t.Errorf("hit %d is better than the one before", i)
			}
		}
	}
	if found != 25*k {
		t.Errorf("recall %d of %d", found, 25*k)
	}
}

func TestNearestNamesThePassage(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(3, 4))
	same := unit(r)
	d := &insertedDocument{vectors: [][]float32{same, same, same}}
	f.plant(t, f.a, f.collection, []*insertedDocument{d})
	hits, err := f.Nearest(t.Context(), query(f.a, f.collection, same, 10))
	if err != nil || len(hits) != 3 {
		t.Fatalf("got %d hits, %v", len(hits), err)
	}
	for i, h := range hits {
		if h.Passage != d.passages[i] {
			t.Error("equal passages do not come by their ids")
		}
		if h.Ref != (lexical.Ref{Version: d.version, Section: 0, Passage: i}) {
			t.Errorf("hit %d is %+v", i, h)
		}
	}
}

func TestNearestSeesWhatThePrincipalMaySee(t *testing.T) {
	f := setUp(t, store.Options{})
	v := unit(rand.New(rand.NewPCG(5, 6)))
	one := [][]float32{v}
	open, legal, both := &insertedDocument{vectors: one}, &insertedDocument{vectors: one, labels: []string{"legal"}}, &insertedDocument{vectors: one, labels: []string{"legal", "hr"}}
	hidden := []*insertedDocument{{vectors: one, dead: true}, {vectors: one, deleted: true}, {vectors: one, labels: []string{"board"}}}
	f.plant(t, f.a, f.collection, append(hidden, open, legal, both))
	f.plant(t, f.b, f.foreign, []*insertedDocument{{vectors: one}})
	for _, c := range []struct {
		groups []string
		want   []*insertedDocument
	}{
		{nil, []*insertedDocument{open}}, // an admin without groups as well
		{[]string{"legal"}, []*insertedDocument{open, legal, both}},
		{[]string{"hr", "sales"}, []*insertedDocument{open, both}},
		{[]string{"LEGAL", "' OR true --"}, []*insertedDocument{open}},
	} {
		p := f.a
		p.Groups = c.groups
		hits, err := f.Nearest(t.Context(), query(p, f.collection, v, 100))
		if err != nil {
			t.Fatal(err)
		}
		got, want := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
		for _, h := range hits {
			got[h.Ref.Version] = true
		}
		var ids []uuid.UUID
		for _, d := range c.want {
			want[d.version] = true
			ids = append(ids, d.section)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("groups %v see %v, want %v", c.groups, got, want)
		}
		for _, d := range append(hidden, open, legal, both) {
			ids = append(ids, d.section)
		}
		sections, err := f.Sections(t.Context(), p, ids)
		// A version that is not live any more is still text that may be cited.
		if err != nil || len(sections) != len(c.want)+1 {
			t.Errorf("groups %v may cite %d sections, want %d, %v", c.groups, len(sections), len(c.want)+1, err)
		}
	}
	if _, err := f.Nearest(t.Context(), query(f.a, f.foreign, v, 1)); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("another tenant's collection gave %v, want ErrNotFound", err)
	}
	if sections, err := f.Sections(t.Context(), f.b, []uuid.UUID{open.section}); err != nil || len(sections) != 0 {
		t.Errorf("another tenant's section: %v, %v", sections, err)
	}
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Nearest(t.Context(), query(f.a, f.collection, v, 1)); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("a deleted collection gave %v, want ErrNotFound", err)
	}
}

func TestNearestRefusesAnotherSpace(t *testing.T) {
	f := setUp(t, store.Options{})
	v := unit(rand.New(rand.NewPCG(7, 8)))
	if hits, err := f.Nearest(t.Context(), query(f.a, f.collection, v, 5)); err != nil || len(hits) != 0 {
		t.Errorf("an empty collection gave %v, %v", hits, err)
	}
	f.plant(t, f.a, f.collection, []*insertedDocument{{vectors: [][]float32{v}}})
	q := query(f.a, f.collection, v, 5)
	q.Space = "other-256"
	_, err := f.Nearest(t.Context(), q)
	var wrong *retrieval.SpaceError
	if !errors.As(err, &wrong) || wrong.Stored != space || wrong.Served != "other-256" || !errors.Is(err, schema.ErrConflict) {
		t.Errorf("got %v, want a SpaceError", err)
	}
}

var values = []string{"red", "green", "Zoë", "a b", "2023", "2024", "-7", "9", "10", "2024-03-01", "2024-03-01T00:00:00Z", "2023-12-31T23:59:59Z", "true", "3.5", "'; DROP TABLE documents; --", ""}

// matches does what filterSQL should do, in plain code.
func matches(d *insertedDocument, f schema.Filter) bool {
	for _, c := range f {
		if !slices.ContainsFunc(d.metadata[c.Key], func(have string) bool { return satisfies(have, c) }) {
			return false
		}
	}
	return true
}

func satisfies(have string, c schema.Condition) bool {
	whole, at := typed(have)
	for _, v := range c.Values {
		boundWhole, boundAt := typed(v)
		order, comparable := 0, true
		if c.Op == schema.OpEq || c.Op == schema.OpIn {
			if have == v || whole != nil && boundWhole != nil && *whole == *boundWhole || at != nil && boundAt != nil && at.Equal(*boundAt) {
				return true
			}
			continue
		}
		switch {
		case boundWhole != nil && whole != nil:
			order = cmp.Compare(*whole, *boundWhole)
		case boundWhole != nil:
			comparable = false
		case boundAt != nil && at != nil:
			order = at.Compare(*boundAt)
		case boundAt != nil:
			comparable = false
		default:
			order = strings.Compare(have, v)
		}
		if comparable && (c.Op == schema.OpLt && order < 0 || c.Op == schema.OpLe && order <= 0 || c.Op == schema.OpGt && order > 0 || c.Op == schema.OpGe && order >= 0) {
			return true
		}
	}
	return false
}

func TestFiltersNarrowAsTheOracle(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(9, 10))
	var documents []*insertedDocument
	for range 80 {
		d := &insertedDocument{vectors: [][]float32{unit(r)}, metadata: map[string][]string{}}
		for _, key := range []string{"colour", "year", "a key"} {
			for range r.IntN(3) {
				d.metadata[key] = append(d.metadata[key], values[r.IntN(len(values))])
			}
		}
		documents = append(documents, d)
	}
	f.plant(t, f.a, f.collection, documents)
	v := unit(r)
	matched := 0
	rapid.Check(t, func(rt *rapid.T) {
		filter := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) schema.Condition {
			c := schema.Condition{
				Key: rapid.SampledFrom([]string{"colour", "year", "a key", "missing"}).Draw(rt, "key"),
				Op:  rapid.SampledFrom([]schema.Op{schema.OpEq, schema.OpLt, schema.OpLe, schema.OpGt, schema.OpGe, schema.OpIn}).Draw(rt, "op"),
			}
			n := 1
			if c.Op == schema.OpIn {
				n = rapid.IntRange(1, 4).Draw(rt, "n")
			}
			for range n {
				c.Values = append(c.Values, rapid.SampledFrom(values).Draw(rt, "value"))
			}
			return c
		}), 0, 3).Draw(rt, "filter")
		q := query(f.a, f.collection, v, 100)
		q.Filter = filter
		hits, err := f.Nearest(context.Background(), q)
		if slices.ContainsFunc(filter, func(c schema.Condition) bool {
			return c.Op != schema.OpEq && c.Op != schema.OpIn && c.Values[0] == "3.5"
		}) {
			if !errors.Is(err, schema.ErrInvalid) {
				rt.Fatalf("a fractional bound gave %v, want ErrInvalid", err)
			}
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		got := map[uuid.UUID]bool{}
		for _, h := range hits {
			got[h.Ref.Version] = true
		}
		for _, d := range documents {
			if want := matches(d, filter); want != got[d.version] {
				rt.Fatalf("document with %v: found %v, want %v", d.metadata, got[d.version], want)
			} else if want && len(filter) > 0 {
				matched++
			}
		}
	})
	if matched == 0 {
		t.Error("no filter matched anything: the test proves nothing")
	}
}
