package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// documentOf gives an item of a followed source a live document.
func (f *fixture) documentOf(t *testing.T, of uuid.UUID, item string) uuid.UUID {
	t.Helper()
	up := f.upload(t, f.a, f.collection, text(item, "Of "+item+"."))
	f.goLive(t, f.a, up.Document, up.Version)
	execAs(t, f, f.a, `UPDATE source_items SET document_id = $3 WHERE source_id = $1 AND item = $2`, of, item, up.Document)
	label, err := f.ItemLabel(t.Context(), f.a.Tenant, of, item)
	if err != nil {
		t.Fatal(err)
	}
	f.give(t, of, item, up.Document, label)
	return up.Document
}

// relabel sets the labels that the documents of a source should have, as workers do.
func (f *fixture) relabel(t *testing.T, of uuid.UUID) {
	t.Helper()
	stale, err := f.StaleItems(t.Context(), f.a.Tenant, of, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stale {
		f.give(t, of, s.Item, s.Document, s.Label)
	}
}

// give sets the label of an item's document.
func (f *fixture) give(t *testing.T, of uuid.UUID, item string, document uuid.UUID, label string) {
	t.Helper()
	p := schema.Principal{Tenant: f.a.Tenant, Writes: &schema.SourceWrite{Source: of, Item: item}}
	if _, err := f.UpdateDocument(t.Context(), p, document, schema.DocumentChange{Labels: &[]string{label}}); err != nil {
		t.Fatal(err)
	}
}

// TestExplanationsSayWhatHolds compares each explanation with what its subject can read.
func TestExplanationsSayWhatHolds(t *testing.T) {
	f := setUp(t, store.Options{})
	of := f.followedSource(t, 7)
	execAs(t, f, f.a, `UPDATE source_access SET principals_at = now() WHERE source_id = $1`, of)
	documents := map[string]uuid.UUID{}
	for i := range 7 {
		item := fmt.Sprint("i", i)
		documents[item] = f.documentOf(t, of, item)
	}
	plain := f.upload(t, f.a, f.collection, text("plain", "Plain."))
	f.goLive(t, f.a, plain.Document, plain.Version)
	labelled := text("labelled", "Labelled.")
	labelled.Labels = []string{"legal"}
	legal := f.upload(t, f.a, f.collection, labelled)
	f.goLive(t, f.a, legal.Document, legal.Version)
	documents["plain"], documents["labelled"] = plain.Document, legal.Document

	newKey := func(name string, groups ...string) schema.Principal {
		t.Helper()
		k := sealed(name)
		k.Scopes, k.Groups = []schema.Scope{schema.ScopeQuery}, groups
		made, err := f.CreateKey(t.Context(), f.a, f.a.Tenant, k)
		if err != nil {
			t.Fatal(err)
		}
		return schema.Principal{Tenant: f.a.Tenant, Key: made.ID, Scopes: made.Scopes, Groups: groups}
	}
	ann, bob, stranger := newKey("ann"), newKey("bob", "legal"), newKey("stranger")
	node := func(id string, entries ...schema.AccessEntry) schema.AccessNode {
		return schema.AccessNode{ID: id, Entries: entries}
	}
	if err := f.PushAccess(t.Context(), f.a, of, schema.AccessPush{
		Principals: []schema.PushedPrincipal{{ID: "u1", Name: "Ann"}, {ID: "u2", Name: "Bob"}, {ID: "inner", Group: true, Members: []string{"u1", "outer"}},
			{ID: "outer", Group: true, Name: "Staff", Members: []string{"inner"}}},
		Folders: []schema.AccessNode{node("f", schema.AccessEntry{Principal: "u1"})},
		Items: []schema.AccessNode{
			node("i0", schema.AccessEntry{Principal: "u1"}),
			node("i1", schema.AccessEntry{Principal: "outer"}),
			node("i2", schema.AccessEntry{Principal: "outer"}, schema.AccessEntry{Principal: "u1", Deny: true}, schema.AccessEntry{Principal: "u2"}),
			node("i3", schema.AccessEntry{Principal: "*", Rank: 1}, schema.AccessEntry{Principal: "ghost", Deny: true}),
			{ID: "i4", Folder: "f", Inherits: true, Requires: [][]schema.AccessEntry{{{Principal: "u2"}}}},
			{ID: "i5", Folder: "unknown", Inherits: true},
			node("i6", schema.AccessEntry{Principal: "*"}),
		}}); err != nil {
		t.Fatal(err)
	}
	subject := func(p schema.Principal) schema.AccessSubject {
		return schema.AccessSubject{Kind: schema.AccessKey, Value: p.Key.String()}
	}
	for principal, p := range map[string]schema.Principal{"u1": ann, "u2": bob} {
		if _, err := f.MapPrincipal(t.Context(), f.a, of, principal, subject(p)); err != nil {
			t.Fatal(err)
		}
	}
	explain := func(p schema.Principal, item, reason string) schema.AccessExplanation {
		t.Helper()
		e, err := f.ExplainAccess(t.Context(), f.a, documents[item], subject(p))
		if err != nil {
			t.Fatal(err)
		}
		labels, _, err := f.AccessLabels(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		reader := p
		reader.Groups = slices.Concat(p.Groups, labels)
		_, err = f.Document(t.Context(), reader, documents[item])
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			t.Fatal(err)
		}
		if e.Allowed != (err == nil) {
			t.Errorf("%s: it is explained as %t, and reading it gives %v", item, e.Allowed, err)
		}
		if !strings.Contains(e.Reason, reason) {
			t.Errorf("%s: the reason is %q, want %q in it", item, e.Reason, reason)
		}
		return e
	}
	// The documents still have their old labels, whose list allows nobody.
	if e := explain(ann, "i0", "until it has its new label"); e.Allowed || e.Decided == nil || e.Decided.Principal != "u1" {
		t.Errorf("before it has its label: %+v", e)
	}
	f.relabel(t, of)
	for _, c := range []struct {
		who          schema.Principal
		item, reason string
		allowed      bool
	}{
		{ann, "i0", "lets in u1 (Ann)", true},
		{ann, "i1", "lets in outer (Staff)", true},
		{ann, "i2", "keeps out u1 (Ann)", false},
		{bob, "i2", "lets in u2 (Bob)", true},
		{bob, "i1", "lets in outer (Staff); they are none", false},
		{ann, "i3", "ghost", false},
		{ann, "i4", "lets in u2 (Bob); they are none", false},
		{bob, "i4", "lets in u1 (Ann); they are none", false},
		{ann, "i5", "a folder that it inherits from is not known", false},
		{ann, "i6", "lets in everyone", true},
		{stranger, "i6", "map a user or a group", false},
		{stranger, "plain", "no labels", true},
		{stranger, "labelled", "none of these", false},
		{bob, "labelled", "one of these", true},
	} {
		if e := explain(c.who, c.item, c.reason); e.Allowed != c.allowed {
			t.Errorf("%s: %+v", c.item, e)
		}
	}
	e := explain(ann, "i1", "")
	paths := map[string][]string{}
	for _, h := range e.Holds {
		paths[h.Principal] = h.Through
	}
	key := "key " + ann.Key.String()
	if want := []string{key, "u1 (Ann)", "inner"}; len(paths) != 3 || !slices.Equal(paths["outer"], want) || !slices.Equal(paths["u1"], []string{key}) || e.Item != "i1" || *e.Source != of {
		t.Errorf("they hold %v in %+v", paths, e)
	}
	if e := explain(ann, "i2", ""); len(e.Entries) != 3 || e.Entries[0] != (schema.AccessRule{Principal: "u1", Name: "Ann", Deny: true, Known: true}) || *e.Decided != e.Entries[0] {
		t.Errorf("its entries are %+v", e.Entries)
	}

	// A group, a person on whose behalf a key asks, a person who never signed in, and a revoked
	// key.
	for _, who := range []schema.AccessSubject{{Kind: schema.AccessGroup, Value: "staff"}, {Kind: schema.AccessAsker, Value: "carla"}, {Kind: schema.AccessPerson, Value: "https://id.example|7"}} {
		for _, mapped := range []bool{false, true} {
			if mapped {
				if _, err := f.MapPrincipal(t.Context(), f.a, of, "u2", who); err != nil {
					t.Fatal(err)
				}
			}
			if e, err := f.ExplainAccess(t.Context(), f.a, documents["i2"], who); err != nil || e.Allowed != mapped {
				t.Errorf("%v, mapped %t: %+v, %v", who, mapped, e, err)
			}
		}
	}
	if _, err := f.RevokeKey(t.Context(), f.a, ann.Key); err != nil {
		t.Fatal(err)
	}
	if e, err := f.ExplainAccess(t.Context(), f.a, documents["plain"], subject(ann)); err != nil || e.Allowed || !strings.Contains(e.Reason, "revoked") {
		t.Errorf("a revoked key: %+v, %v", e, err)
	}
	for _, wrong := range []schema.AccessSubject{{Kind: schema.AccessKey, Value: schema.NewID().String()}, {Kind: schema.AccessKey, Value: "x"}} {
		if _, err := f.ExplainAccess(t.Context(), f.a, documents["plain"], wrong); err == nil {
			t.Errorf("%v is explained", wrong)
		}
	}
	if _, err := f.ExplainAccess(t.Context(), f.b, documents["plain"], schema.AccessSubject{Kind: schema.AccessGroup, Value: "staff"}); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("another tenant's document: %v", err)
	}
}
