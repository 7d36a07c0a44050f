package ingestworker

import (
	"runtime"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/lifecycletest"
	"github.com/sluice-rag/sluice/internal/lifecycle/machine"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestIngestionHearsOfSearches(t *testing.T) {
	server := localtest.NATS(t)
	nc, err := bus.Connect(t.Context(), bus.Options{URL: server.URL(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service {
		return subscribeToSearches(nc, fairness.NewForeground(searchTTL))
	})
	searches := fairness.NewForeground(time.Hour)
	s := subscribeToSearches(nc, searches)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := searches.Remaining(time.Now()); left != 0 {
		t.Errorf("before any search somebody counts as searching for %s", left)
	}
	notification := func(machine string) []byte {
		t.Helper()
		data, err := wire.Encode(wire.Searching{Envelope: wire.Header(), Machine: machine})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if isLocal(notification("another")) {
		t.Error("a search on another machine counts")
	}
	if !isLocal(nil) {
		t.Error("a search of an older query worker, which may be here, does not count")
	}
	if err := nc.Publish(wire.SearchingSubject, notification(machine.ID())); err != nil {
		t.Fatal(err)
	}
	for searches.Remaining(time.Now()) == 0 && t.Context().Err() == nil {
		runtime.Gosched()
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTheSettingWhileSomebodySearchesIsTaken(t *testing.T) {
	var s Settings
	if got, want := s.Options().BatchesInSearches, ingest.Defaults("x").BatchesInSearches; got != want {
		t.Errorf("without a setting %d, want %d", got, want)
	}
	s.IngestBeside = 7
	if got := s.Options().BatchesInSearches; got != 7 {
		t.Errorf("got %d, want 7", got)
	}
}
