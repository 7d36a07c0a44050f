package e2e

// This file searches and asks while a collection is rebuilt.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// testRebuild searches with every plan while new generations replace the live one. Each plan must
// find what it found before.
func testRebuild(t *testing.T, s *server) {
	files := map[string]string{}
	for i := range 30 {
		files[fmt.Sprintf("town%02d.md", i)] = fmt.Sprintf("# Town %d\n\nThe mayor of town%dville is called person%dson. "+
			"She opens the market on Mondays.\n\n## Bridge\n\nThe bridge of town%dville is %d metres long and made of stone.\n", i, i, i, i, 100+i)
	}
	s.sluice(t, "ingest", write(t, files), "-c", "rebuilt", "--wait").ok(t)
	var plans api.Page[schema.Plan]
	if err := json.Unmarshal(s.call(t, http.MethodGet, "/v1/plans", nil).want(t, http.StatusOK).body, &plans); err != nil || len(plans.Items) < 5 {
		t.Fatalf("plans are %+v, %v", plans, err)
	}
	expect := func(ctx context.Context, plan string, town int) error {
		found, err := s.find(ctx, api.Query{Collection: "rebuilt", Query: fmt.Sprintf("How long is the bridge of town%dville?", town), Plan: plan, K: 5})
		if err != nil {
			return fmt.Errorf("plan %s: %w", plan, err)
		}
		name := fmt.Sprintf("town%02d.md", town)
		if !slices.ContainsFunc(found.Passages, func(p schema.Candidate) bool {
			return p.ExternalID == name && strings.Contains(p.Text, fmt.Sprint(100+town))
		}) {
			return fmt.Errorf("plan %s does not find %s: %v", plan, name, names(found.Passages))
		}
		return nil
	}
	var asked atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for _, plan := range plans.Items {
		if err := expect(ctx, plan.Name, 7); err != nil {
			t.Fatalf("before the rebuild: %v", err)
		}
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := expect(ctx, plan.Name, i%30); err != nil && ctx.Err() == nil {
					t.Errorf("during the rebuild: %v", err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for i := range 3 { // to German, English and French
		done := into[schema.Rebuild](t, s.sluice(t, "collections", "rebuild", "rebuilt", "--language", []string{"de", "en", "fr"}[i], "--wait", "--json").ok(t))
		if done.State != schema.GenerationLive || done.Generation != i+2 || done.Versions != 30 {
			t.Errorf("rebuild %d: %+v", i+1, done)
		}
	}
	before := asked.Load()
	waittest.Until(t, func() string {
		if n := asked.Load() - before; n < int64(len(plans.Items)) {
			return fmt.Sprintf("%d searches after the last rebuild", n)
		}
		return ""
	})
	stop()
	all.Wait()
	if before < int64(3*len(plans.Items)) {
		t.Errorf("only %d searches ran during three rebuilds", before)
	}
	s.sluice(t, "collections", "delete", "rebuilt", "--yes").ok(t)
}

// find searches. Unlike call, it may be called in any goroutine.
func (s *server) find(ctx context.Context, q api.Query) (found api.SearchResult, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return found, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/search", bytes.NewReader(body))
	if err != nil {
		return found, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+s.key)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return found, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.600s", response.StatusCode, text)
	}
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(text, &found)
}
