package ingest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/schema"
)

func TestEmbeddedTextNamesDocumentAndSectionOnce(t *testing.T) {
	for _, c := range []struct {
		title    string
		headings []string
		passage  string
		want     string
	}{
		{"Handbook", []string{"Leave", "Sick leave"}, " Call your lead. ", "Handbook\nSick leave\nCall your lead."},
		{"Handbook", nil, "Text.", "Handbook\nText."},
		{"", []string{"Leave"}, "Text.", "Leave\nText."},
		{"", nil, "Text.", "Text."},
		{"Leave", []string{"Leave"}, "Text.", "Leave\nText."},
		{"Handbook", []string{"Leave"}, "Leave\n\nText.", "Handbook\nLeave\n\nText."},
		{"A\x00 \n title", nil, "Text.", "A title\nText."},
	} {
		if got := ingest.Embedded(c.title, c.headings, c.passage); got != c.want {
			t.Errorf("Embedded(%q, %q, %q) = %q, want %q", c.title, c.headings, c.passage, got, c.want)
		}
	}
}

func TestOptionsNameTheWrongSetting(t *testing.T) {
	if err := ingest.Defaults("holder").Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	for name, change := range map[string]func(*ingest.Options){
		"holder":                         func(o *ingest.Options) { o.Holder = "" },
		"ingest batches":                 func(o *ingest.Options) { o.Batches = 0 },
		"ingest batches during searches": func(o *ingest.Options) { o.BatchesInSearches = 0 },
		"ingest batch size":              func(o *ingest.Options) { o.BatchVersions = 0 },
		"ingest batch bytes":             func(o *ingest.Options) { o.BatchBytes = 0 },
		"ingest batch wait":              func(o *ingest.Options) { o.BatchWait = time.Minute },
		"ingest lease":                   func(o *ingest.Options) { o.Lease = time.Millisecond },
		"ingest grace":                   func(o *ingest.Options) { o.Grace = 2 * o.Lease },
		"ingest requeue":                 func(o *ingest.Options) { o.Requeue = 0 },
		"ingest reconcile":               func(o *ingest.Options) { o.Reconcile = 0 },
		"ingest poll":                    func(o *ingest.Options) { o.Poll = 0 },
		"ingest tries":                   func(o *ingest.Options) { o.Tries = 0 },
		"ingest parallel":                func(o *ingest.Options) { o.Parallel = 0 },
	} {
		o := ingest.Defaults("holder")
		change(&o)
		err := o.Validate()
		if !errors.Is(err, schema.ErrInvalid) || !strings.HasPrefix(err.Error(), name+":") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
