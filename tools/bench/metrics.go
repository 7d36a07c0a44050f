package main

// This file reads the metrics of `sluice up` at /metrics.

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sluice-rag/sluice/schema/wire"
)

// parseSamples parses Prometheus' text format.
func parseSamples(r io.Reader) (model.Vector, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	out, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return out, nil
}

// scrape reads /metrics.
func scrape(ctx context.Context, url string) (model.Vector, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: the server says %s", reply.Status)
	}
	return parseSamples(reply.Body)
}

// stage is one timed part of one stage of ingestion.
type stage struct{ stage, part string }

// whole is the part that covers a whole stage.
const whole = "all"

// progress has the totals of ingestion's metrics so far.
type progress struct {
	stages  map[stage]float64 // seconds, summed over batches
	batches float64           // number of batches that have ended
	seconds float64           // total of those batches
	durable float64           // total seconds of their workflows
	open    float64           // number of running batches
}

// ingestion extracts the progress of ingestion.
func ingestion(samples model.Vector) progress {
	out := progress{stages: map[stage]float64{}}
	for _, s := range samples {
		v := float64(s.Value)
		switch s.Metric[model.MetricNameLabel] {
		case "sluice_ingest_stage_duration_seconds_sum":
			out.stages[stage{string(s.Metric["stage"]), string(s.Metric["part"])}] += v
		case "sluice_ingest_batch_duration_seconds_sum":
			out.seconds += v
		case "sluice_ingest_batch_duration_seconds_count":
			out.batches += v
		case "temporal_workflow_endtoend_latency_seconds_sum":
			if s.Metric["workflow_type"] == wire.WorkflowIngestVersions {
				out.durable += v
			}
		case "sluice_ingest_batches_open":
			out.open += v
		}
	}
	return out
}

// since returns the difference from an earlier reading.
func (p progress) since(before progress) progress {
	out := progress{stages: maps.Clone(p.stages), batches: p.batches - before.batches, seconds: p.seconds - before.seconds,
		durable: p.durable - before.durable, open: p.open}
	for s, seconds := range before.stages {
		out.stages[s] -= seconds
	}
	return out
}
