package e2e

// This file sends conflicting requests at the same time, or one right after another.

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func testRaces(t *testing.T, s *server) {
	t.Run("TwoIngestions", func(t *testing.T) {
		files := map[string]string{}
		for i := range 40 {
			files[fmt.Sprintf("note-%02d.txt", i)] = fmt.Sprintf("Note %d says that locker %d belongs to the night watch.", i, 300+i)
		}
		folder := write(t, files)
		results := make([]result, 3)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() { results[i] = s.sluice(t, "ingest", folder, "-c", "together", "--wait", "--json") })
		}
		wg.Wait()
		for _, r := range results {
			if sum := into[ingested](t, r.ok(t)); sum.Found != 40 || sum.Ready != 40 {
				t.Errorf("%v", r)
			}
		}
		all := documents(t, s, "together")
		for name, d := range all {
			if d.State != schema.StateReady || d.Version != 1 || d.Passages != 1 {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if len(all) != 40 {
			t.Errorf("there are %d documents", len(all))
		}
	})

	t.Run("ManyVersions", func(t *testing.T) {
		s.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": "versions"}).want(t, http.StatusCreated)
		const last = 12
		var document api.Uploaded
		for i := 1; i <= last; i++ {
			text := fmt.Sprintf("The ferry to Skarholm leaves from pier %d.", i)
			r := s.call(t, http.MethodPut, "/v1/collections/versions/content?external_id=ferry.txt", []byte(text)).want(t, http.StatusOK)
			document = as[api.Uploaded](t, r)
		}
		var shown api.DocumentDetail
		waittest.Until(t, func() string {
			shown = as[api.DocumentDetail](t, s.call(t, http.MethodGet, "/v1/documents/"+document.Document.String(), nil).want(t, http.StatusOK))
			for _, v := range shown.Versions {
				if !v.State.Final() {
					return fmt.Sprintf("version %d is %s", v.Number, v.State)
				}
			}
			return ""
		})
		if shown.Version != last || shown.State != schema.StateReady {
			t.Errorf("%+v", shown.Document)
		}
		for _, v := range shown.Versions[1:] {
			if v.State != schema.StateSuperseded && v.State != schema.StateCancelled {
				t.Errorf("version %d is %s", v.Number, v.State)
			}
		}
		found := search(t, s, "versions", "From which pier does the ferry to Skarholm leave?")
		if len(found) != 1 || !containsAll(found[0].Text, []string{fmt.Sprintf("pier %d.", last)}) {
			t.Errorf("found %+v", found)
		}
	})

	t.Run("DeletedOnTheWay", func(t *testing.T) {
		folder := write(t, map[string]string{"gone.txt": "The lantern in the attic is made of copper.", "stays.txt": "The lantern in the porch is made of tin."})
		s.sluice(t, "ingest", folder, "-c", "gone").ok(t)
		s.sluice(t, "documents", "delete", "gone.txt", "-c", "gone").ok(t)
		s.sluice(t, "ingest", folder+"/stays.txt", "-c", "gone", "--wait").ok(t)
		if got := names(search(t, s, "gone", "What is the lantern made of?")); !slices.Equal(got, []string{"stays.txt"}) {
			t.Errorf("found %v", got)
		}
	})

	t.Run("Corpus", func(t *testing.T) {
		folder := write(t, map[string]string{"corpus.jsonl": `{"_id": "d1", "title": "Windmill", "text": "The windmill grinds mustard seed.", "metadata": {"year": 1820}}
{"_id": "d2", "title": "Watermill", "text": "The watermill saws oak."}
`})
		s.sluice(t, "ingest", folder, "-c", "corpus", "--wait").ok(t)
		found := search(t, s, "corpus", "What does the windmill grind?", "--filter", "year <= 1900")
		if len(found) != 1 || found[0].ExternalID != "d1" || found[0].Title != "Windmill" {
			t.Errorf("found %+v", found)
		}
	})

	t.Run("NothingThere", func(t *testing.T) {
		s.sluice(t, "collections", "create", "void", "--description", "Nothing.").ok(t)
		if a := ask(t, s, "void", "Is there anything?"); a.Supported || a.Answer != schema.NoAnswer || len(a.Citations) != 0 {
			t.Errorf("%+v", a)
		}
		if found := search(t, s, "void", "Is there anything?"); len(found) != 0 {
			t.Errorf("%+v", found)
		}
	})
}
