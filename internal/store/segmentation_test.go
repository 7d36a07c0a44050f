package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

func TestSegmentationIsPartOfTheRecipe(t *testing.T) {
	f := setUp(t, store.Options{})
	ctx := t.Context()
	c, err := f.CreateCollection(ctx, f.a, schema.NewCollection{Name: "chunks", Segmentation: schema.Segmentation{By: schema.BySimilarity, Threshold: 0.6}})
	if err != nil {
		t.Fatal(err)
	}
	chunks := schema.Segmentation{By: schema.BySimilarity, Threshold: 0.6, MaxCharacters: 500, MaxTokens: 400}
	if c.Segmentation != chunks {
		t.Errorf("made with %+v", c.Segmentation)
	}
	recipe, err := f.LiveRecipe(ctx, f.a.Tenant, c.ID)
	if err != nil || recipe.Generation != 1 || recipe.Segmentation != chunks {
		t.Errorf("its recipe is %+v, %v", recipe, err)
	}
	for field, wrong := range map[string]schema.Segmentation{
		"segmentation.by":             {By: "sage"},
		"segmentation.threshold":      {By: schema.BySimilarity, Threshold: 2},
		"segmentation.max_characters": {By: schema.BySentences, MaxCharacters: 100},
		"segmentation.sentences":      {By: schema.BySentences, Sentences: -1},
		"segmentation.min_tokens":     {By: schema.BySegmenter, MinTokens: 500},
	} {
		_, made := f.CreateCollection(ctx, f.a, schema.NewCollection{Name: "wrong", Segmentation: wrong})
		_, rebuilt := f.StartRebuild(ctx, f.a, c.ID, schema.NewRebuild{Segmentation: wrong})
		for _, err := range []error{made, rebuilt} {
			var named *schema.FieldError
			if !errors.As(err, &named) || named.Field != field {
				t.Errorf("%+v: %v, want an error about %s", wrong, err, field)
			}
		}
	}
	r, err := f.StartRebuild(ctx, f.a, c.ID, schema.NewRebuild{Segmentation: schema.Segmentation{By: schema.BySentences}})
	if want := (schema.Segmentation{By: schema.BySentences, Sentences: 2, MaxTokens: 400}); err != nil || r.Generation != 2 || r.Segmentation != want {
		t.Fatalf("rebuild: %+v, %v", r, err)
	}
	// Default settings are the same recipe whether they are given or not.
	if again, err := f.StartRebuild(ctx, f.a, c.ID, schema.NewRebuild{Segmentation: r.Segmentation}); err != nil || again.Generation != 2 {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	_, err = f.StartRebuild(ctx, f.a, c.ID, schema.NewRebuild{Segmentation: schema.Segmentation{By: schema.BySentences, Sentences: 3}})
	if !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), "sentences=2") {
		t.Errorf("asked for another recipe: %v", err)
	}
	if recipe, err := f.LiveRecipe(ctx, f.a.Tenant, c.ID); err != nil || recipe.Segmentation != chunks {
		t.Errorf("the live recipe changed before its time: %+v, %v", recipe, err)
	}
}
