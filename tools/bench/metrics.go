package main

// This file reads what `sluice up` says of itself at /metrics.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/schema/wire"
)

// sample is one line of Prometheus' text format.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// parseSamples reads Prometheus' text format.
func parseSamples(r io.Reader) ([]sample, error) {
	var out []sample
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		match := sampleLine.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("read metrics: unexpected line %q", line)
		}
		value, err := strconv.ParseFloat(match[3], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %q: %w", line, err)
		}
		s := sample{name: match[1], labels: map[string]string{}, value: value}
		for _, pair := range labelPair.FindAllStringSubmatch(match[2], -1) {
			s.labels[pair[1]] = pair[2]
		}
		out = append(out, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return out, nil
}

// scrape reads /metrics.
func scrape(ctx context.Context, url string) ([]sample, error) {
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

// whole is the part that is all of a stage.
const whole = "all"

// progress is what ingestion has said about itself until now.
type progress struct {
	stages  map[stage]float64 // seconds, summed over batches
	batches float64           // that have ended
	seconds float64           // of those batches, summed
	durable float64           // seconds of their workflows, summed
	open    float64           // batches under way
}

// ingestion reads how far ingestion is.
func ingestion(samples []sample) progress {
	out := progress{stages: map[stage]float64{}}
	for _, s := range samples {
		switch s.name {
		case "sluice_ingest_stage_duration_seconds_sum":
			out.stages[stage{s.labels["stage"], s.labels["part"]}] += s.value
		case "sluice_ingest_batch_duration_seconds_sum":
			out.seconds += s.value
		case "sluice_ingest_batch_duration_seconds_count":
			out.batches += s.value
		case "temporal_workflow_endtoend_latency_seconds_sum":
			if s.labels["workflow_type"] == wire.WorkflowIngestBatch {
				out.durable += s.value
			}
		case "sluice_ingest_batches_open":
			out.open += s.value
		}
	}
	return out
}

// since returns what happened after an earlier reading.
func (p progress) since(before progress) progress {
	out := progress{stages: maps.Clone(p.stages), batches: p.batches - before.batches, seconds: p.seconds - before.seconds,
		durable: p.durable - before.durable, open: p.open}
	for s, seconds := range before.stages {
		out.stages[s] -= seconds
	}
	return out
}
