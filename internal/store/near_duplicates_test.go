package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/minhash"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// contract returns the text of a contract with a fee, in two sections.
func contract(fee string) string {
	var clauses []string
	for i := range 30 {
		clauses = append(clauses, fmt.Sprintf("Clause%d binds party%d and keeps duty%d alive.", i, i, i))
	}
	return strings.Join(clauses[:15], " ") + "/The monthly fee of the service is EUR " + fee + " in total. |" + strings.Join(clauses[15:], " ")
}

func (f *fixture) near(t *testing.T, p schema.Principal, w *written) schema.Document {
	t.Helper()
	d, err := f.Document(t.Context(), p, w.id)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func namesOf(d schema.Document) (out []string) {
	for _, n := range d.NearDuplicates {
		name := n.ExternalID + " " + string(n.By)
		if n.Newer {
			name += " newer"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func expectNear(t *testing.T, d schema.Document, want ...string) {
	t.Helper()
	if got := namesOf(d); !slices.Equal(got, want) || d.NearDuplicates == nil || d.NotCompared != "" {
		t.Errorf("%s: %q (%s), want %q", d.ExternalID, got, d.NotCompared, want)
	}
}

func TestNearDuplicatesAreFound(t *testing.T) {
	f := setUp(t, store.Options{})
	first := &written{name: "contract.md", body: contract("500")}
	f.write(t, f.a, f.collection, first)
	expectNear(t, f.near(t, f.a, first))
	place := func() bool {
		p, err := f.CollectionState(t.Context(), f.a, f.collection)
		if err != nil {
			t.Fatal(err)
		}
		return p.Paired
	}
	if place() {
		t.Error("one document is paired")
	}
	v2, v3 := &written{name: "contract_v2.docx", body: contract("600")}, &written{name: "contract v3 final.txt", body: contract("650")}
	secret := &written{name: "contract v4.txt", body: contract("700"), labels: []string{"legal"}}
	other := &written{name: "other.md", body: strings.ReplaceAll(contract("500"), "u", "zz")}
	short := &written{name: "short.md", body: "This page is left blank."}
	f.write(t, f.a, f.collection, v2, v3, secret, other, short) // in one batch
	if !place() {
		t.Error("versions of a contract are not paired")
	}
	all := f.near(t, f.a, v2)
	expectNear(t, all, "contract v3 final.txt version newer", "contract v4.txt version newer", "contract.md upload")
	for _, n := range all.NearDuplicates {
		if n.Similarity < 0.8 || n.Similarity > 1 {
			t.Errorf("%s has similarity %g", n.ExternalID, n.Similarity)
		}
	}
	reader := f.reader()
	expectNear(t, f.near(t, reader, v2), "contract v3 final.txt version newer", "contract.md upload")
	expectNear(t, f.near(t, reader, other))
	if d := f.near(t, f.a, short); d.NearDuplicates != nil || !strings.Contains(d.NotCompared, "fewer than 50") {
		t.Errorf("a short document: %v, %q", d.NearDuplicates, d.NotCompared)
	}
	// Another collection, and another tenant, have versions of their own.
	foreign := &written{name: "contract v5.md", body: contract("800")}
	f.write(t, f.b, f.foreign, foreign)
	expectNear(t, f.near(t, f.b, foreign))

	// A new version replaces the document's old one; a deleted document is gone.
	v2.body = strings.ReplaceAll(contract("1"), "a", "yy")
	f.write(t, f.a, f.collection, v2)
	expectNear(t, f.near(t, reader, first), "contract v3 final.txt upload newer")
	if err := f.DeleteDocument(t.Context(), f.a, v3.id); err != nil {
		t.Fatal(err)
	}
	expectNear(t, f.near(t, reader, first))
	for table, want := range map[string]int{"document_signatures": 5, "document_signature_keys": 4 * minhash.Bands} {
		if n := one[int](t, f, f.a, `SELECT count(*)::int FROM `+table); n != want {
			t.Errorf("%s has %d rows, want %d", table, n, want)
		}
	}

	// A version from an older build has no signature.
	execAs(t, f, f.a, `DELETE FROM document_signatures WHERE version_id = $1`, first.version)
	if d := f.near(t, f.a, first); d.NearDuplicates != nil || !strings.Contains(d.NotCompared, "ingested by a build") {
		t.Errorf("without a signature: %v, %q", d.NearDuplicates, d.NotCompared)
	}
}

// A transaction that cannot see yet what another one writes waits for it, so that both
// are paired.
func TestNearDuplicatesWrittenDuringAnotherWriteArePaired(t *testing.T) {
	f := setUp(t, store.Options{})
	first, second := &written{name: "contract v1.md", body: contract("100")}, &written{name: "contract v2.md", body: contract("200")}
	f.write(t, f.a, f.collection, first)
	var kept struct {
		signature []byte
		keys      []int64
	}
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `DELETE FROM document_signatures WHERE version_id = $1 RETURNING signature, keys`, first.version).Scan(&kept.signature, &kept.keys)
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM document_signature_keys WHERE version_id = $1`, first.version)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	docs := f.prepare(t, f.a, f.collection, second)
	done := make(chan struct{})
	err = f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		for _, x := range []struct {
			sql  string
			args []any
		}{
			{`SELECT pg_advisory_xact_lock(hashtextextended('signatures ' || $1::text || ' ' || $2::text, 0))`, []any{f.a.Tenant, f.collection}},
			{`INSERT INTO document_signatures (tenant_id, collection_id, version_id, signature, keys) VALUES ($1, $2, $3, $4, $5)`,
				[]any{f.a.Tenant, f.collection, first.version, kept.signature, kept.keys}},
			{`INSERT INTO document_signature_keys (tenant_id, version_id, key) SELECT $1, $2, unnest($3::bigint[])`, []any{f.a.Tenant, first.version, kept.keys}},
		} {
			if _, err := tx.Exec(ctx, x.sql, x.args...); err != nil {
				return err
			}
		}
		go func() {
			defer close(done)
			if out, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(out) > 0 {
				t.Errorf("outcomes %v, %v", out, err)
			}
		}()
		for waits := false; !waits; {
			select {
			case <-done:
				return nil
			default:
			}
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits); err != nil {
				return err
			}
		}
		return nil
	})
	if <-done; err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, f, f.a, `SELECT count(*)::int FROM document_signatures WHERE paired`); n != 2 {
		t.Errorf("%d of 2 are paired", n)
	}
	expectNear(t, f.near(t, f.a, first), "contract v2.md version newer")
}

// countedNear counts how often documents are compared.
type countedNear struct {
	retrieval.NearDuplicates
	calls int
}

func (c *countedNear) Paired(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) (map[uuid.UUID]retrieval.Compared, error) {
	c.calls++
	return c.NearDuplicates.Paired(ctx, p, collection, versions)
}

func TestTheNewestVersionGoesFirst(t *testing.T) {
	f := setUp(t, store.Options{})
	catalogue, err := plan.LoadCatalogue(fstest.MapFS{"p.yaml": {Data: []byte("name: p\nstages:\n- lexical: {k: 100}\n- newest\n- limit: {k: 20}\n- dedupe: {cosine: 1}\n")}}, "p")
	if err != nil {
		t.Fatal(err)
	}
	near := &countedNear{NearDuplicates: f.SearchStore}
	engine, err := run.NewEngine(catalogue, retrieval.Sources{Lexical: newIndex(f), Texts: f.SearchStore, NearDuplicates: near})
	if err != nil {
		t.Fatal(err)
	}
	search := func(question string) (ranked, chosen []string, first schema.Candidate) {
		t.Helper()
		r, err := engine.Run(t.Context(), wire.SearchQuery{Principal: f.a, Query: schema.Query{Collection: f.collection, Text: question, K: 100}})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range r.Candidates {
			if i > 0 && c.Score > r.Candidates[i-1].Score {
				t.Errorf("%q: rank %d scores more than the one before", question, i+1)
			}
			if strings.Contains(c.Text, "monthly fee") {
				ranked = append(ranked, c.ExternalID)
				if slices.Contains(r.Context, i) {
					chosen = append(chosen, c.ExternalID)
				}
			}
		}
		return ranked, chosen, r.Candidates[0]
	}
	v1 := &written{name: "contract v1.md", body: contract("500 fee fee fee")}
	f.write(t, f.a, f.collection, v1)
	search("What is the monthly fee?")
	if near.calls > 0 {
		t.Error("documents were compared where none has near-duplicates")
	}
	v3, v2 := &written{name: "contract v3.md", body: contract("650")}, &written{name: "contract v2.md", body: contract("600 fee")}
	lacks := &written{name: "contract v9.md", body: strings.Split(contract("1"), "/")[0] + " |" + strings.Split(contract("1"), "|")[1]}
	acme := &written{name: "offer.md", body: contract("40 for Acme"), title: "Offer"}
	f.write(t, f.a, f.collection, v3, v2, lacks)
	for question, want := range map[string]string{
		"What is the monthly fee?":                      "contract v3.md contract v2.md contract v1.md; contract v3.md",
		"What is the monthly fee in v2?":                "contract v2.md contract v3.md contract v1.md; contract v2.md",
		"What is the monthly fee by version 1?":         "contract v1.md",
		"How did the monthly fee change from v1 to v3?": "",
	} {
		ranked, chosen, first := search(question)
		got := strings.Join(ranked, " ") + "; " + strings.Join(chosen, " ")
		switch {
		case want == "": // both are asked for: neither hides the other
			if !slices.Contains(chosen, v1.name) || !slices.Contains(chosen, v3.name) {
				t.Errorf("%q: %s", question, got)
			}
		case !strings.HasPrefix(got, want):
			t.Errorf("%q: %s; want %s", question, got, want)
		case strings.HasPrefix(want, v3.name):
			if n := first.NearDuplicates; len(n) != 2 || n[0].Document != v1.name || n[0].Newer || n[0].By != schema.NewerByVersion ||
				n[0].DocumentID != v1.id || n[0].Span.Version != v1.version || n[1].Document != v2.name {
				t.Errorf("the same passage of other versions: %+v", n)
			}
		}
	}
	// Contracts of one form with other parties: the text says who is meant.
	f.write(t, f.a, f.collection, acme)
	f.write(t, f.a, f.collection, &written{name: "offer b.md", body: contract("30 for Bolt"), title: "Offer"})
	if _, chosen, _ := search("What is the monthly fee of Acme?"); len(chosen) == 0 || chosen[0] != acme.name {
		t.Errorf("of Acme: %q", chosen)
	}
}

// TestPairedAreThoseThatShareAKey: versions are paired with others of their batch, or of an earlier
// one, that share a key.
func TestPairedAreThoseThatShareAKey(t *testing.T) {
	for name, batches := range map[string]int{"in one batch": 1, "one after the other": 2} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, store.Options{})
			one, two := &written{name: "one.md", body: contract("500")}, &written{name: "two.md", body: contract("600")}
			other := &written{name: "other.md", body: strings.ReplaceAll(contract("500"), "u", "zz")}
			if batches == 1 {
				f.write(t, f.a, f.collection, one, two, other)
			} else {
				f.write(t, f.a, f.collection, one, other)
				f.write(t, f.a, f.collection, two)
			}
			var paired []string
			err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
				rows, err := tx.Query(ctx, `
SELECT d.external_id FROM document_signatures s JOIN versions v ON v.id = s.version_id JOIN documents d ON d.id = v.document_id WHERE s.paired ORDER BY 1`)
				if err == nil {
					paired, err = pgx.CollectRows(rows, pgx.RowTo[string])
				}
				return err
			})
			if err != nil || !slices.Equal(paired, []string{"one.md", "two.md"}) {
				t.Errorf("paired are %q, %v", paired, err)
			}
		})
	}
}
