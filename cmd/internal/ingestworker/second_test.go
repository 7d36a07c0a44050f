package ingestworker

// Collections with a second encoder.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// unavailableModels are of servers that do not run.
type unavailableModels struct{ ingest.Models }

func (unavailableModels) Info(context.Context) (wire.ModelInfo, error) {
	return wire.ModelInfo{}, fmt.Errorf("nobody answers: %w", schema.ErrUnavailable)
}

// scriptedSecond is the second encoder, which tests can replace while workers run.
type scriptedSecond struct {
	atomic.Pointer[scriptedModels]
}

func (s *scriptedSecond) Segment(ctx context.Context, lane wire.Lane, runs [][]string) ([][]float32, float64, error) {
	return s.Load().Segment(ctx, lane, runs)
}

func (s *scriptedSecond) Encode(ctx context.Context, lane wire.Lane, texts []string) (wire.Vectors, string, error) {
	return s.Load().Encode(ctx, lane, texts)
}

func (s *scriptedSecond) Link(ctx context.Context, lane wire.Lane, space string, documents []wire.Vectors, keep int) ([][][]wire.PassageLink, string, error) {
	return s.Load().Link(ctx, lane, space, documents, keep)
}

func (s *scriptedSecond) SegmentEncode(ctx context.Context, lane wire.Lane, by schema.Segmentation, documents []wire.SegmentEncodeDocument, keep int) ([]*wire.SegmentEncodeResult, error) {
	return s.Load().SegmentEncode(ctx, lane, by, documents, keep)
}

func (s *scriptedSecond) Info(ctx context.Context) (wire.ModelInfo, error) { return s.Load().Info(ctx) }

// serveSpace makes it serve a space, and run before at the start of each call.
func (s *scriptedSecond) serveSpace(space string, before func(ctx context.Context, op wire.ModelOp, texts []string) error) {
	s.Store(&scriptedModels{dimension: 384, space: space, before: before})
}

// addSecondEncoder gives the world a second encoder.
func (w *world) addSecondEncoder() *scriptedSecond {
	second := &scriptedSecond{}
	second.serveSpace("second", nil)
	w.second = second
	return second
}

// awaitSecond waits until a generation of the second encoder is in a state, of the world's
// collection.
func (w *world) awaitSecond(want schema.GenerationState) schema.Rebuild {
	w.t.Helper()
	w.poll("a generation of the second encoder", func() bool {
		return w.count(`SELECT count(*) FROM generations WHERE encoder = 'second' AND collection_id = $1`, w.collection) > 0
	})
	return w.awaitRebuild(want)
}

// encodedBySecond checks that every passage of the live generation has a vector of the second
// encoder, none of them zero.
func (w *world) encodedBySecond() {
	w.t.Helper()
	passages := w.count(`SELECT count(*) FROM passages p JOIN versions v ON v.id = p.version_id AND v.state = 'ready'
		JOIN collections c ON c.id = p.collection_id AND c.generation = p.generation`)
	vectors := w.count(`SELECT count(*) FROM passages p JOIN versions v ON v.id = p.version_id AND v.state = 'ready'
		JOIN collections c ON c.id = p.collection_id AND c.generation = p.generation
		JOIN vectors_384 e ON e.passage_id = p.id AND e.generation = p.generation AND e.space_id = c.space_id WHERE vector_norm(e.embedding::vector) > 0.1`)
	if passages == 0 || passages != vectors {
		w.t.Errorf("of %d passages %d have a vector of the second encoder", passages, vectors)
	}
	if n := w.count(`SELECT count(*) FROM versions WHERE unencoded AND state = 'ready'`); n != 0 {
		w.t.Errorf("%d versions are still to be encoded", n)
	}
}

func TestTheSecondEncoderTakesACollectionOver(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter, w.settings.CurateKeep = 100*time.Millisecond, -1
	w.uploadAll(someDocuments(10))
	stop := w.start() // without it
	w.awaitStates(map[schema.State]int{schema.StateReady: 10})
	w.curated()
	w.checkGeneration()
	stop()

	second := w.addSecondEncoder()
	w.start()
	done := w.awaitSecond(schema.GenerationLive)
	if done.Encoder != schema.EncoderSecond || done.Space != "second" || done.Versions != 10 {
		t.Errorf("done: %+v", done)
	}
	w.curated()
	w.encodedBySecond()
	w.saveHistories(wire.WorkflowRebuild, "rebuild_collection", "second")

	// New documents are searchable before the second encoder encodes them, and are encoded
	// afterwards.
	held, arrived := make(chan struct{}), make(chan struct{}, 100)
	second.serveSpace("second", func(ctx context.Context, _ wire.ModelOp, _ []string) error {
		arrived <- struct{}{}
		select {
		case <-held:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	w.uploadAll(map[string]string{"late.md": document("late", 4), "doc-001.md": document("another topic", 5)})
	w.awaitStates(map[schema.State]int{schema.StateReady: 11})
	w.poll("the second encoder to be asked", func() bool { return len(arrived) > 0 })
	w.poll("both to be marked", func() bool {
		return w.count(`SELECT count(*) FROM versions WHERE unencoded AND state = 'ready'`) == 2
	})
	if n := w.count(`SELECT count(*) FROM versions v WHERE unencoded AND state = 'ready' AND NOT EXISTS (
		SELECT FROM lexical_entries e WHERE e.version_id = v.id AND NOT e.dead)`); n != 0 {
		t.Errorf("%d of them are not in the lexical index", n)
	}
	close(held)
	w.curated()
	w.encodedBySecond()
	if n := w.count(`SELECT count(*) FROM sections s JOIN versions v ON v.id = s.version_id JOIN collections c ON c.id = v.collection_id
		WHERE v.state = 'ready' AND NOT EXISTS (SELECT FROM cluster_members m WHERE m.section_id = s.id AND m.generation = c.generation)`); n != 0 {
		t.Errorf("%d sections are in no cluster", n)
	}

	// Back to the first encoder, permanently.
	w.rebuild(schema.NewRebuild{Encoder: schema.EncoderFirst})
	w.poll("the first encoder's generation", func() bool {
		return w.count(`SELECT count(*) FROM collections WHERE encoder = 'first' AND generation = 3`) == 1
	})
	w.checkGeneration()
}

func TestACancelledGenerationOfTheSecondEncoderIsNotBegunAgain(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(3))
	w.addSecondEncoder().serveSpace("second", func(ctx context.Context, _ wire.ModelOp, _ []string) error {
		<-ctx.Done()
		return ctx.Err()
	})
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 3})
	w.awaitSecond(schema.GenerationBuilding)
	cancelled, err := w.store.CancelRebuild(w.context(), w.principal, w.collection)
	w.ok(err)
	// Another collection is encoded next, and this one is not.
	one := w.collection
	other, err := w.store.CreateCollection(w.context(), w.principal, schema.NewCollection{Name: "other"})
	w.ok(err)
	w.collection = other.ID
	w.uploadAll(someDocuments(3))
	w.awaitSecond(schema.GenerationBuilding)
	r, err := w.store.Rebuild(w.context(), w.principal, one)
	w.ok(err)
	if r.State != schema.GenerationCancelled || r.Generation != cancelled.Generation {
		t.Errorf("the cancelled one is %+v", r)
	}
}

func TestCollectionsOfTheFirstEncoderStayWithIt(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(3))
	stop := w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 3})
	w.rebuild(schema.NewRebuild{Encoder: schema.EncoderFirst})
	w.awaitRebuild(schema.GenerationLive)
	stop()
	_, _, began, err := w.store.BeginSecond(w.context())
	w.ok(err)
	if began {
		t.Error("a generation of the second encoder was begun for a collection that has the first one's for good")
	}
	if _, err := w.store.StartRebuild(w.context(), w.principal, w.collection, schema.NewRebuild{Encoder: "third"}); err == nil {
		t.Error("there is a third encoder")
	}
	w.rebuild(schema.NewRebuild{Encoder: schema.EncoderAuto})
	if all, err := w.store.Rebuilds(w.context(), 10); err != nil || !slices.ContainsFunc(all, func(r wire.Rebuild) bool { return !r.Second }) {
		t.Errorf("asked for: %+v, %v", all, err)
	}
}

// TestVectorsOfAnotherSecondPackAreRefused: they could not be compared with the stored ones.
func TestVectorsOfAnotherSecondPackAreRefused(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter = 100 * time.Millisecond
	second := w.addSecondEncoder()
	w.uploadAll(someDocuments(3))
	w.start()
	w.awaitSecond(schema.GenerationLive)
	asked := make(chan struct{}, 100)
	second.serveSpace("a third", func(context.Context, wire.ModelOp, []string) error {
		asked <- struct{}{}
		return nil
	})
	w.upload("late.md", document("late", 4))
	w.awaitStates(map[schema.State]int{schema.StateReady: 4})
	w.poll("the second encoder to be asked twice", func() bool { return len(asked) > 1 })
	if n := w.count(`SELECT count(*) FROM versions WHERE unencoded AND state = 'ready'`); n != 1 {
		t.Errorf("%d versions are to be encoded", n)
	}
	if n := w.count(`SELECT count(*) FROM vectors_384 v JOIN spaces s ON s.id = v.space_id WHERE s.name <> 'second'`); n != 0 {
		t.Errorf("%d vectors of another space were written", n)
	}
}

// TestASecondEncoderThatFailsHoldsUpNothing: what it cannot encode stays marked, and everything
// else is curated.
func TestASecondEncoderThatFailsHoldsUpNothing(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter = 100 * time.Millisecond
	second := w.addSecondEncoder()
	w.uploadAll(someDocuments(4))
	w.start()
	w.awaitSecond(schema.GenerationLive)
	w.curated()
	second.serveSpace("second", func(context.Context, wire.ModelOp, []string) error {
		return fmt.Errorf("it cannot: %w", schema.ErrInvalid)
	})
	w.uploadAll(map[string]string{"late.md": document("late", 4), "doc-001.md": document("another topic", 5)})
	w.awaitStates(map[schema.State]int{schema.StateReady: 5})
	w.poll("the version that was replaced to be curated", func() bool {
		return w.count(`SELECT count(*) FROM versions WHERE state = 'superseded' AND curated`) == 1
	})
	if n := w.count(`SELECT count(*) FROM versions WHERE unencoded AND state = 'ready'`); n != 2 {
		t.Errorf("%d versions are to be encoded", n)
	}
}

// TestARebuildGoesBeforeTheSecondEncoder: somebody waits for a rebuild, so the second encoder's
// generation starts again later.
func TestARebuildGoesBeforeTheSecondEncoder(t *testing.T) {
	w := newWorld(t)
	held := make(chan struct{})
	w.addSecondEncoder().serveSpace("second", func(ctx context.Context, _ wire.ModelOp, _ []string) error {
		select {
		case <-held:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	w.uploadAll(someDocuments(3))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 3})
	w.awaitSecond(schema.GenerationBuilding)
	if r := w.rebuild(schema.NewRebuild{Language: "de"}); r.Generation != 3 || r.Language != "de" {
		t.Errorf("asked for: %+v", r)
	}
	w.poll("the rebuild, and the next one", func() bool {
		return w.count(`SELECT count(*) FROM generations WHERE number = 4 AND encoder = 'second' AND language = 'de' AND state = 'building'`) == 1
	})
	if _, err := w.store.StartRebuild(w.context(), w.principal, w.collection, schema.NewRebuild{Language: "fr", Encoder: schema.EncoderFirst}); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("with an encoder of its own: %v", err)
	}
	close(held)
	w.poll("the second encoder's generation", func() bool {
		return w.count(`SELECT count(*) FROM collections WHERE encoder = 'second' AND generation = 4 AND language = 'de'`) == 1
	})
	w.encodedBySecond()
}
