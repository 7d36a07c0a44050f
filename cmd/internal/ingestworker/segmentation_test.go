//go:build cgo

package ingestworker

// Collections of the same files with different segmentations.

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// storedSections are the sections of a collection's live generation, and where their passages
// begin.
func (w *world) storedSections(collection uuid.UUID) map[string][]int {
	w.t.Helper()
	rows, err := w.superuser().Query(w.context(), `
		SELECT s.body, p.start_byte FROM passages p
		JOIN sections s ON s.id = p.section_id
		JOIN collections c ON c.id = p.collection_id AND c.generation = p.generation
		JOIN versions v ON v.id = p.version_id AND v.state = 'ready'
		WHERE c.id = $1 ORDER BY s.id, p.ordinal`, collection)
	w.ok(err)
	out := map[string][]int{}
	defer rows.Close()
	for rows.Next() {
		var body string
		var start int
		w.ok(rows.Scan(&body, &start))
		out[body] = append(out[body], start)
	}
	w.ok(rows.Err())
	return out
}

// passageStarts returns where a section's passages begin according to the model server.
func (w *world) passageStarts(models *modelclient.Client, body string, g schema.Segmentation) []int {
	w.t.Helper()
	units := text.Units(body, g)
	var sentences []string
	for _, u := range units {
		sentences = append(sentences, strings.TrimSpace(u.Of(body)))
	}
	var scores []float64
	switch {
	case len(units) < 2:
	case g.By == schema.BySegmenter:
		got, threshold, err := models.Segment(w.context(), wire.LaneBulk, [][]string{sentences})
		w.ok(err)
		for _, s := range got[0] {
			scores = append(scores, float64(s))
		}
		g.Threshold = threshold
	case g.By == schema.BySimilarity:
		info, err := models.Info(w.context())
		w.ok(err)
		if g.Calibrated, g.Threshold = false, info.Calibrated[wire.CalibratedSimilarity]; g.Threshold == 0 {
			w.t.Fatal("the pack has no threshold of similarity")
		}
		vectors, _, err := models.Encode(w.context(), wire.LaneBulk, sentences)
		w.ok(err)
		for i := 1; i < len(units); i++ {
			cosine := float32(0)
			for j, x := range vectors.Row(i) {
				cosine += x * vectors.Row(i - 1)[j]
			}
			scores = append(scores, float64(cosine))
		}
	}
	passages, err := text.Passages(body, units, scores, g)
	w.ok(err)
	var out []int
	for _, p := range passages {
		out = append(out, p.Start)
	}
	return out
}

// checkSegmentation checks that every section of a collection is cut as g says, and returns how
// many passages there are.
func (w *world) checkSegmentation(models *modelclient.Client, collection uuid.UUID, g schema.Segmentation) int {
	w.t.Helper()
	n := 0
	for body, got := range w.storedSections(collection) {
		if want := w.passageStarts(models, body, g); !slices.Equal(slices.Compact(slices.Sorted(slices.Values(got))), want) {
			w.t.Errorf("%s: passages of %.60q begin at %v, want %v", g, body, got, want)
		}
		n += len(got)
	}
	return n
}

func TestCollectionsAreCutInTheirOwnWaysWithRealParsersAndModels(t *testing.T) {
	w := newWorld(t)
	w.modelServer()
	models := modelclient.New(w.nats, modelclient.Options{})
	var files []string
	collections := map[string]uuid.UUID{}
	for _, method := range []string{"segmenter", "similarity,threshold=calibrated", "sentences", "recursive,max_characters=300"} {
		given, err := schema.ParseSegmentation(method)
		w.ok(err)
		c, err := w.store.CreateCollection(w.context(), w.principal, schema.NewCollection{Name: given.By, Segmentation: given})
		w.ok(err)
		collections[method] = c.ID
		var uploads []schema.Upload
		for name, data := range examples(t) {
			if filepath.Ext(name) == ".md" || filepath.Ext(name) == ".txt" {
				uploads = append(uploads, schema.Upload{ExternalID: name, FileName: name, Content: bytes.NewReader(data)})
				files = append(files, name)
			}
		}
		_, err = documents.New(w.store, documents.Options{}).Upload(w.context(), w.principal, c.ID, uploads)
		w.ok(err)
	}
	w.startProduction()
	w.awaitStates(map[schema.State]int{schema.StateReady: len(files)})
	w.checkStored()
	counts := map[string]int{}
	for method, id := range collections {
		g, err := schema.ParseSegmentation(method)
		w.ok(err)
		g, err = g.Complete()
		w.ok(err)
		counts[method] = w.checkSegmentation(models, id, g)
		c, err := w.store.Collection(w.context(), w.principal, id.String())
		w.ok(err)
		if c.Segmentation != g {
			t.Errorf("collection %s has %+v", c.Name, c.Segmentation)
		}
	}
	if counts["segmenter"] == counts["sentences"] || counts["segmenter"] == counts["similarity,threshold=calibrated"] {
		t.Errorf("passages: %v", counts)
	}

	// The segmenter's collection is rebuilt with three sentences, and the others stay.
	w.collection = collections["segmenter"]
	r := w.rebuild(schema.NewRebuild{Segmentation: schema.Segmentation{By: schema.BySentences, Sentences: 3}})
	if want := (schema.Segmentation{By: schema.BySentences, Sentences: 3, MaxTokens: 400}); r.Segmentation != want || r.Generation != 2 {
		t.Errorf("asked for: %+v", r)
	}
	w.awaitRebuild(schema.GenerationLive)
	w.checkGeneration()
	if n := w.checkSegmentation(models, w.collection, r.Segmentation); n == 0 || n == counts["segmenter"] {
		t.Errorf("%d passages, there were %v", n, counts)
	}
	// New documents use the new recipe, and a rebuild without one keeps it.
	w.upload("late.md", "# Late\n\nOne is here. Two is here. Three is here. Four is here.\n")
	w.awaitStates(map[schema.State]int{schema.StateReady: len(files) + 1})
	w.checkSegmentation(models, w.collection, r.Segmentation)
	if again := w.rebuild(schema.NewRebuild{Language: "de"}); again.Segmentation != r.Segmentation {
		t.Errorf("the recipe did not stay: %+v", again)
	}
	w.awaitRebuild(schema.GenerationLive)
	w.checkSegmentation(models, w.collection, r.Segmentation)
}

// TestPackWithoutAThresholdOfSimilarityFailsTheDocuments: the reason says so, and a rebuild with a
// threshold includes them.
func TestPackWithoutAThresholdOfSimilarityFailsTheDocuments(t *testing.T) {
	w := newWorld(t) // its models have no calibrated thresholds
	c, err := w.store.CreateCollection(w.context(), w.principal, schema.NewCollection{Name: "calibrated",
		Segmentation: schema.Segmentation{By: schema.BySimilarity, Calibrated: true}})
	w.ok(err)
	w.collection = c.ID
	w.uploadAll(someDocuments(2))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateFailed: 2})
	if why := w.reasons(); !strings.Contains(why, "threshold of similarity") {
		t.Errorf("the reasons are %s", why)
	}
	w.rebuild(schema.NewRebuild{Segmentation: schema.Segmentation{By: schema.BySimilarity, Threshold: 0.5}})
	w.awaitStates(map[schema.State]int{schema.StateReady: 2})
	w.checkStored()
}
