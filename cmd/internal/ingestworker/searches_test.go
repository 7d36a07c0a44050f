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
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service { return hearSearches(nc, fairness.NewForeground(searchedFor)) })
	searches := fairness.NewForeground(time.Hour)
	s := hearSearches(nc, searches)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := searches.Left(time.Now()); left != 0 {
		t.Errorf("before any search somebody counts as searching for %s", left)
	}
	if err := nc.Publish(wire.SearchingSubject, nil); err != nil {
		t.Fatal(err)
	}
	for searches.Left(time.Now()) == 0 && t.Context().Err() == nil {
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
