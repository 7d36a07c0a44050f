package e2e

// This file starts a server with another model pack than the one with which its collections were
// made.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// testPacks keeps a collection after a change of the model pack. The collection is searched by its
// words until it is rebuilt.
func testPacks(t *testing.T, p programs) {
	town := func(i int) string {
		return fmt.Sprintf("# Town %d\n\nThe mayor of town%dville is called person%dson.\n\n## Bridge\n\nThe bridge of town%dville is %d metres long.\n", i, i, i, i, 100+i)
	}
	files := map[string]string{}
	for i := range 8 {
		files[fmt.Sprintf("town%d.md", i)] = town(i)
	}
	const question = "How long is the bridge of town7ville?"
	s := p.up(t, localtest.Dir(t))
	s.sluice(t, "ingest", write(t, files), "-c", "old", "--wait").ok(t)
	var plans api.Page[schema.Plan]
	if err := json.Unmarshal(s.call(t, http.MethodGet, "/v1/plans", nil).want(t, http.StatusOK).body, &plans); err != nil || len(plans.Items) < 5 {
		t.Fatalf("plans are %+v, %v", plans, err)
	}
	// byVectors returns which plans compared vectors, and which could compare them, by their
	// traces.
	byVectors := func(s *server, collection string) (compared, could map[string]bool) {
		t.Helper()
		compared, could = map[string]bool{}, map[string]bool{}
		for _, plan := range plans.Items {
			found, err := s.find(t.Context(), api.Query{Collection: collection, Query: question, Plan: plan.Name, K: 3})
			if err != nil || !slices.ContainsFunc(found.Passages, func(c schema.Candidate) bool { return c.ExternalID == "town7.md" && strings.Contains(c.Text, "107") }) {
				t.Errorf("plan %s in %s: %v, %v", plan.Name, collection, names(found.Passages), err)
				continue
			}
			apart := slices.ContainsFunc(found.Trace, func(r schema.StageReport) bool { return r.Stage == schema.StageVectors })
			compared[plan.Name] = !apart && slices.ContainsFunc(found.Passages, func(c schema.Candidate) bool { return c.Scores["dense.passage"] > 0 || c.Scores["dense.section"] > 0 })
			could[plan.Name] = !apart
		}
		return compared, could
	}
	before, _ := byVectors(s, "old")
	if !before["sluice"] || !before["naive"] || before["bm25"] {
		t.Errorf("with the pack that made them, plans compared vectors: %v", before)
	}
	s.stop(t)

	s = p.up(t, s.data, "SLUICE_MODEL_PACK="+filepath.Join(p.repository, "models", "large"))
	_, could := byVectors(s, "old")
	for name, compared := range before {
		if could[name] == compared {
			t.Errorf("plan %s: vectors were compared before: %v; it says that they can be: %v", name, compared, could[name])
		}
	}
	s.sluice(t, "search", question, "-c", "old").ok(t).has(t, "ville is 107", "note: the collection's vectors are of space", "sluice collections rebuild")
	s.sluice(t, "ask", question, "-c", "old").ok(t).has(t, "107", "note: the collection's vectors are of space")
	// New documents of the collection have to wait for the rebuild. Other collections accept
	// documents.
	more := write(t, map[string]string{"town8.md": town(8)})
	s.sluice(t, "ingest", more, "-c", "old", "--wait").fails(t)
	if d := documents(t, s, "old")["town8.md"]; d.Reason == nil || d.Reason.Code != schema.ReasonModel || !strings.Contains(d.Reason.Message, "rebuild") {
		t.Errorf("a document for the old collection: %+v", d.Reason)
	}
	s.sluice(t, "ingest", write(t, files), "-c", "new", "--wait").ok(t)
	if fresh, _ := byVectors(s, "new"); fmt.Sprint(fresh) != fmt.Sprint(before) {
		t.Errorf("in a new collection plans compared vectors: %v, before %v", fresh, before)
	}

	s.sluice(t, "collections", "rebuild", "old", "--wait").ok(t)
	if after, could := byVectors(s, "old"); fmt.Sprint(after) != fmt.Sprint(before) || slices.Contains([]bool{could["sluice"], could["naive"]}, false) {
		t.Errorf("rebuilt, plans compared vectors: %v, before %v", after, before)
	}
	waittest.Until(t, func() string { // it is queued again after the new generation is live
		if d := documents(t, s, "old")["town8.md"]; d.State == schema.StateFailed {
			return "the document that waited for the rebuild is still failed"
		}
		return ""
	})
	s.sluice(t, "ingest", more, "-c", "old", "--wait").ok(t)
	if all := documents(t, s, "old"); len(all) != 9 || all["town8.md"].State != schema.StateReady {
		t.Errorf("after the rebuild: %+v", all)
	}
	s.checkStored(t)
	s.stop(t)
}
