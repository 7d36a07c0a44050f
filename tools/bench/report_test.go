package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
)

const exposition = `# HELP sluice_ingest_stage_duration_seconds Time of a stage of a batch, by stage and part.
# TYPE sluice_ingest_stage_duration_seconds histogram
sluice_ingest_stage_duration_seconds_bucket{part="all",stage="parse",le="+Inf"} 2
sluice_ingest_stage_duration_seconds_sum{part="all",stage="parse"} 3.5
sluice_ingest_stage_duration_seconds_sum{part="parser",stage="parse"} 2
sluice_ingest_stage_duration_seconds_sum{part="store",stage="parse"} 1
sluice_ingest_stage_duration_seconds_sum{part="all",stage="write"} 4
sluice_ingest_stage_duration_seconds_sum{part="transaction",stage="write"} 4
sluice_ingest_batch_duration_seconds_sum 10
sluice_ingest_batch_duration_seconds_count 2
sluice_ingest_batches_open 1
temporal_workflow_endtoend_latency_seconds_sum{workflow_type="IngestVersions",worker_type="none"} 9
temporal_workflow_endtoend_latency_seconds_sum{workflow_type="AnswerQuestion",worker_type="none"} 90
odd{text="a \"quoted\" {brace}, here"} 1.5e+09
go_goroutines 42
`

func TestStagesAreReadFromMetrics(t *testing.T) {
	samples, err := parseSamples(strings.NewReader(exposition))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		if s.Metric[model.MetricNameLabel] == "odd" && (s.Metric["text"] != `a "quoted" {brace}, here` || s.Value != 1.5e9) {
			t.Errorf("odd is %+v", s)
		}
	}
	now := ingestion(samples)
	before := progress{stages: map[stage]float64{{"parse", "parser"}: 0.5, {"parse", whole}: 0.5}, batches: 1, seconds: 1}
	got := now.since(before)
	if got.batches != 1 || got.seconds != 9 || got.durable != 9 || got.open != 1 || got.stages[stage{"parse", "parser"}] != 1.5 || got.stages[stage{"write", whole}] != 4 {
		t.Errorf("%+v", got)
	}
	if now.stages[stage{"parse", "parser"}] != 2 {
		t.Error("the later reading was changed")
	}
	for _, bad := range []string{"{x}", "name", "name{a=\"b\"} x"} {
		if _, err := parseSamples(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// example returns a result of 20 s on 2 cores. Parsing, models and SQL take 32 of the 40 CPU
// seconds.
func example() *ingestResult {
	r := &ingestResult{
		Corpus: "made", Documents: 100, Bytes: 5e6, Passages: 9000, Cores: 2, Wall: 20, SystemBusy: 38,
		CPU: map[part]float64{partParse: 4, partModel: 20, partSQL: 8, partSluice: 3, partTemporal: 1, partNATS: 0.5, partClient: 0.5},
	}
	r.add(progress{batches: 4, seconds: 70, durable: 63, stages: map[stage]float64{
		{"parse", whole}: 10, {"parse", "parser"}: 7, {"parse", "store"}: 2,
		{"segment", whole}: 20, {"segment", "model"}: 15, {"segment", "text"}: 5,
		{"write", whole}: 30, {"write", "transaction"}: 30, {"write", "unused"}: 0,
	}})
	return r
}

func TestRatioAndShares(t *testing.T) {
	r := example()
	if got := r.ratio(); got != 20/((4.0+20+8)/2) {
		t.Errorf("the ratio is %g", got)
	}
	spans := map[string]float64{}
	sum := 0.0
	for _, s := range r.spans() {
		spans[s.Name] = s.Seconds
		sum += s.Seconds
	}
	if spans["PostgreSQL"] != 32 || spans["models"] != 15 || spans["parsing"] != 7 || spans["cutting text"] != 5 ||
		spans["within stages, the rest"] != 1 || spans["Temporal, between stages"] != 3 || spans["waiting for a turn, and claiming"] != 7 || sum != 70 {
		t.Errorf("batches' time is divided as %v", spans)
	}
}

func TestBottleneckIsNamed(t *testing.T) {
	r := example()
	if got := r.bottleneck(); !strings.HasPrefix(got, "CPU") || !strings.Contains(got, "gpu-segmenter (54 %)") {
		t.Errorf("on a full machine: %s", got)
	}
	r.Wall, r.SystemBusy = 60, 40
	r.BatchSeconds += 100 // spent in a queue
	if got := r.bottleneck(); !strings.HasPrefix(got, "waiting") || !strings.Contains(got, "PostgreSQL (19 %)") {
		t.Errorf("on an idle machine: %s", got)
	}
}

func TestReport(t *testing.T) {
	r := example()
	var b bytes.Buffer
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5.0 documents/s", "0.25 MB/s", "450 passages/s", "= 20.0 / ((4.0 + 20.0 + 8.0) / 2) = 20.0 / 16.0 = 1.25", ratioText, "bottleneck"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "Other programs took") {
		t.Errorf("a quiet machine is called busy:\n%s", b.String())
	}
	r.SystemBusy = 60
	b.Reset()
	if err := r.print(&b); err != nil || !strings.Contains(b.String(), "Other programs took") {
		t.Errorf("a busy machine is not called so: %v\n%s", err, b.String())
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Documents int
		Ratio     float64
		Wall      float64            `json:"wall_seconds"`
		CPU       map[string]float64 `json:"cpu_seconds"`
	}
	if err := json.Unmarshal(data, &back); err != nil || back.Ratio != 1.25 || back.Wall != 20 || back.CPU["model"] != 20 || back.Documents != 100 {
		t.Errorf("%+v, %v", back, err)
	}
	if err := (&ingestResult{Cores: 2, Wall: 1}).check(); err == nil {
		t.Error("nothing ready is a result")
	}
}
