package schema_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestSegmentationHasThePapersValues(t *testing.T) {
	for text, want := range map[string]schema.Segmentation{
		"":                                      {By: "segmenter", CoarseTokens: 400, Apart: 2, MinTokens: 24, MaxTokens: 256},
		"segmenter":                             {By: "segmenter", CoarseTokens: 400, Apart: 2, MinTokens: 24, MaxTokens: 256},
		"segmenter,threshold=0.4,max_tokens=10": {By: "segmenter", Threshold: 0.4, CoarseTokens: 400, Apart: 2, MinTokens: 10, MaxTokens: 10},
		"similarity":                            {By: "similarity", Threshold: 0.8, MaxCharacters: 500, MaxTokens: 400},
		"similarity, threshold=0.3":             {By: "similarity", Threshold: 0.3, MaxCharacters: 500, MaxTokens: 400},
		"similarity,threshold=calibrated":       {By: "similarity", Calibrated: true, MaxCharacters: 500, MaxTokens: 400},
		"sentences":                             {By: "sentences", Sentences: 2, MaxTokens: 400},
		"sentences,sentences=3,max_tokens=200":  {By: "sentences", Sentences: 3, MaxTokens: 200},
	} {
		given, err := schema.ParseSegmentation(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got, err := given.Complete()
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
		again, err := schema.ParseSegmentation(got.String())
		if err != nil || again != got {
			t.Errorf("%q is read as %+v, %v", got.String(), again, err)
		}
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &again); err != nil || again != got {
			t.Errorf("%s is read as %+v, %v", data, again, err)
		}
	}
}

func TestWrongSegmentationNamesItsSetting(t *testing.T) {
	for text, field := range map[string]string{
		"sage":                      "segmentation.by",
		",threshold=0.5":            "segmentation.by",
		"similarity,threshold=1.5":  "segmentation.threshold",
		"similarity,threshold=-0.1": "segmentation.threshold",
		"similarity,threshold=NaN":  "segmentation.threshold",
		"similarity,threshold":      "segmentation.threshold",
		"similarity,threshold=0.5,threshold=calibrated": "segmentation.threshold",
		"segmenter,threshold=calibrated":                "segmentation.calibrated",
		"similarity,max_characters=1":                   "segmentation.max_characters",
		"similarity,max_characters=lots":                "segmentation.max_characters",
		"similarity,sentences=2":                        "segmentation.sentences",
		"sentences,sentences=101":                       "segmentation.sentences",
		"sentences,sentences=-1":                        "segmentation.sentences",
		"sentences,threshold=0.5":                       "segmentation.threshold",
		"sentences,coarse_tokens=10":                    "segmentation.coarse_tokens",
		"segmenter,coarse_tokens=1001":                  "segmentation.coarse_tokens",
		"segmenter,max_tokens=-1":                       "segmentation.max_tokens",
		"segmenter,min_tokens=50,max_tokens=40":         "segmentation.min_tokens",
		"segmenter,max_characters=500":                  "segmentation.max_characters",
		"segmenter,overlap=3":                           "segmentation.overlap",
		"sentences,max_tokens=1001":                     "segmentation.max_tokens",
		"similarity,threshold=0.5,max_characters=-":     "segmentation.max_characters",
	} {
		_, err := schema.ParseSegmentation(text)
		var wrong *schema.FieldError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%q: %v, want an error about %s", text, err, field)
		}
	}
	if _, err := (schema.Segmentation{By: "similarity", Threshold: math.NaN()}).Complete(); err == nil {
		t.Error("a threshold that is no number was taken")
	}
}
