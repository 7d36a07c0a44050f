package apiserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestCollectionsNameTheirSegmentation(t *testing.T) {
	w := newWorld(t)
	var plain, made schema.Collection
	w.post("/v1/collections", json.RawMessage(`{"name": "plain"}`), "").want(http.StatusCreated, &plain)
	if plain.Segmentation.String() != "segmenter,coarse_tokens=400,apart=2,min_tokens=24,max_tokens=256" {
		t.Errorf("without one: %s", plain.Segmentation)
	}
	w.post("/v1/collections", json.RawMessage(`{"name": "c", "segmentation": {"by": "similarity", "threshold": 0.7}}`), "").want(http.StatusCreated, &made)
	if made.Segmentation.String() != "similarity,threshold=0.7,max_characters=500,max_tokens=400" {
		t.Errorf("by similarity: %s", made.Segmentation)
	}
	var own schema.Collection
	w.post("/v1/collections", json.RawMessage(`{"name": "own", "segmentation": {"by": "similarity", "calibrated": true}}`), "").want(http.StatusCreated, &own)
	if own.Segmentation.String() != "similarity,threshold=calibrated,max_characters=500,max_tokens=400" {
		t.Errorf("calibrated: %s", own.Segmentation)
	}
	var rebuild schema.Rebuild
	w.post("/v1/collections/c/rebuild", json.RawMessage(`{"segmentation": {"by": "sentences"}}`), "").want(http.StatusAccepted, &rebuild)
	if rebuild.Segmentation.String() != "sentences,sentences=2,max_tokens=400" {
		t.Errorf("rebuild: %s", rebuild.Segmentation)
	}
	for wrong, wantText := range map[string]string{
		`{"by": "sage"}`:                          "segmentation.by",
		`{"threshold": 0.7}`:                      "segmentation",
		`{"by": "similarity", "threshold": 1.5}`:  "segmentation.threshold",
		`{"by": "segmenter", "calibrated": true}`: "segmentation.calibrated",
		`{"by": "sentences", "threshold": 0.5}`:   "segmentation.threshold",
		`{"by": "sentences", "sentences": 0.5}`:   "segmentation.sentences",
		`{"by": "sentences", "words": 5}`:         "segmentation.words",
		`"sage"`:                                  "segmentation",
	} {
		for path, body := range map[string]string{"/v1/collections": `{"name": "w", "segmentation": ` + wrong + `}`, "/v1/collections/plain/rebuild": `{"segmentation": ` + wrong + `}`} {
			var problem json.RawMessage
			w.post(path, json.RawMessage(body), "").want(http.StatusUnprocessableEntity, &problem)
			if !strings.Contains(string(problem), wantText) {
				t.Errorf("%s to %s: %s, want %s named", wrong, path, problem, wantText)
			}
		}
	}
}
